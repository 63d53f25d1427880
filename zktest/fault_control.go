package zktest

import (
	"slices"

	"github.com/zkrecipes/zkrecipes/zktest/internal/ensemble"
	"github.com/zkrecipes/zkrecipes/zktest/internal/transport"
)

// Direction is one direction of a connection, or both.
type Direction int

// The directions for [Server.Stall].
const (
	Both Direction = iota
	ToServer
	FromServer
)

type stall struct {
	who Who
	dir Direction
}

// Stall stops traffic in the given direction: connections stay open, but neither bytes nor the end of a connection
// arrive, and dialing in memory blocks. On a socket the operating system still accepts connections. After [Server.Heal]
// the bytes arrive, because TCP retransmits them.
func (s *Server) Stall(who Who, dir Direction) {
	s.lock()
	defer s.unlock()
	s.labels.named(who)
	s.stalls = append(s.stalls, stall{who, dir})
	s.stallAll()
}

// Heal ends the stalls of the same [Who], or all of them with [Everyone]. It does not admit clients that
// [Server.Refuse] turns away.
func (s *Server) Heal(who Who) {
	s.lock()
	defer s.unlock()
	s.stalls = slices.DeleteFunc(s.stalls, func(x stall) bool { return who == Everyone || x.who == who })
	s.stallAll()
	close(s.healed)
	s.healed = make(chan struct{})
}

func (s *Server) stallAll() {
	for c := range s.conns {
		s.stallConn(c)
	}
}

// stallConn opens and closes the gates of a connection. The caller holds mu.
func (s *Server) stallConn(c *conn) {
	in, out := true, true
	for _, x := range s.stalls {
		if x.who.includes(c.Label, c.SessionID()) {
			in = in && x.dir == FromServer
			out = out && x.dir == ToServer
		}
	}
	c.In.Set(in)
	c.Out.Set(out)
}

// stalled reports whether a client that dials now gets no answer. The caller holds mu.
func (s *Server) stalled(label string) bool {
	return slices.ContainsFunc(s.stalls, func(x stall) bool { return x.who.includes(label, 0) })
}

// Cut closes connections at once, so queued bytes are lost, and clients read the end of the stream. It returns the
// number of connections.
func (s *Server) Cut(who Who) int {
	s.lock()
	defer s.unlock()
	s.labels.named(who)
	n := 0
	for c := range s.conns {
		if !c.dead && who.includes(c.Label, c.SessionID()) {
			s.release(c, transport.Abrupt)
			n++
		}
	}
	return n
}

// CutAll closes all connections.
func (s *Server) CutAll() int { return s.Cut(Everyone) }

// Refuse closes new connections immediately, until you call [Server.Accept]; [Server.Heal] ends only stalls. Existing
// connections stay open. Because a new connection has no session yet, Refuse takes only [Everyone] or [Label], and
// panics for a [Session]. A client on a socket has the label of [Server.ServeAs], or none.
func (s *Server) Refuse(who Who) {
	need(who.by != bySession, "Refuse: a new connection has no session: want Everyone or a Label")
	s.lock()
	defer s.unlock()
	s.labels.named(who)
	s.refused = append(s.refused, who)
}

// Accept ends [Server.Refuse] for the same [Who], or all refusals with [Everyone].
func (s *Server) Accept(who Who) {
	s.lock()
	defer s.unlock()
	s.refused = slices.DeleteFunc(s.refused, func(w Who) bool { return who == Everyone || w == who })
}

// refuses reports whether to refuse a new connection. The caller holds mu.
func (s *Server) refuses(label string) bool {
	return s.closed || s.down ||
		slices.ContainsFunc(s.refused, func(w Who) bool { return w.includes(label, 0) })
}

// Freeze stops the server as SIGSTOP does: it accepts connections but answers nothing, and no session expires. After
// [Server.Thaw] it first serves the waiting requests, and only then do sessions expire.
func (s *Server) Freeze() { s.setFrozen(true) }

// Thaw ends a [Server.Freeze].
func (s *Server) Thaw() { s.setFrozen(false) }

func (s *Server) setFrozen(on bool) {
	s.lock()
	defer s.unlock()
	if s.frozen == on {
		return
	}
	s.frozen = on
	s.pause()
	if !on {
		s.state.Tracker.Grace()
		for c := range s.conns {
			if !c.dead && !c.mute.until.IsZero() {
				s.startMute(c)
			}
		}
	}
	s.state.Tracker.Wake()
	s.thaw.Set(!on)
}

// Down makes the server unavailable: connections are cut, new ones are closed immediately, and no session expires. Data
// and sessions are kept. If clients on real sockets should get "connection refused", call [Server.StopListening] first.
func (s *Server) Down() {
	s.lock()
	defer s.unlock()
	s.down = true
	s.pause()
	for c := range s.conns {
		s.release(c, transport.Abrupt)
	}
}

// Up makes the server available again. Every session gets a full timeout, starting now: the one that it was created
// with, until a client resumes it.
//
// Source: the constructor of SessionTrackerImpl, which runs when a server starts and when a leader is elected.
func (s *Server) Up() {
	s.lock()
	defer s.unlock()
	s.down = false
	s.pause()
	s.state.RenewSessions()
	s.state.Tracker.Wake()
}

// pause updates in the state whether time passes for sessions and containers. The caller holds mu.
func (s *Server) pause() { s.state.Paused = s.down || s.frozen }

// Restart is [Server.Down] followed by [Server.Up], with no time in between.
func (s *Server) Restart() {
	s.Down()
	s.Up()
}

// Expire ends a session as its timeout would: its nodes are deleted and its connection is closed. It returns false if
// there is no such session.
func (s *Server) Expire(id int64) bool {
	s.lock()
	defer s.unlock()
	ses := s.state.Sessions[id]
	if ses != nil {
		s.state.Expire(ses)
	}
	return ses != nil
}

// LoseWatch removes watches on a path without sending an event, and returns the number of watches. No real server does
// this; use it to test that your code notices a lost event.
func (s *Server) LoseWatch(who Who, path string) int {
	s.lock()
	defer s.unlock()
	s.labels.named(who)
	n := 0
	for _, w := range s.watchTables() {
		for _, x := range slices.Clone(w.Paths[path]) {
			if who.includes(x.Client.Label, x.Client.SessionID()) && w.Drop(path, x.Client, ^ensemble.WatchMode(0)) {
				n++
			}
		}
	}
	return n
}

// SendEvent sends a watch event without a cause. It returns the number of connections that receive it. No real server
// reports a deletion that did not happen, so recipes may take such an event for the grant of a lock.
func (s *Server) SendEvent(who Who, ev Event, path string) int {
	s.lock()
	defer s.unlock()
	s.labels.named(who)
	n := 0
	for c := range s.conns {
		if !c.dead && c.Session != nil && who.includes(c.Label, c.Session.ID) {
			s.state.Notify(c.Client, s.state.Zxid, ev, path, nil)
			n++
		}
	}
	return n
}

// SetZxid sets the zxid of the last transaction. If you set it back, the server refuses clients that have seen a later
// one, as a lagging server does.
func (s *Server) SetZxid(zxid int64) {
	s.lock()
	defer s.unlock()
	s.state.SetZxid(zxid)
}
