package zktest

import (
	"context"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/zkrecipes/zkrecipes/zktest/internal/mempipe"
)

// Dial connects in memory to the front that has the address, or to the first front for any other address. The
// connection is buffered like TCP and blocks on channels only, so it works inside a testing/synctest bubble. While the
// client is stalled, Dial blocks until ctx is done, as it would for an unreachable host.
//
// Errors: connection refused, or context.Cause(ctx), each wrapped in a *net.OpError. Dial panics if ctx is nil.
func (s *Server) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	return s.DialAs("")(ctx, network, addr)
}

// DialAs returns a function like [Server.Dial] whose connections have a label, so that faults can select them; see
// [Label].
func (s *Server) DialAs(label string) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		return s.dialContext(ctx, s.frontAt(addr), label, network)
	}
}

// DialTimeout is [Server.Dial] with the signature of go-zookeeper's Dialer. A timeout of 0 means none.
func (s *Server) DialTimeout(network, addr string, timeout time.Duration) (net.Conn, error) {
	return s.DialTimeoutAs("")(network, addr, timeout)
}

// DialTimeoutAs is [Server.DialAs] with the signature of go-zookeeper's Dialer.
func (s *Server) DialTimeoutAs(label string) func(network, addr string, timeout time.Duration) (net.Conn, error) {
	return func(network, addr string, timeout time.Duration) (net.Conn, error) {
		end := make(chan struct{})
		if timeout > 0 {
			defer time.AfterFunc(timeout, func() { close(end) }).Stop()
		}
		return s.dial(s.frontAt(addr), label, network, end, func() error { return os.ErrDeadlineExceeded })
	}
}

func (s *Server) dialContext(ctx context.Context, f *Front, label, network string) (net.Conn, error) {
	need(ctx != nil, "Dial: the context is nil")
	return s.dial(f, label, network, ctx.Done(), func() error { return context.Cause(ctx) })
}

func (s *Server) dial(f *Front, label, network string, end <-chan struct{}, why func() error) (net.Conn, error) {
	remote := memAddr(f.Addr())
	failed := func(err error) error { return &net.OpError{Op: "dial", Net: network, Addr: remote, Err: err} }
	for {
		select {
		case <-end:
			return nil, failed(why())
		default:
		}
		s.lock()
		s.labels.dialed(label)
		refused, stalled, healed := s.refuses(label) || f.state.Stopped, s.stalled(label), s.healed
		s.lastPort++
		local := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1024 + s.lastPort%(1<<16-1024)}
		s.unlock()
		if refused {
			return nil, failed(syscall.ECONNREFUSED)
		}
		if stalled {
			select {
			case <-healed:
			case <-s.done:
			case <-end:
			}
			continue
		}
		client, server := mempipe.New(local, remote)
		if s.admit(server, label, f) {
			return client, nil
		}
	}
}

// memAddr is the address of a server without a listener.
type memAddr string

func (a memAddr) Network() string { return "tcp" }
func (a memAddr) String() string  { return string(a) }
