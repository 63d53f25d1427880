// Package trial contains what the tests of sessions, their lifetime and their client share.
package trial

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/client"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func init() { slog.SetDefault(slog.New(slog.DiscardHandler)) } // the log of clients would hide what tests print

// Timeout is the session timeout in all tests that do not set another; the server's tick is 2 s.
const Timeout = 10 * time.Second

// Run runs test in virtual time, with a server. It fails if a goroutine is left when the test and its clean-ups have
// ended.
func Run(t *testing.T, test func(t *testing.T, srv *zktest.Server), opts ...zktest.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(t, zktest.Run(t, append([]zktest.Option{zktest.InMemory()}, opts...)...))
	})
}

// Label is the label of connections that Dial makes.
const Label = "c"

// Ours are the connections that Dial makes.
var Ours = zktest.Label(Label)

// Dial connects to srv, and closes the client when the test ends.
func Dial(t *testing.T, srv *zktest.Server, opts ...conn.Option) *conn.Client {
	t.Helper()
	return DialTo(t, srv.Addr(), append([]conn.Option{conn.WithDialer(srv.DialAs(Label))}, opts...)...)
}

// DialTo is Dial to a connect string, with the dialer in opts.
func DialTo(t *testing.T, connect string, opts ...conn.Option) *conn.Client {
	t.Helper()
	c, err := conn.Dial(t.Context(), connect, append([]conn.Option{conn.WithSessionTimeout(Timeout)}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// Inner returns what recipes see of a client.
func Inner(c *conn.Client) *client.Client { return (*client.Client)(c) }

// Live returns the live session.
func Live(t *testing.T, c *conn.Client) *session.Session {
	t.Helper()
	s, err := Inner(c).Session(t.Context())
	require.NoError(t, err)
	return s
}

// Within returns a context that ends after d, with a cause that identifies it.
func Within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), d, ErrTooLong)
	t.Cleanup(cancel)
	return ctx
}

// ErrTooLong ends a test's wait.
var ErrTooLong = errors.New("the test's patience is over")

// Log records what happens, with the virtual time.
type Log[T any] struct {
	Mu      sync.Mutex
	Entries []Entry[T]
}

// Entry is one entry of a log, with its time.
type Entry[T any] struct {
	At   time.Time
	What T
}

// Add records what, with the time.
func (l *Log[T]) Add(what T) {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	l.Entries = append(l.Entries, Entry[T]{time.Now(), what})
}

// All returns the entries.
func (l *Log[T]) All() []Entry[T] {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	return append([]Entry[T](nil), l.Entries...)
}

// Values returns the entries without their times.
func (l *Log[T]) Values() (list []T) {
	for _, e := range l.All() {
		list = append(list, e.What)
	}
	return list
}

// States records the client's states until the test ends.
func States(t *testing.T, c *conn.Client) *Log[zkrecipes.State] {
	t.Helper()
	l := &Log[zkrecipes.State]{}
	go func() {
		for s := range c.States(t.Context()) {
			l.Add(s)
		}
	}()
	synctest.Wait()
	return l
}

// Requests records the requests for an operation as the server receives them.
func Requests(srv *zktest.Server, op zktest.Op) *Log[zktest.Request] {
	l := &Log[zktest.Request]{}
	srv.Intercept(zktest.Match{Op: op, Times: -1, Where: func(r zktest.Request) bool {
		l.Add(r)
		return false
	}}, zktest.Proceed())
	return l
}

// After calls f and returns how long it took.
func After(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
}

// Silent is a connection to a server that accepts it, sends the greeting, and nothing more.
func Silent(greeting ...byte) net.Conn {
	near, far := net.Pipe()
	go func() { _, _ = io.Copy(io.Discard, far) }()
	go func() { _, _ = far.Write(greeting) }()
	return near
}

// Switchboard is a dialer whose connections the test can redirect.
type Switchboard struct {
	Dials atomic.Int32
	To    atomic.Pointer[conn.DialFunc]
}

// NewSwitchboard returns a Switchboard that connects to to.
func NewSwitchboard(to conn.DialFunc) *Switchboard {
	b := &Switchboard{}
	b.Connect(to)
	return b
}

// Connect sets who is dialed from now on.
func (b *Switchboard) Connect(to conn.DialFunc) { b.To.Store(&to) }

// Dial is the dialer of a client.
func (b *Switchboard) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	b.Dials.Add(1)
	return (*b.To.Load())(ctx, network, address)
}

// Everything calls everything that a client can do, and returns the errors.
func Everything(ctx context.Context, c *conn.Client) map[string]error {
	errs := map[string]error{}
	_, errs["session"] = c.Session(ctx)
	_, errs["create"] = c.Create(ctx, "/a", nil, 0)
	_, _, errs["get"] = c.Get(ctx, "/a")
	_, errs["set"] = c.Set(ctx, "/a", nil, 0)
	errs["delete"] = c.Delete(ctx, "/a", 0)
	_, _, errs["exists"] = c.Exists(ctx, "/a")
	_, errs["children"] = c.Children(ctx, "/a")
	errs["sync"] = c.Sync(ctx, "/a")
	_, errs["multi"] = c.Multi(ctx, zkrecipes.OpDelete("/a", 0))
	return errs
}

// EverythingIn does the same for a session.
func EverythingIn(ctx context.Context, s *session.Session) map[string]error {
	errs := map[string]error{}
	_, errs["create"] = s.Create(ctx, "/a", nil, 0)
	_, errs["start create"] = s.StartCreate(ctx, "/a", nil, 0, 1, nil)
	errs["container"] = s.CreateContainer(ctx, "/a")
	_, _, errs["get"] = s.Get(ctx, "/a")
	_, _, _, errs["getw"] = s.GetW(ctx, "/a")
	_, errs["set"] = s.Set(ctx, "/a", nil, 0)
	errs["delete"] = s.Delete(ctx, "/a", 0)
	_, _, errs["exists"] = s.Exists(ctx, "/a")
	_, _, _, errs["existsw"] = s.ExistsW(ctx, "/a")
	_, errs["children"] = s.Children(ctx, "/a")
	_, _, errs["childrenw"] = s.ChildrenW(ctx, "/a")
	errs["sync"] = s.Sync(ctx, "/a")
	_, errs["multi"] = s.Multi(ctx, zkrecipes.OpDelete("/a", 0))
	return errs
}

// Tight is a connection that accepts nothing once the handshake is over: it has no buffer, and nobody reads at the
// other end.
func Tight(srv *zktest.Server) conn.DialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		raw, err := srv.DialAs(Label)(ctx, network, address)
		if err != nil {
			return nil, err
		}
		near, far := net.Pipe()
		go func() {
			_, _ = io.CopyN(raw, far, 49) // the connect request
		}()
		go func() {
			_, _ = io.Copy(far, raw)
			_ = far.Close()
			_ = raw.Close()
		}()
		return near, nil
	}
}

// Held keeps the session proven, as a hold does.
func Held(t *testing.T, s *session.Session) {
	t.Helper()
	release := s.Retain()
	stop, ok := s.OnLoss(false, func(*zkrecipes.LostError) func() { return nil })
	require.True(t, ok)
	t.Cleanup(func() { stop(); release() })
}

// NewsOf returns the pending news of the feed, one line each.
func NewsOf(f *session.Feed) (lines []string) {
	synctest.Wait()
	for _, n := range f.Take() {
		switch n.Kind {
		case session.Changed:
			lines = append(lines, fmt.Sprintf("%v %s", n.Event, n.Path))
		case session.Down:
			lines = append(lines, "down")
		case session.Up:
			lines = append(lines, "up")
		default:
			lines = append(lines, fmt.Sprintf("%v: %q %v %v", n.For, n.Data, n.Names, n.Err))
		}
	}
	return lines
}

// NeedsAll is the needs function of a feed reader that has all watches.
func NeedsAll(string) (data, children bool) { return true, true }

// Create creates a node directly on the server.
func Create(t *testing.T, srv *zktest.Server, path, data string) {
	t.Helper()
	_, err := srv.Create(path, []byte(data), zktest.Persistent)
	require.NoError(t, err)
	synctest.Wait()
}

// Grow creates nodes without data, each after its parent, directly on the server.
func Grow(t *testing.T, srv *zktest.Server, paths ...string) {
	t.Helper()
	for _, path := range paths {
		_, err := srv.Create(path, nil, zktest.Persistent)
		require.NoError(t, err)
	}
}

// Told is one call of an OnLoss function.
type Told struct {
	Lost  *zkrecipes.LostError
	Until time.Time
}

// OnLoss logs what a loss callback of s receives.
func OnLoss(t *testing.T, s *session.Session, onSuspend bool) *Log[Told] {
	t.Helper()
	l := &Log[Told]{}
	_, ok := s.OnLoss(onSuspend, func(lost *zkrecipes.LostError) func() { l.Add(Told{lost, s.ValidUntil()}); return nil })
	require.True(t, ok)
	return l
}

// Reconnect cuts the connection of c, and waits until there is another.
func Reconnect(srv *zktest.Server, c *conn.Client) {
	srv.Cut(Ours)
	for synctest.Wait(); c.Status().State != zkrecipes.Connected; synctest.Wait() {
		<-time.After(time.Millisecond)
	}
}

// CutOff ends the connections of who, and refuses new ones.
func CutOff(srv *zktest.Server, who zktest.Who) {
	srv.Refuse(who)
	srv.Cut(who)
}

// EverySecond is the option with which a client tries to connect once a second.
var EverySecond = conn.WithBackOff(func() conn.BackOff { return backoff.NewConstantBackOff(time.Second) })

// Refuse is a dialer whose connections are all refused.
func Refuse(context.Context, string, string) (net.Conn, error) { return nil, syscall.ECONNREFUSED }

// Pipe is a connection that the test can inspect. It is treated as a socket, which callers write to themselves.
type Pipe struct {
	net.Conn
	OnWrite func(frames []byte) // called before they are written
	OnRead  func(frame []byte)  // may change a reply
	Rest    []byte
}

// SyscallConn reports that there is no socket.
func (*Pipe) SyscallConn() (syscall.RawConn, error) { return nil, errors.ErrUnsupported }

func (p *Pipe) Write(b []byte) (int, error) {
	if p.OnWrite != nil {
		p.OnWrite(b)
	}
	return p.Conn.Write(b)
}

func (p *Pipe) Read(b []byte) (int, error) {
	if p.OnRead == nil {
		return p.Conn.Read(b)
	}
	for len(p.Rest) < 4 || len(p.Rest) < 4+int(binary.BigEndian.Uint32(p.Rest)) {
		n, err := p.Conn.Read(b)
		if err != nil {
			return n, err
		}
		p.Rest = append(p.Rest, b[:n]...)
	}
	size := 4 + int(binary.BigEndian.Uint32(p.Rest))
	frame := p.Rest[:size]
	p.OnRead(frame)
	n := copy(b, frame)
	p.Rest = p.Rest[n:]
	return n, nil
}

// Through makes the client's connections like p.
func Through(srv *zktest.Server, p Pipe) conn.Option {
	return conn.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
		raw, err := srv.DialAs(Label)(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &Pipe{Conn: raw, OnWrite: p.OnWrite, OnRead: p.OnRead}, nil
	})
}

// ConnectReplies changes the answers to connect requests, the nth of them.
func ConnectReplies(change func(n int32, frame []byte)) Pipe {
	var n atomic.Int32
	return Pipe{OnRead: func(frame []byte) {
		// The answer to a connect request begins with the protocol version, 0, and has 16 bytes of password.
		if len(frame) >= 40 && binary.BigEndian.Uint32(frame[4:]) == 0 && binary.BigEndian.Uint32(frame[20:]) == 16 {
			change(n.Add(1), frame)
		}
	}}
}

// Ending is a connection whose end the test defines.
type Ending struct {
	net.Conn
	End error
}

func (c Ending) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil {
		err = c.End
	}
	return n, err
}

// Watches returns how many watches the server has.
func Watches(srv *zktest.Server) int {
	synctest.Wait()
	total, _ := srv.Watches()
	return total
}

// Fired reports whether a watch has fired.
func Fired(w *session.Watch) bool {
	synctest.Wait()
	select {
	case <-w.Fired():
		return true
	default:
		return false
	}
}
