package session_test

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/client"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// timeout is the session timeout in all tests that do not say otherwise; the server's tick is 2 s.
const timeout = 10 * time.Second

// bubble runs test in virtual time, with a server. A goroutine that is left when the test and its clean-ups have ended
// fails it.
func bubble(t *testing.T, test func(t *testing.T, srv *zktest.Server), opts ...zktest.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(t, zktest.Run(t, append([]zktest.Option{zktest.InMemory()}, opts...)...))
	})
}

// label is the label of connections made by dial.
const label = "c"

var ours = zktest.Label(label)

// dial connects to srv, and closes the client when the test ends.
func dial(t *testing.T, srv *zktest.Server, opts ...conn.Option) *conn.Client {
	t.Helper()
	return dialTo(t, srv.Addr(), append([]conn.Option{conn.WithDialer(srv.DialAs(label))}, opts...)...)
}

func dialTo(t *testing.T, connect string, opts ...conn.Option) *conn.Client {
	t.Helper()
	c, err := conn.Dial(t.Context(), connect, append([]conn.Option{conn.WithSessionTimeout(timeout)}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// inner is what recipes see of a client.
func inner(c *conn.Client) *client.Client { return (*client.Client)(c) }

func live(t *testing.T, c *conn.Client) *session.Session {
	t.Helper()
	s, err := inner(c).Session(t.Context())
	require.NoError(t, err)
	return s
}

// within returns a context that ends after d, with a cause of its own.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), d, errTooLong)
	t.Cleanup(cancel)
	return ctx
}

var errTooLong = errors.New("the test's patience is over")

// log records what happens, with the virtual time.
type log[T any] struct {
	mu      sync.Mutex
	entries []entry[T]
}

type entry[T any] struct {
	at   time.Time
	what T
}

func (l *log[T]) add(what T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = append(l.entries, entry[T]{time.Now(), what})
}

func (l *log[T]) all() []entry[T] {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]entry[T](nil), l.entries...)
}

func (l *log[T]) values() (list []T) {
	for _, e := range l.all() {
		list = append(list, e.what)
	}
	return list
}

// states records the client's states until the test ends.
func states(t *testing.T, c *conn.Client) *log[conn.State] {
	t.Helper()
	l := &log[conn.State]{}
	go func() {
		for s := range c.States(t.Context()) {
			l.add(s)
		}
	}()
	synctest.Wait()
	return l
}

// requests records the requests of an operation as the server gets them.
func requests(srv *zktest.Server, op zktest.Op) *log[zktest.Request] {
	l := &log[zktest.Request]{}
	srv.Intercept(zktest.Match{Op: op, Times: -1, Where: func(r zktest.Request) bool {
		l.add(r)
		return false
	}}, zktest.Proceed())
	return l
}

// after calls f and returns how long it took.
func after(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
}

// silent is a connection to a server that accepts it, sends what it is given, and nothing more.
func silent(greeting ...byte) net.Conn {
	near, far := net.Pipe()
	go func() { _, _ = io.Copy(io.Discard, far) }()
	go func() { _, _ = far.Write(greeting) }()
	return near
}

// switchboard is a dialer whose connections the test can redirect.
type switchboard struct {
	dials atomic.Int32
	to    atomic.Pointer[conn.DialFunc]
}

func newSwitchboard(to conn.DialFunc) *switchboard {
	b := &switchboard{}
	b.connect(to)
	return b
}

func (b *switchboard) connect(to conn.DialFunc) { b.to.Store(&to) }

func (b *switchboard) dial(ctx context.Context, network, address string) (net.Conn, error) {
	b.dials.Add(1)
	return (*b.to.Load())(ctx, network, address)
}
