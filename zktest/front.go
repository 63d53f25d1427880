package zktest

import (
	"context"
	"fmt"
	"net"
	"strings"
)

// Front is one address of the server, which clients take for one member of an ensemble. All fronts have one tree and one
// list of sessions; each has its own connections and watches, and can be stopped, cut off or made to lag alone.
//
// More than half of the fronts must run and not be cut off. One of them is the leader. If the leader goes, another one
// takes its place: all connections end, and every session gets a full timeout again. Without a majority no front serves,
// and no session expires.
type Front struct {
	s  *Server
	id int // from 1

	// Guarded by Server.mu.
	addr                      string
	stopped, isolated         bool
	role                      role
	lag                       *lag // nil while the front is up to date
	dataWatches, childWatches *watchTable
}

// role is what a front does.
type role int

const (
	following role = iota // also the role of a server that stands alone
	leading
	looking // for a majority: nothing is served
	readingOnly
	absent
)

// serves says whether the front takes part in the majority.
func (r role) serves() bool { return r == following || r == leading }

func newFront(s *Server, id int) *Front {
	addUp := s.cfg.traits.WatchesAddUp
	return &Front{
		s: s, id: id, addr: fmt.Sprintf(inMemoryAddr, id),
		dataWatches: newWatchTable(addUp), childWatches: newWatchTable(addUp),
	}
}

// Fronts returns the fronts of [WithFronts]; a server that stands alone has one.
func (s *Server) Fronts() []*Front { return s.fronts }

// Addrs returns the addresses of all fronts, joined by commas, as clients take them.
func (s *Server) Addrs() string {
	list := make([]string, len(s.fronts))
	for i, f := range s.fronts {
		list[i] = f.Addr()
	}
	return strings.Join(list, ",")
}

// frontAt returns the front with an address that a client dials in memory; for other addresses the first.
func (s *Server) frontAt(addr string) *Front {
	s.lock()
	defer s.unlock()
	for _, f := range s.fronts {
		if f.addr == addr {
			return f
		}
	}
	return s.fronts[0]
}

// Addr returns the address that clients of this front connect to; see [Server.Addr].
func (f *Front) Addr() string {
	f.s.lock()
	defer f.s.unlock()
	return f.addr
}

// DialAs is [Server.DialAs] for this front, whatever the address.
func (f *Front) DialAs(label string) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		return f.s.dial(f, label, network, ctx.Done(), func() error { return context.Cause(ctx) })
	}
}

// Leads says whether the front is the leader. A server that stands alone has none.
func (f *Front) Leads() bool {
	f.s.lock()
	defer f.s.unlock()
	return f.role == leading
}

// Stop ends the front as the end of its process does: connections end, and new ones are refused.
func (f *Front) Stop() {
	f.s.lock()
	defer f.s.unlock()
	f.stopped = true
	f.s.closeListeners(f)
	f.s.elect()
}

// Start brings a stopped front back at its address.
// Errors: the error of net.Listen; the front stays stopped then.
func (f *Front) Start() error {
	f.s.lock()
	stopped, addr := f.stopped, f.addr
	f.s.unlock()
	if !stopped {
		return nil
	}
	if f.s.cfg.listen != "" {
		if err := f.listen(addr); err != nil {
			return err
		}
	}
	f.s.lock()
	defer f.s.unlock()
	f.stopped = false
	f.s.elect()
	return nil
}

// Isolate cuts the front off from the others. Clients still reach it, and it ends their connections. With
// [WithReadOnlyMode] it serves those that accept a read-only server, from what it knew.
func (f *Front) Isolate() { f.setIsolated(true) }

// Rejoin ends [Front.Isolate].
func (f *Front) Rejoin() { f.setIsolated(false) }

func (f *Front) setIsolated(on bool) {
	f.s.lock()
	defer f.s.unlock()
	f.isolated = on
	f.s.elect()
}

// elect decides again what each front does, after one has come or gone. The caller holds mu.
func (s *Server) elect() {
	var active []*Front
	for _, f := range s.fronts {
		if !f.stopped && !f.isolated {
			active = append(active, f)
		}
	}
	var leader *Front
	if len(active) > len(s.fronts)/2 {
		leader = active[len(active)-1]
		if s.leader != nil && !s.leader.stopped && !s.leader.isolated {
			leader = s.leader
		}
	}
	changed := leader != s.leader
	s.leader = leader
	for _, f := range s.fronts {
		if r := s.roleOf(f); r != f.role || changed {
			f.become(r)
		}
	}
	if changed && leader != nil {
		s.nextEpoch()
		s.renewSessions()
	}
	s.tracker.wake()
}

// nextEpoch starts the zxids of a new leader, whose upper half counts the leaders.
func (s *Server) nextEpoch() { s.zxid = (s.zxid>>32 + 1) << 32 }

func (s *Server) roleOf(f *Front) role {
	switch {
	case f.stopped:
		return absent
	case s.leader != nil && !f.isolated && f == s.leader && len(s.fronts) > 1:
		return leading
	case s.leader != nil && !f.isolated:
		return following
	case s.cfg.readOnly:
		return readingOnly
	default:
		return looking
	}
}

// become changes what a front does, which ends its connections. What it knows stands still while it is not part of the
// majority, and sessions that it has made alone end with that time. The caller holds mu.
func (f *Front) become(r role) {
	for c := range f.s.conns {
		if c.front == f && (c.session != nil || r == absent) {
			f.s.release(c, abrupt)
		}
	}
	if f.role == readingOnly {
		for id, ses := range f.s.sessions {
			if ses.local == f {
				f.s.tracker.drop(ses)
				delete(f.s.sessions, id)
			}
		}
	}
	f.role = r
	if r.serves() {
		f.catchUp()
	} else if f.lag == nil {
		f.lag = newLag(f.s)
	}
}
