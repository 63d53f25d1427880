package bubble

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Line is the rate at which bytes arrive at a client, per second: 0 means all at once, and a negative rate means that
// none arrive any more. A new connection is fast.
type Line struct{ rate atomic.Int64 }

// Set sets the rate.
func (l *Line) Set(bytesPerSecond int64) { l.rate.Store(bytesPerSecond) }

// Dial returns the dial function of a client with the given label.
func (l *Line) Dial(srv *zktest.Server, label string) conn.DialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		l.Set(0)
		raw, err := srv.DialAs(label)(ctx, network, address)
		closed := make(chan struct{})
		return lineConn{raw, l, closed, sync.OnceFunc(func() { close(closed) })}, err
	}
}

type lineConn struct {
	net.Conn
	line   *Line
	closed chan struct{}
	close  func()
}

func (c lineConn) Close() error {
	c.close()
	return c.Conn.Close()
}

func (c lineConn) Read(p []byte) (int, error) {
	rate := int(c.line.rate.Load())
	switch {
	case rate == 0:
		return c.Conn.Read(p)
	case rate < 0:
		<-c.closed
		return 0, net.ErrClosed
	}
	n, err := c.Conn.Read(p[:min(len(p), rate)])
	select {
	case <-time.After(time.Duration(n) * time.Second / time.Duration(rate)):
	case <-c.closed:
	}
	return n, err
}
