package zktest

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"
)

// inMemoryAddr is the address of a server without a listener, with the number of the front. A client that dials it over
// TCP is refused at once: port 1 is never handed out, and no ZooKeeper listens there by chance.
const inMemoryAddr = "127.0.0.%d:1"

// Addr returns the host and port of the listener that [Server.Listen] opened most recently, even after
// [Server.StopListening]. With [InMemory] it returns an address for [Server.Dial] and the other dial functions; real
// connections to this address are refused.
func (s *Server) Addr() string { return s.fronts[0].Addr() }

// Listen accepts connections on a TCP address until [Server.StopListening] or [Server.Close]. [Start] calls it unless
// the server runs in memory. To bring the server back at the address that clients know, pass what [Server.Addr]
// returns. With [WithFronts] that is the first front's; call [Front.Stop] and [Front.Start] on the others.
//
// Errors: the error from net.Listen, or net.ErrClosed after Close.
func (s *Server) Listen(addr string) error { return s.fronts[0].listen(addr) }

// listenAll opens the listeners of a starting server.
func (s *Server) listenAll() error {
	if s.cfg.inMemory {
		return nil
	}
	addr := s.cfg.listen
	for _, f := range s.fronts {
		if err := f.listen(addr); err != nil {
			return err
		}
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			return fmt.Errorf("zktest: %w", err)
		}
		addr = net.JoinHostPort(host, "0")
	}
	return nil
}

func (f *Front) listen(addr string) error {
	s := f.s
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("zktest: %w", err)
	}
	s.lock()
	defer s.unlock()
	if s.closed {
		_ = l.Close() // it has accepted nothing
		return fmt.Errorf("zktest: listen on %s: %w", addr, net.ErrClosed)
	}
	f.state.Addr, f.listens = l.Addr().String(), true
	if s.cfg.tls != nil {
		l = tls.NewListener(l, s.cfg.tls)
	}
	s.listeners[l] = f
	s.wg.Go(func() { _ = s.accept("", l, f) }) // accept logs errors
	return nil
}

// StopListening closes all listeners, so that the operating system refuses new connections. Existing connections stay
// open; to end them as well, use [Server.Down].
func (s *Server) StopListening() {
	s.lock()
	defer s.unlock()
	s.closeListeners(nil)
}

// closeListeners ends the accept calls of a front, or all of them for nil. The caller holds mu.
func (s *Server) closeListeners(f *Front) {
	for l, of := range s.listeners {
		if f == nil || f == of {
			_ = l.Close() // Accept reports it
			delete(s.listeners, l)
		}
	}
}

// Serve accepts connections from l for the first front, until [Server.StopListening], [Server.Close] or [Front.Stop] of
// that front is called, and then returns nil. If l fails, Serve returns its error, but after a temporary error, such as
// too many open files, it tries again, with pauses of 5 ms to 1 second. Serve always closes l before it returns.
func (s *Server) Serve(l net.Listener) error { return s.ServeAs("", l) }

// ServeAs is like [Server.Serve], but gives the connections a label. Give each client a listener of its own, so that
// faults can select it.
func (s *Server) ServeAs(label string, l net.Listener) error {
	s.lock()
	closed := s.closed
	if !closed {
		s.listeners[l] = s.fronts[0]
	}
	s.unlock()
	if closed {
		_ = l.Close() // it has accepted nothing
		return nil
	}
	return s.accept(label, l, s.fronts[0])
}

// Pauses after an error that may pass, such as too many open files: the first one, which doubles, and the longest.
const (
	shortestWait = 5 * time.Millisecond
	longestWait  = time.Second
)

// temporary reports whether a listener can continue after an error of Accept.
func temporary(err error) bool {
	var t interface{ Temporary() bool }
	return errors.As(err, &t) && t.Temporary()
}

func (s *Server) listensOn(l net.Listener) bool {
	s.lock()
	defer s.unlock()
	_, listens := s.listeners[l]
	return listens
}

func (s *Server) forget(l net.Listener) {
	s.lock()
	defer s.unlock()
	delete(s.listeners, l)
}

// accept serves the connections of a listener. It returns nil when the listener is closed intentionally.
func (s *Server) accept(label string, l net.Listener, f *Front) error {
	defer func() { _ = l.Close() }() // a second Close only returns an error
	var wait time.Duration
	for {
		nc, err := l.Accept()
		switch {
		case err == nil:
			wait = 0
		case !s.listensOn(l):
			return nil
		case temporary(err):
			wait = min(max(2*wait, shortestWait), longestWait)
			slog.Warn("zktest: cannot accept a connection", "listener", l.Addr().String(), "error", err, "retry", wait)
			s.sleep(wait)
			continue
		default:
			s.forget(l)
			if !errors.Is(err, net.ErrClosed) { // its owner has closed it
				slog.Error("zktest: a listener has failed", "listener", l.Addr().String(), "error", err)
			}
			return fmt.Errorf("zktest: %w", err)
		}
		if !s.admit(nc, label, f) {
			_ = nc.Close() // refused
		}
	}
}
