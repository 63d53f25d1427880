package faults_test

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/cache"
	"github.com/zkrecipes/zkrecipes/recipes/discovery"
	"github.com/zkrecipes/zkrecipes/recipes/election"
	"github.com/zkrecipes/zkrecipes/recipes/group"
	"github.com/zkrecipes/zkrecipes/recipes/node"
	"github.com/zkrecipes/zkrecipes/recipes/value"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// told is what a view reports to a waiting caller: whether it is current, and since when.
type told struct {
	mu      sync.Mutex
	current bool
	at      time.Time
}

func (t *told) hear(current bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.at.IsZero() || t.current != current {
		t.current, t.at = current, time.Now()
	}
}

func (t *told) last() (bool, time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.current, t.at
}

// watching follows the views of one recipe.
func watching[T any](all iter.Seq2[T, error], current func(T) bool) *told {
	view := &told{}
	go func() {
		for x, err := range all {
			view.hear(err == nil && current(x))
		}
	}()
	return view
}

// watchAll follows something with each recipe that provides views.
func watchAll(
	t *testing.T, ctx context.Context, c *conn.Client, //nolint:revive // t first
) (views map[string]*told, tree *cache.Cache) {
	t.Helper()
	v := must(value.New(c, "/app/value", value.Text()))
	e := must(election.New(c, "/app/election"))
	g := must(group.New(c, "/app/group"))
	d := must(discovery.New(c, "/app"))
	n := must(node.New(c, "/app/node", nil))
	tree = must(cache.Tree(c, "/app"))
	followed := &told{}
	go func() {
		for change, err := range tree.Watch(ctx) {
			switch {
			case err != nil, change.Kind == cache.Behind:
				followed.hear(false)
			case change.Kind == cache.Current:
				followed.hear(true)
			}
		}
	}()
	return map[string]*told{
		"conn.Watch":      watching(c.Watch(ctx, "/app"), func(n conn.Node) bool { return n.Current }),
		"value.Watch":     watching(v.Watch(ctx), func(v value.View[string]) bool { return v.Current }),
		"election.Watch":  watching(e.Watch(ctx), func(l election.Leadership) bool { return l.Current }),
		"group.Watch":     watching(g.Watch(ctx), func(v group.View) bool { return v.Current }),
		"discovery.Watch": watching(d.Watch(ctx, "services"), func(v discovery.View) bool { return v.Current }),
		"node.Watch":      watching(n.Watch(ctx), func(s node.State) bool { return s.Current }),
		"cache.Watch":     followed,
	}, tree
}

// TestViews_NothingIsAnswered: the connection stays up, but no request is answered for longer than the session timeout,
// because a large reply takes five of them to arrive. The view then stops being current, by the clock alone. A waiting
// caller learns that when nine eighths of the session timeout have passed since the newest answer, and again when the
// view becomes current.
func TestViews_NothingIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory(), zktest.WithTickTime(tick))
		for i := range 10_000 {
			_, err := srv.Create(fmt.Sprintf("/%s-%05d", strings.Repeat("x", 90), i), nil, zktest.Persistent)
			require.NoError(t, err)
		}
		for _, path := range []string{"/app", "/app/value", "/app/group", "/app/election"} {
			_, err := srv.Create(path, nil, zktest.Persistent)
			require.NoError(t, err)
		}
		var line bubble.Line
		c := bubble.Dial(t, srv, "a", conn.WithDialer(line.Dial(srv, "a")))
		views, tree := watchAll(t, t.Context(), c)
		time.Sleep(time.Second) // long before the next recheck, which would find out as well
		for name, view := range views {
			current, at := view.last()
			require.True(t, current && !at.IsZero(), name)
		}

		begin := time.Now()
		line.Set(20_000)
		_, err := c.Children(t.Context(), "/")
		require.NoError(t, err)
		require.Greater(t, time.Since(begin), 4*timeout, "the reply has taken so long")
		require.Equal(t, zkrecipes.Connected, c.Status().State)
		for name, view := range views {
			current, at := view.last()
			require.False(t, current, name)
			require.LessOrEqual(t, at.Sub(begin), timeout*9/8, "%s: an eighth more if a recheck reads just then", name)
		}
		require.False(t, tree.View().Current, "the holder of a view sees it")
		line.Set(0) // the answers of the rechecks arrive
		time.Sleep(timeout / 2)
		for name, view := range views {
			current, _ := view.last()
			require.True(t, current, name)
		}
		require.True(t, tree.View().Current)
	})
}
