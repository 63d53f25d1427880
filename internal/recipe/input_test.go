package recipe_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/internal/testkit/trial"
	"github.com/zkrecipes/zkrecipes/recipes/barrier"
	"github.com/zkrecipes/zkrecipes/recipes/cache"
	"github.com/zkrecipes/zkrecipes/recipes/election"
	"github.com/zkrecipes/zkrecipes/recipes/group"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
	"github.com/zkrecipes/zkrecipes/recipes/node"
	"github.com/zkrecipes/zkrecipes/recipes/rwlock"
	"github.com/zkrecipes/zkrecipes/recipes/semaphore"
	"github.com/zkrecipes/zkrecipes/recipes/value"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// second returns the error of a function with two results.
func second[T any](_ T, err error) error { return err }

// TestBadInput: what a recipe cannot use is an error before any request, and not a panic. The error explains what is
// wrong.
func TestBadInput(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c := bubble.Dial(t, srv, "a")
		ctx := t.Context()
		must := func(err error) {
			t.Helper()
			require.NoError(t, err)
		}
		m, err := mutex.New(c, "/m")
		must(err)
		rw, err := rwlock.New(c, "/rw")
		must(err)
		sem, err := semaphore.New(c, "/s", 1)
		must(err)
		e, err := election.New(c, "/e")
		must(err)
		g, err := group.New(c, "/g")
		must(err)
		v, err := value.New(c, "/v", value.Text())
		must(err)
		tree, err := cache.Tree(c, "/c")
		must(err)
		t.Cleanup(func() { _ = tree.Close(context.Background()) })
		synctest.Wait()
		requests := bubble.Requests(srv)
		dial := func(opts ...conn.Option) error { return second(conn.Dial(ctx, srv.Addr(), opts...)) }
		watch := func(opt group.WatchOption) (err error) {
			for _, err = range g.Watch(ctx, opt) {
				break
			}
			return err
		}
		for _, bad := range []struct {
			name, want string
			err        func() error
		}{
			{"mutex: client", "client is nil", func() error { return second(mutex.New(nil, "/m")) }},
			{"mutex: option", "option 0 is nil", func() error { return second(mutex.New(c, "/m", nil)) }},
			{"mutex: function", "function is nil", func() error { return m.Do(ctx, nil) }},
			{"rwlock: client", "client is nil", func() error { return second(rwlock.New(nil, "/rw")) }},
			{"rwlock: option", "option 0 is nil", func() error { return second(rwlock.New(c, "/rw", nil)) }},
			{"rwlock: function", "function is nil", func() error { return rw.Do(ctx, nil) }},
			{"rwlock: function of a reader", "function is nil", func() error { return rw.RDo(ctx, nil) }},
			{"semaphore: client", "client is nil", func() error { return second(semaphore.New(nil, "/s", 1)) }},
			{"semaphore: option", "option 0 is nil", func() error { return second(semaphore.New(c, "/s", 1, nil)) }},
			{"semaphore: limit", "limit 0", func() error { return second(semaphore.New(c, "/s", 0)) }},
			{"semaphore: leases", "-1", func() error { return second(sem.Acquire(ctx, -1)) }},
			{"semaphore: function", "function is nil", func() error { return sem.Do(ctx, 1, nil) }},
			{"election: client", "client is nil", func() error { return second(election.New(nil, "/e")) }},
			{"election: option", "option 0 is nil", func() error { return second(election.New(c, "/e", nil)) }},
			{
				"election: retry", "function is nil",
				func() error { return second(election.New(c, "/e", election.WithRetry(nil))) },
			},
			{"election: function", "function is nil", func() error { return e.Run(ctx, nil) }},
			{"node: client", "client is nil", func() error { return second(node.New(nil, "/n", nil)) }},
			{"node: option", "option 0 is nil", func() error { return second(node.New(c, "/n", nil, nil)) }},
			{"node: replace", "function is nil", func() error { return second(node.New(c, "/n", nil, node.WithReplace(nil))) }},
			{"group: client", "client is nil", func() error { return second(group.New(nil, "/g")) }},
			{"group: option", "option 0 is nil", func() error { return second(group.New(c, "/g", nil)) }},
			{"group: id", "id is empty", func() error { return second(g.Join(ctx, "", nil)) }},
			{"group: join option", "option 0 is nil", func() error { return second(g.Join(ctx, "id", nil, nil)) }},
			{
				"group: replace", "function is nil",
				func() error { return second(g.Join(ctx, "id", nil, group.WithReplace(nil))) },
			},
			{"group: watch option", "option 0 is nil", func() error { return watch(nil) }},
			{"group: settle", "settle -1s", func() error { return watch(group.WithSettle(-time.Second, time.Second)) }},
			{"group: no settle", "settle 0s", func() error { return watch(group.WithSettle(0, time.Second)) }},
			{"cache: client", "client is nil", func() error { return second(cache.Node(nil, "/c")) }},
			{"cache: option", "option 0 is nil", func() error { return second(cache.Children(c, "/c", nil)) }},
			{"cache: depth", "0 levels", func() error { return second(cache.Tree(c, "/c", cache.WithDepth(0))) }},
			{"cache: nodes", "0 nodes", func() error { return second(cache.Tree(c, "/c", cache.WithMaxNodes(0))) }},
			{"cache: bytes", "-1 bytes", func() error { return second(cache.Tree(c, "/c", cache.WithMaxBytes(-1))) }},
			{"cache: window", "0 requests", func() error { return second(cache.Tree(c, "/c", cache.WithWindow(0))) }},
			{"cache: recheck", "-1s", func() error { return second(cache.Tree(c, "/c", cache.WithRecheck(-time.Second))) }},
			{"cache: no cache", "cache is nil", func() error {
				return second(cache.As(nil, func(cache.Entry) (int, error) { return 0, nil }))
			}},
			{"cache: decode", "function is nil", func() error { return second(cache.As[int](tree, nil)) }},
			{"value: client", "client is nil", func() error { return second(value.New(nil, "/v", value.Text())) }},
			{"value: codec", "lacks a function", func() error { return second(value.New(c, "/v", value.Codec[string]{})) }},
			{"value: hold", "hold is nil", func() error { return second(v.SetHeld(ctx, nil, "x")) }},
			{"value: function", "function is nil", func() error {
				_, _, err := v.Update(ctx, nil)
				return err
			}},
			{
				"counter: client", "client is nil",
				func() error { return second(value.NewCounter(nil, "/v", value.AtomicLong())) },
			},
			{
				"counter: codec", "lacks a function",
				func() error { return second(value.NewCounter(c, "/v", value.Codec[int64]{})) },
			},
			{"barrier: client", "client is nil", func() error { return second(barrier.New(nil, "/b")) }},
			{"barrier: path", "root", func() error { return second(barrier.New(c, "/")) }},
			{"barrier: option", "option 0 is nil", func() error { return second(barrier.New(c, "/b", nil)) }},
			{"double: client", "client is nil", func() error { return second(barrier.NewDouble(nil, "/b", 2)) }},
			{"double: option", "option 0 is nil", func() error { return second(barrier.NewDouble(c, "/b", 2, nil)) }},
			{"double: members", "0 members", func() error { return second(barrier.NewDouble(c, "/b", 0)) }},
			{"conn: option", "option 1 is nil", func() error { return dial(bubble.Silent, nil) }},
			{"conn: logger", "logger", func() error { return dial(conn.WithLogger(nil)) }},
			{"conn: dialer", "nil function", func() error { return dial(conn.WithDialer(nil)) }},
			{"conn: tls", "nil configuration", func() error { return dial(conn.WithTLS(nil)) }},
			{"conn: tracer", "all hooks are nil", func() error { return dial(conn.WithTracer(&zkrecipes.Tracer{})) }},
			{"conn: back-off", "nil function", func() error { return dial(conn.WithBackOff(nil)) }},
			{
				"conn: no policy", "nil policy",
				func() error { return dial(conn.WithBackOff(func() conn.BackOff { return nil })) },
			},
			{"conn: timeout", "-1s", func() error { return dial(conn.WithConnectTimeout(-time.Second)) }},
			{"conn: servers", "servers: nil function", func() error { return dial(conn.WithServers(nil)) }},
			{
				"conn: preferred servers", "preferred servers: nil function",
				func() error { return dial(conn.WithPreferredServers(nil)) },
			},
			{"conn: rebalance", "within 0s: want more than 0", func() error { return dial(conn.WithRebalance(0)) }},
		} {
			require.NotPanics(t, func() { require.ErrorContains(t, bad.err(), bad.want, bad.name) }, bad.name)
		}
		require.Zero(t, requests.Hits())
	})
}
