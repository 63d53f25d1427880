package conn_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
	"github.com/zkrecipes/zkrecipes/sasl"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func digest(t *testing.T, user, password string) conn.Option {
	t.Helper()
	m, err := sasl.Digest(user, password)
	require.NoError(t, err)
	return conn.WithSASL(m)
}

func secured(t *testing.T) *zktest.Server {
	t.Helper()
	users := zktest.WithSASLUsers(map[string]string{"bob": "secret", "eve": "other"})
	return zktest.Run(t, zktest.InMemory(), users, zktest.WithRequiredAuth("sasl"))
}

var bobs = conn.WithACL([]zk.ACL{{Perms: zk.PermAll, Scheme: "sasl", ID: "bob"}})

// The identity belongs to the connection, so the client authenticates again when it resumes a session. A hold survives
// that.
func TestSASL_OnEveryConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := secured(t)
		var log bubble.Buffer
		c := bubble.Dial(t, srv, "a", digest(t, "bob", "secret"), bobs,
			conn.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		require.Equal(t, "DIGEST-MD5 as bob", c.Status().Identity)
		m, err := mutex.New(c, "/lock")
		require.NoError(t, err)
		h, err := m.Lock(t.Context())
		require.NoError(t, err)
		for range 3 {
			srv.Cut(zktest.Label("a"))
			time.Sleep(time.Second)
			require.NoError(t, h.Err())
			_, _, err := c.Get(t.Context(), "/lock")
			require.NoError(t, err)
		}
		list, _, err := c.ACL(t.Context(), "/lock")
		require.NoError(t, err)
		require.Equal(t, []zk.ACL{{Perms: zk.PermAll, Scheme: "sasl", ID: "bob"}}, list)
		_, err = bubble.Dial(t, srv, "b", digest(t, "eve", "other")).Create(t.Context(), "/lock/x", nil, 0)
		require.ErrorIs(t, err, zk.ErrNoAuth)
		require.NoError(t, h.Release(t.Context()))
		require.Contains(t, log.String(), `sasl="DIGEST-MD5 as bob"`)
		require.NotContains(t, log.String(), "secret")
	})
}

func TestSASL_Refused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, required := range [][]zktest.Option{nil, {zktest.WithRequiredAuth("sasl")}} {
			srv := zktest.Run(t, append(required, zktest.InMemory(),
				zktest.WithSASLUsers(map[string]string{"bob": "secret"}))...)
			_, err := conn.Dial(t.Context(), srv.Addrs(), conn.WithDialer(srv.DialAs("a")), digest(t, "bob", "hunter2"),
				conn.WithLogger(slog.New(slog.DiscardHandler)))
			require.ErrorIs(t, err, zkrecipes.ErrAuthFailed)
			require.ErrorContains(t, err, "sasl DIGEST-MD5 as bob")
			require.NotContains(t, err.Error(), "hunter2")
		}
	})
}

// A server without SASL ends the exchange as if it had succeeded, but the client then has no identity.
func TestSASL_ServerWithoutIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory())
		sent := srv.Intercept(zktest.Match{Where: func(r zktest.Request) bool {
			return r.Op != 102
		}, Times: -1}, zktest.Proceed())
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err := conn.Dial(ctx, srv.Addrs(), conn.WithDialer(srv.DialAs("a")), digest(t, "bob", "secret"),
			conn.WithLogger(slog.New(slog.DiscardHandler)))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "does it have a JAAS section")
		require.Zero(t, sent.Hits())
	})
}

// cached is a mechanism that keeps a password until a server refuses it, as the Kerberos mechanism keeps a ticket.
type cached struct {
	mu         sync.Mutex
	kept, next string
	starts     int
}

func (c *cached) String() string { return "DIGEST-MD5 as bob" }

func (c *cached) Start(ctx context.Context, host string) (sasl.Exchange, []byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.starts++
	m, err := sasl.Digest("bob", c.kept)
	if err != nil {
		return nil, nil, err
	}
	e, first, err := m.Start(ctx, host)
	return &cachedExchange{e, c}, first, err
}

type cachedExchange struct {
	sasl.Exchange
	of *cached
}

func (e *cachedExchange) Refused() {
	e.of.mu.Lock()
	defer e.of.mu.Unlock()
	e.of.kept = e.of.next
}

// age sets the password that is kept, and the one that replaces it after a refusal.
func (c *cached) age(kept, next string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept, c.next, c.starts = kept, next, 0
}

// After a change of the server key, the only server used to refuse a ticket of the old key, which ended the session and
// its hold. The client now tries a fresh ticket first, once.
func TestSASL_StaleCredentialIsReplaced(t *testing.T) {
	for _, next := range []string{"secret", "wrong"} {
		synctest.Test(t, func(t *testing.T) {
			srv := secured(t)
			m := &cached{kept: "secret"}
			c := bubble.Dial(t, srv, "a", conn.WithSASL(m), bobs)
			lock, err := mutex.New(c, "/lock")
			require.NoError(t, err)
			h, err := lock.Lock(t.Context())
			require.NoError(t, err)
			session := c.Status().Session
			m.age("old", next)
			srv.Cut(zktest.Label("a"))
			_, _, err = c.Get(t.Context(), "/lock")
			if next == "wrong" {
				require.ErrorIs(t, err, zkrecipes.ErrAuthFailed)
				require.ErrorContains(t, h.Err(), "sasl DIGEST-MD5 as bob")
			} else {
				require.NoError(t, err)
				require.NoError(t, h.Err())
				require.Equal(t, session, c.Status().Session)
				require.NoError(t, h.Release(t.Context()))
				m.mu.Lock()
				defer m.mu.Unlock()
				require.Equal(t, 2, m.starts)
			}
		})
	}
}

// endless is a mechanism whose exchange never ends, or cannot begin.
type endless struct {
	starts, steps int
	err           error
}

func (e *endless) String() string { return "ENDLESS as nobody" }

func (e *endless) Start(_ context.Context, host string) (sasl.Exchange, []byte, error) {
	e.starts++
	return e, []byte(host), e.err
}

func (e *endless) Step([]byte) ([]byte, bool, error) {
	e.steps++
	return []byte{}, false, nil
}

// hostile connects to a server that answers each token with what answer returns.
func hostile(answer func(xid uint32) []byte) conn.DialFunc {
	return (&bubble.Hostile{Answer: func(_ int, xid uint32) []byte { return answer(xid) }}).Dial
}

// token returns a server's answer with a token.
func token(xid uint32, text string) []byte { return bubble.Token(xid, []byte(text)) }

func TestSASL_HostileServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &endless{}
		for says, c := range map[string]struct {
			opt    conn.Option
			answer func(xid uint32) []byte
		}{
			"within ten steps": {conn.WithSASL(m), func(xid uint32) []byte { return token(xid, "more") }},
			"no answer to a SASL token": {digest(t, "bob", "hunter2"), func(xid uint32) []byte {
				return token(xid+1, "more")
			}},
			"malformed challenge": {digest(t, "bob", "hunter2"), func(xid uint32) []byte { return token(xid, "more") }},
			"bytes": {digest(t, "bob", "hunter2"), func(xid uint32) []byte {
				return token(xid, strings.Repeat("x", 1<<20))
			}},
			"did not prove": {digest(t, "bob", "hunter2"), func(xid uint32) []byte {
				return token(xid, `nonce="a",algorithm=md5-sess`)
			}},
			"malformed reply": {digest(t, "bob", "hunter2"), func(xid uint32) []byte {
				return bubble.Frame(token(xid, "")[4:21])
			}},
			"did not answer": {digest(t, "bob", "hunter2"), func(uint32) []byte { return nil }},
			"no ticket": {conn.WithSASL(&endless{err: errors.New("no ticket")}), func(xid uint32) []byte {
				return token(xid, "")
			}},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			_, err := conn.Dial(ctx, "zk1:2181", conn.WithDialer(hostile(c.answer)), c.opt,
				conn.WithLogger(slog.New(slog.DiscardHandler)))
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded, says)
			require.ErrorContains(t, err, says)
			require.NotContains(t, err.Error(), "hunter2")
		}
		require.Positive(t, m.starts)
		require.Equal(t, 10*m.starts, m.steps)
	})
}

func TestSASL_BadMechanism(t *testing.T) {
	t.Parallel()
	_, err := conn.New("zk1", digest(t, "bob", "secret"), digest(t, "eve", "other"))
	require.ErrorContains(t, err, "sasl: both DIGEST-MD5 as bob and DIGEST-MD5 as eve")
	_, err = conn.New("zk1", conn.WithSASL(nil))
	require.ErrorContains(t, err, "sasl: nil mechanism")
}

// After a server that does not prove its identity, the client tries another one. A call made after such a failure used
// to fail at once, with refused credentials.
func TestSASL_UnprovenServer_CallsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := func(xid uint32) []byte { return token(xid, `nonce="a",algorithm=md5-sess`) }
		c, err := conn.New("zk1:2181", conn.WithDialer(hostile(answer)), digest(t, "bob", "hunter2"),
			conn.WithLogger(slog.New(slog.DiscardHandler)))
		require.NoError(t, err)
		defer c.Close()
		time.Sleep(5 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		_, _, err = c.Get(ctx, "/app")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, zkrecipes.ErrAuthFailed)
		require.ErrorContains(t, err, "did not prove")
	})
}

// failing is a mechanism that fails before it sends anything.
type failing struct{ sasl.Mechanism }

func (failing) Start(context.Context, string) (sasl.Exchange, []byte, error) {
	return nil, nil, zkrecipes.ErrAuthFailed
}

// No server has granted the session, so there is none to close: a request for session 0 would open another one.
func TestSASL_FailsLocally_LeavesNoSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := secured(t)
		m, err := sasl.Digest("bob", "secret")
		require.NoError(t, err)
		_, err = conn.Dial(t.Context(), srv.Addrs(), conn.WithDialer(srv.DialAs("a")), conn.WithSASL(failing{m}),
			conn.WithLogger(slog.New(slog.DiscardHandler)))
		require.ErrorIs(t, err, zkrecipes.ErrAuthFailed)
		require.Empty(t, srv.History())
	})
}

// named is a mechanism whose name is asked for while others use the session.
type named struct {
	sasl.Mechanism
	session atomic.Pointer[conn.Session]
	waited  atomic.Bool
	asked   chan struct{}
}

func (n *named) String() string {
	if s := n.session.Load(); s != nil {
		used := make(chan struct{})
		go func() {
			defer close(used)
			_ = s.ValidUntil()
		}()
		select {
		case <-used:
		case <-time.After(10 * time.Second): // not in a bubble: time would not pass there while a lock is waited for
			n.waited.Store(true)
		}
		n.asked <- struct{}{}
	}
	return n.Mechanism.String()
}

// A mechanism may take its time to say its name, for example because it is authenticating another client. The holds of
// this one must not wait for it.
func TestSASL_Name_IsAskedForWithoutTheLockOfTheSession(t *testing.T) {
	t.Parallel()
	srv := secured(t)
	m, err := sasl.Digest("bob", "secret")
	require.NoError(t, err)
	n := &named{Mechanism: m, asked: make(chan struct{}, 10)}
	c := bubble.Dial(t, srv, "a", conn.WithSASL(n), conn.WithLogger(slog.New(slog.NewTextHandler(new(strings.Builder), nil))))
	s, err := c.Session(t.Context())
	require.NoError(t, err)
	n.session.Store(s)
	require.Equal(t, "DIGEST-MD5 as bob", c.Status().Identity)
	<-n.asked
	srv.Cut(zktest.Label("a"))
	<-n.asked
	require.False(t, n.waited.Load())
}
