package faults_test

import (
	"context"
	"maps"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/internal/testkit/trial"
	"github.com/zkrecipes/zkrecipes/recipes/election"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
	"github.com/zkrecipes/zkrecipes/recipes/rwlock"
	"github.com/zkrecipes/zkrecipes/recipes/semaphore"
	"github.com/zkrecipes/zkrecipes/recipes/shard"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// atFront labels the connections of a client by the server that they connect to.
func atFront(srv *zktest.Server) conn.Option {
	return conn.WithDialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
		return srv.DialAs(addr)(ctx, network, addr)
	})
}

// TestRefused_ByOneServer: the other servers accept the session, and nothing is lost.
func TestRefused_ByOneServer(t *testing.T) {
	for _, refusing := range []int{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			srv := zktest.Run(t, zktest.InMemory(), zktest.WithFronts(3))
			c, err := conn.Dial(t.Context(), srv.Addrs(), atFront(srv), bubble.Silent, conn.WithAuth("digest", "u:p"),
				conn.WithSessionTimeout(bubble.Timeout))
			require.NoError(t, err)
			defer c.Close()
			s, err := c.Session(t.Context())
			require.NoError(t, err)
			m, err := mutex.New(c, "/m")
			require.NoError(t, err)
			h, err := m.Lock(t.Context())
			require.NoError(t, err)
			for _, f := range srv.Fronts()[:refusing] {
				srv.Intercept(zktest.Match{From: zktest.Label(f.Addr()), Op: zktest.OpAuth, Times: -1},
					zktest.Fail(zktest.CodeAuthFailed))
			}
			for range 20 {
				srv.CutAll()
				time.Sleep(5 * time.Second)
				require.NoError(t, h.Err())
				require.NoError(t, c.Sync(t.Context(), "/"))
			}
			require.NoError(t, s.Err())
			require.Len(t, srv.Sessions(), 1)
		})
	}
}

// TestRefused_TheOthersAreDown: a server that cannot be reached may accept the credentials once it is back. The refusal
// is therefore not final, and the next session begins there.
func TestRefused_TheOthersAreDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory(), zktest.WithFronts(3))
		first, last := srv.Fronts()[0], srv.Fronts()[2]
		srv.Intercept(zktest.Match{From: zktest.Label(first.Addr()), Op: zktest.OpAuth, Times: -1},
			zktest.Fail(zktest.CodeAuthFailed))
		last.Stop()
		c, err := conn.New(first.Addr()+","+last.Addr(), atFront(srv), bubble.Silent, conn.WithAuth("digest", "u:p"),
			conn.WithSessionTimeout(bubble.Timeout))
		require.NoError(t, err)
		defer c.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		err = c.Ready(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, zkrecipes.ErrAuthFailed.Error())
		require.NoError(t, last.Start())
		require.NoError(t, c.Ready(t.Context()))
	})
}

// ends collects what has ended, and why.
type ends struct {
	mu  sync.Mutex
	why map[string]error
	all sync.WaitGroup
}

func (e *ends) start(name string, f func() error) {
	e.all.Go(func() {
		err := f()
		e.mu.Lock()
		defer e.mu.Unlock()
		e.why[name] = err
	})
}

func (e *ends) list() map[string]error {
	synctest.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.why
}

// TestRefused_ByAll: loops resume when the servers accept the credentials again. A single call returns the error.
func TestRefused_ByAll(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		ctx, stop := context.WithCancel(t.Context())
		c := bubble.Dial(t, srv, "a", conn.WithAuth("digest", "u:p"))
		other := bubble.Dial(t, srv, "b")
		require.NoError(t, other.CreateAll(ctx, "/app/value", []byte("1")))
		views, tree := watchAll(t, ctx, c)
		e := &ends{why: map[string]error{}}
		leader, err := election.New(c, "/app/leader")
		require.NoError(t, err)

		runs := map[string]int{} // read while all goroutines are blocked
		var mu sync.Mutex
		run := func(name string) func(context.Context) error {
			return func(ctx context.Context) error {
				mu.Lock()
				runs[name]++
				mu.Unlock()
				<-ctx.Done()
				return context.Cause(ctx)
			}
		}
		under := func(name string) func(context.Context, *zkrecipes.Hold) error {
			f := run(name)
			return func(ctx context.Context, _ *zkrecipes.Hold) error { return f(ctx) }
		}
		e.start("election.Run", func() error {
			f := run("election.Run")
			return leader.Run(ctx, func(ctx context.Context, _ *election.Term) error { return f(ctx) })
		})
		m, err := mutex.New(c, "/app/mutex")
		require.NoError(t, err)
		e.start("mutex.Run", func() error { return m.Run(ctx, under("mutex.Run")) })
		rw, err := rwlock.New(c, "/app/rwlock")
		require.NoError(t, err)
		e.start("rwlock.Run", func() error { return rw.Run(ctx, under("rwlock.Run")) })
		sem, err := semaphore.New(c, "/app/semaphore", 1)
		require.NoError(t, err)
		e.start("semaphore.Run", func() error { return sem.Run(ctx, 1, under("semaphore.Run")) })
		e.start("shard.Run", func() error {
			f := run("shard.Run")
			return shard.Run(ctx, c, "/app/shards", shard.List("s1"),
				func(ctx context.Context, _ *shard.Shard) error { return f(ctx) })
		})
		time.Sleep(30 * time.Second)
		require.Empty(t, e.list())
		require.Len(t, runs, 5)

		for _, length := range []time.Duration{0, time.Minute} { // one refusal, and many
			mu.Lock()
			before := maps.Clone(runs)
			mu.Unlock()
			refuse := srv.Intercept(zktest.Match{Op: zktest.OpAuth, Times: -1}, zktest.Fail(zktest.CodeAuthFailed))
			srv.Cut(zktest.Label("a"))
			<-time.After(10 * time.Millisecond)
			time.Sleep(length)
			for name, err := range map[string]error{"get": get(ctx, c), "lock": lock(ctx, c), "sync": tree.Sync(ctx)} {
				require.ErrorIs(t, err, zkrecipes.ErrAuthFailed, name)
			}
			refuse.Remove()
			time.Sleep(time.Minute)
			require.Empty(t, e.list())
			mu.Lock()
			for name, n := range before {
				require.Greater(t, runs[name], n, name)
			}
			mu.Unlock()
			require.NoError(t, tree.Sync(ctx))
			for name, view := range views {
				current, _ := view.last()
				require.True(t, current, name)
			}
		}
		stop()
		e.all.Wait()
	})
}

func get(ctx context.Context, c *conn.Client) error {
	_, _, err := c.Get(ctx, "/")
	return err
}

func lock(ctx context.Context, c *conn.Client) error {
	m, err := mutex.New(c, "/app/single")
	if err == nil {
		_, err = m.Lock(ctx)
	}
	return err
}
