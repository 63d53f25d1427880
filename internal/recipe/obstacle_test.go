package recipe_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/internal/testkit/trial"
	"github.com/zkrecipes/zkrecipes/recipes/barrier"
	"github.com/zkrecipes/zkrecipes/recipes/cache"
	"github.com/zkrecipes/zkrecipes/recipes/group"
	"github.com/zkrecipes/zkrecipes/recipes/node"
	"github.com/zkrecipes/zkrecipes/recipes/value"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// calls returns calls to recipes of client a that wait for a server. Some of them begin to wait while a is connected.
func calls(t *testing.T, a, b *conn.Client) (list []call, last *barrier.Round) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		require.NoError(t, err)
	}
	n, err := node.New(a, "/n", nil)
	must(err)
	must(n.Ready(t.Context()))
	_, err = b.Create(t.Context(), "/taken", nil, zk.FlagEphemeral)
	must(err)
	behind, err := node.New(a, "/taken", nil)
	must(err)
	g, err := group.New(a, "/g")
	must(err)
	v, err := value.New(a, "/v", value.Text())
	must(err)
	counter, err := value.NewCounter(a, "/counter", value.AtomicLong())
	must(err)
	_, err = counter.Add(t.Context(), 1)
	must(err)
	tree, err := cache.Tree(a, "/c")
	must(err)
	t.Cleanup(func() { _ = tree.Close(context.Background()) })
	must(tree.Ready(t.Context()))
	up, err := barrier.New(a, "/b")
	must(err)
	must(up.Set(t.Context()))
	ofA, last := roundOfTwo(t, a, b)
	return []call{
		{"node: ready", true, behind.Ready},
		{"node: set", false, func(ctx context.Context) error { return n.Set(ctx, []byte("2")) }},
		{"group: join", false, func(ctx context.Context) error { return second(g.Join(ctx, "id", nil)) }},
		{"group: members", false, func(ctx context.Context) error { return second(g.Members(ctx)) }},
		{"cache: sync", false, tree.Sync},
		{"value: set", false, func(ctx context.Context) error { return second(v.Set(ctx, "x")) }},
		{"counter: add", false, func(ctx context.Context) error { return second(counter.Add(ctx, 1)) }},
		{"another counter: add", false, func(ctx context.Context) error {
			counter, err := value.NewCounter(a, "/counter", value.AtomicLong())
			return errors.Join(err, second(counter.Add(ctx, 1)))
		}},
		{"barrier: set", false, up.Set},
		{"barrier: wait", true, up.Wait},
		{"barrier: wait, cut off", false, up.Wait},
		{"barrier: remove", false, up.Remove},
		{"double barrier: leave", true, ofA.Leave},
		{"node: close", false, n.Close},
	}, last
}

type call struct {
	name  string
	waits bool
	f     func(context.Context) error
}

// ended calls f with a context that ends with the given cause soon after the network is gone. It returns the error of
// f.
func (c call) ended(t *testing.T, cause error, gone func()) error {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), 3*time.Second, cause)
	defer cancel()
	done := make(chan error, 1)
	begin := func() {
		go func() { done <- c.f(ctx) }()
		synctest.Wait()
	}
	if c.waits {
		begin()
	}
	gone()
	synctest.Wait()
	if !c.waits {
		begin()
	}
	return <-done
}

// TestObstacle: the context of a call ends while no server can be reached. The error matches the cause, and names the
// server and the problem with it.
func TestObstacle(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		list, last := calls(t, bubble.Dial(t, srv, "a"), bubble.Dial(t, srv, "b"))
		cause := errors.New("no time")
		for _, call := range list {
			err := call.ended(t, cause, func() {
				trial.CutOff(srv, zktest.Label("a"))
			})
			srv.Accept(zktest.Label("a"))
			require.ErrorIs(t, err, cause, call.name)
			require.ErrorContains(t, err, fmt.Sprintf("(connect to %[1]s: dial tcp %[1]s: connection refused)", srv.Addr()),
				call.name)
			time.Sleep(5 * time.Second) // connected again
		}
		require.NoError(t, last.Leave(t.Context()))
	})
}

// roundOfTwo returns what two clients have entered together.
func roundOfTwo(t *testing.T, a, b *conn.Client) (ofA, ofB *barrier.Round) {
	t.Helper()
	var entries sync.WaitGroup
	enter := func(c *conn.Client, round **barrier.Round) {
		d, err := barrier.NewDouble(c, "/double", 2)
		require.NoError(t, err)
		entries.Go(func() {
			if *round, err = d.Enter(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	enter(a, &ofA)
	enter(b, &ofB)
	entries.Wait()
	return ofA, ofB
}

// TestCauseIsNoAnswer_Reading: likewise while a read is unanswered. No barrier is down, and no value or member is
// missing.
func TestCauseIsNoAnswer_Reading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory())
		a := bubble.Dial(t, srv, "a")
		up, err := barrier.New(a, "/b")
		require.NoError(t, err)
		require.NoError(t, up.Set(t.Context()))
		v, err := value.New(a, "/b", value.Text())
		require.NoError(t, err)
		g, err := group.New(a, "/b")
		require.NoError(t, err)
		for _, call := range []call{
			{"barrier: wait", false, up.Wait},
			{"value: get", false, func(ctx context.Context) (err error) { _, _, err = v.Get(ctx); return err }},
			{"group: members", false, func(ctx context.Context) error { return second(g.Members(ctx)) }},
		} {
			var silent *zktest.Rule
			err := call.ended(t, zk.ErrNoNode, func() {
				reads := zktest.Match{Path: "^/b$", Times: -1, Where: func(r zktest.Request) bool { return r.Op != zktest.OpSync }}
				silent = srv.Intercept(reads, zktest.Ignore())
			})
			silent.Remove()
			require.ErrorContains(t, err, zk.ErrNoNode.Error(), call.name)
			require.NotErrorIs(t, err, zk.ErrNoNode, call.name)
		}
	})
}
