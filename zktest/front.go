package zktest

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/zkrecipes/zkrecipes/zktest/internal/ensemble"
)

// Front is one address of the server, which appears to clients as one member of an ensemble. All fronts share one tree
// and one list of sessions, but each has its own connections and watches, and each can be stopped, cut off or made to
// lag individually.
//
// As in an ensemble, more than half of the members must be running and not cut off; initially all fronts are members.
// One of them is the leader. If the leader drops out, another one takes its place: all connections end, and every
// session gets a full timeout again, as with [Server.Up]. Without a majority no front serves requests, and no session
// expires.
type Front struct {
	s *Server

	// Guarded by Server.mu.
	state   *ensemble.Front
	listens bool // it has had a listener
}

// Fronts returns the fronts of [WithFronts]; a standalone server has one.
func (s *Server) Fronts() []*Front { return slices.Clone(s.fronts) }

// Addrs returns the addresses of all fronts, joined by commas as in a connect string.
func (s *Server) Addrs() string {
	list := make([]string, len(s.fronts))
	for i, f := range s.fronts {
		list[i] = f.Addr()
	}
	return strings.Join(list, ",")
}

// frontAt returns the front with the address that a client dials in memory, or the first front for other addresses.
func (s *Server) frontAt(addr string) *Front {
	s.lock()
	defer s.unlock()
	for _, f := range s.fronts {
		if f.state.Addr == addr {
			return f
		}
	}
	return s.fronts[0]
}

// Addr returns the address that clients of this front connect to; see [Server.Addr].
func (f *Front) Addr() string {
	f.s.lock()
	defer f.s.unlock()
	return f.state.Addr
}

// DialAs is like [Server.DialAs], but always connects to this front, whatever the address.
func (f *Front) DialAs(label string) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		return f.s.dialContext(ctx, f, label, network)
	}
}

// Leads reports whether the front is the leader. A standalone server has none.
func (f *Front) Leads() bool {
	f.s.lock()
	defer f.s.unlock()
	return f.state.Role == ensemble.Leading
}

// Stop stops the front as if its process had exited: connections end, and new ones are refused. At the first front
// [Server.Serve] and [Server.ServeAs] return as well; after [Front.Start], call them again.
func (f *Front) Stop() {
	f.s.lock()
	defer f.s.unlock()
	f.s.closeListeners(f)
	f.state.SetStopped(true)
}

// Start brings a stopped front back at its address.
//
// Errors: the front is not a member of the ensemble, because a real server that has left the ensemble exits when it
// starts; or the error from net.Listen. In both cases the front stays stopped.
func (f *Front) Start() error {
	f.s.lock()
	stopped, member, addr, listens := f.state.Stopped, f.state.IsMember(), f.state.Addr, f.listens
	f.s.unlock()
	switch {
	case !stopped:
		return nil
	case !member:
		return fmt.Errorf("zktest: start %s: it is not a member of the ensemble: call Reconfigure first", addr)
	}
	if listens {
		if err := f.listen(addr); err != nil {
			return err
		}
	}
	f.s.lock()
	defer f.s.unlock()
	f.state.SetStopped(false)
	return nil
}

// Isolate cuts the front off from the others. Clients can still reach it, but it closes their connections. With
// [WithReadOnlyMode] it serves the state that it last knew to clients that accept a read-only server.
func (f *Front) Isolate() { f.setIsolated(true) }

// Rejoin ends [Front.Isolate].
func (f *Front) Rejoin() { f.setIsolated(false) }

func (f *Front) setIsolated(on bool) {
	f.s.lock()
	defer f.s.unlock()
	f.state.SetIsolated(on)
}

// Lag makes the front fall behind, until you call [Front.CatchUp], or until it joins a leader: a new one, or after it
// was stopped or cut off. Its clients read the state as of the call to Lag, get no events, and wait for replies to
// writes and to sync. A client that has seen a later transaction elsewhere is turned away.
func (f *Front) Lag() {
	f.s.lock()
	defer f.s.unlock()
	f.state.FallBehind()
}

// CatchUp ends [Front.Lag]: the front sends the pending events and replies in the order of the transactions. A front
// that is not part of the majority cannot catch up.
func (f *Front) CatchUp() {
	f.s.lock()
	defer f.s.unlock()
	f.state.Rejoin()
}
