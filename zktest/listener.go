package zktest

import (
	"fmt"
	"net"
)

// inMemoryAddr is the address of a server without a listener. A client that dials it over TCP is refused at once: port 1
// is never handed out, and no ZooKeeper is there by chance.
const inMemoryAddr = "127.0.0.1:1"

// Addr returns host and port of the listener that [Server.Listen] opened last. It stays the same after
// [Server.StopListening]. With [InMemory] it returns an address for [Server.Dial] and its like, and real connections to
// it are refused.
func (s *Server) Addr() string {
	s.lock()
	defer s.unlock()
	return s.addr
}

// Listen accepts connections on a TCP address until [Server.StopListening] or [Server.Close]. [Start] calls it unless
// the server runs in memory. With the value of [Server.Addr] the server comes back where clients know it.
// Errors: the error of net.Listen, or net.ErrClosed after Close.
func (s *Server) Listen(addr string) error {
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
	s.addr = l.Addr().String()
	s.listeners[l] = struct{}{}
	s.wg.Go(func() { _ = s.accept("", l) }) // a listener that fails refuses clients, which tests notice
	return nil
}

// StopListening closes all listeners, so that the operating system refuses new connections. Open connections stay;
// [Server.Down] ends them as well.
func (s *Server) StopListening() {
	s.lock()
	defer s.unlock()
	s.closeListeners()
}

// closeListeners ends all calls of accept. The caller holds mu.
func (s *Server) closeListeners() {
	for l := range s.listeners {
		_ = l.Close() // Accept reports it
	}
	clear(s.listeners)
}

// Serve accepts connections from l until [Server.StopListening] or [Server.Close], and then returns nil, or until l
// fails. It closes l.
func (s *Server) Serve(l net.Listener) error { return s.ServeAs("", l) }

// ServeAs is [Server.Serve] for connections with a label: give each client a listener of its own, and faults find it.
func (s *Server) ServeAs(label string, l net.Listener) error {
	s.lock()
	closed := s.closed
	if !closed {
		s.listeners[l] = struct{}{}
	}
	s.unlock()
	if closed {
		_ = l.Close() // it has accepted nothing
		return nil
	}
	return s.accept(label, l)
}

func (s *Server) accept(label string, l net.Listener) error {
	defer func() { _ = l.Close() }() // a second Close says so, and does nothing
	for {
		nc, err := l.Accept()
		if err != nil {
			s.lock()
			defer s.unlock()
			if _, listening := s.listeners[l]; !listening {
				return nil
			}
			delete(s.listeners, l)
			return fmt.Errorf("zktest: %w", err)
		}
		if !s.admit(nc, label) {
			_ = nc.Close() // refused
		}
	}
}
