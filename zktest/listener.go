package zktest

import (
	"crypto/tls"
	"fmt"
	"net"
)

// inMemoryAddr is the address of a server without a listener. A client that dials it over TCP is refused at once: port 1
// is never handed out, and no ZooKeeper is there by chance.
// The number is the front's.
const inMemoryAddr = "127.0.0.%d:1"

// Addr returns host and port of the listener that [Server.Listen] opened last. It stays the same after
// [Server.StopListening]. With [InMemory] it returns an address for [Server.Dial] and its like, and real connections to
// it are refused.
func (s *Server) Addr() string { return s.fronts[0].Addr() }

// Listen accepts connections on a TCP address until [Server.StopListening] or [Server.Close]. [Start] calls it unless
// the server runs in memory. With the value of [Server.Addr] the server comes back where clients know it.
// Errors: the error of net.Listen, or net.ErrClosed after Close.
func (s *Server) Listen(addr string) error { return s.fronts[0].listen(addr) }

// listenAll opens the listeners of a server that starts.
func (s *Server) listenAll() error {
	addr := s.cfg.listen
	for _, f := range s.fronts {
		if addr == "" {
			return nil
		}
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
	f.addr = l.Addr().String()
	if s.cfg.tls != nil {
		l = tls.NewListener(l, s.cfg.tls)
	}
	s.listeners[l] = f
	s.wg.Go(func() { _ = s.accept("", l, f) }) // a listener that fails refuses clients, which tests notice
	return nil
}

// StopListening closes all listeners, so that the operating system refuses new connections. Open connections stay;
// [Server.Down] ends them as well.
func (s *Server) StopListening() {
	s.lock()
	defer s.unlock()
	s.closeListeners(nil)
}

// closeListeners ends the calls of accept of a front, or all for nil. The caller holds mu.
func (s *Server) closeListeners(f *Front) {
	for l, of := range s.listeners {
		if f == nil || f == of {
			_ = l.Close() // Accept reports it
			delete(s.listeners, l)
		}
	}
}

// Serve accepts connections from l until [Server.StopListening] or [Server.Close], and then returns nil, or until l
// fails. It closes l.
func (s *Server) Serve(l net.Listener) error { return s.ServeAs("", l) }

// ServeAs is [Server.Serve] for connections with a label: give each client a listener of its own, and faults find it.
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

func (s *Server) accept(label string, l net.Listener, f *Front) error {
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
		if !s.admit(nc, label, f) {
			_ = nc.Close() // refused
		}
	}
}
