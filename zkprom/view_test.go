package zkprom_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/recipes/cache"
	"github.com/zkrecipes/zkrecipes/recipes/group"
	"github.com/zkrecipes/zkrecipes/recipes/node"
	"github.com/zkrecipes/zkrecipes/recipes/value"
	"github.com/zkrecipes/zkrecipes/zkprom"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// away disconnects the client for a while.
func away(srv *zktest.Server, d time.Duration) {
	srv.Refuse(zktest.Label("a"))
	srv.Cut(zktest.Label("a"))
	time.Sleep(d)
}

func TestCache_Metrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory())
		for _, path := range []string{"/app", "/app/a", "/app/b"} {
			_, err := srv.Create(path, []byte("x"), zktest.Persistent)
			require.NoError(t, err)
		}
		srv.Intercept(zktest.Match{Op: zktest.OpGetData, Path: "^/app/b$", Times: -1}, zktest.Fail(zktest.CodeNoAuth))
		client, _ := dial(t, srv, "a")
		c, err := cache.Tree(client, "/app")
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close(context.WithoutCancel(t.Context()))) }()
		metrics, err := zkprom.Cache("settings", c)
		require.NoError(t, err)
		require.NoError(t, c.Ready(t.Context()))
		const of = `{name="settings",recipe="cache"}`
		require.Equal(t, map[string]string{
			"zkrecipes_view_current" + of: "1", "zkrecipes_view_age_seconds" + of: "0", "zkrecipes_cache_nodes" + of: "3",
			"zkrecipes_cache_bytes" + of: "4", "zkrecipes_cache_pending_parts" + of: "0",
			"zkrecipes_cache_failed_parts" + of: "1",
		}, scrape(t, metrics))
		away(srv, 5*time.Second)
		got := scrape(t, metrics)
		require.Equal(t, "0", got["zkrecipes_view_current"+of])
		require.Equal(t, "5", got["zkrecipes_view_age_seconds"+of])
		srv.Accept(zktest.Label("a"))
		time.Sleep(time.Minute)
		require.Equal(t, "1", scrape(t, metrics)["zkrecipes_view_current"+of])
	})
}

func TestNode_Metrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory())
		client, _ := dial(t, srv, "a")
		n, err := node.New(client, "/app/w1", nil)
		require.NoError(t, err)
		defer func() { require.NoError(t, n.Close(context.WithoutCancel(t.Context()))) }()
		metrics, err := zkprom.Node("w1", n)
		require.NoError(t, err)
		require.NoError(t, n.Ready(t.Context()))
		const of = `{name="w1",recipe="node"}`
		require.Equal(t, map[string]string{
			"zkrecipes_view_current" + of: "1", "zkrecipes_view_age_seconds" + of: "0", "zkrecipes_node_present" + of: "1",
		}, scrape(t, metrics))
		away(srv, 20*time.Second)
		got := scrape(t, metrics)
		require.Equal(t, "0", got["zkrecipes_view_current"+of])
		require.Equal(t, "0", got["zkrecipes_node_present"+of])
	})
}

func TestGroup_Metrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory())
		client, _ := dial(t, srv, "a")
		other, _ := dial(t, srv, "b")
		for i, from := range []*group.Group{must(group.New(other, "/app")), must(group.New(other, "/app"))} {
			_, err := from.Join(t.Context(), string(rune('x'+i)), nil)
			require.NoError(t, err)
		}
		ctx, stop := context.WithCancel(t.Context())
		metrics, views, err := zkprom.Group("workers", must(group.New(client, "/app")).Watch(ctx))
		require.NoError(t, err)
		const of = `{name="workers",recipe="group"}`
		require.Equal(t, map[string]string{"zkrecipes_view_current" + of: "0"}, scrape(t, metrics), "nothing is known yet")
		seen := 0
		go func() {
			for view, err := range views {
				if err == nil {
					seen = len(view.Members)
				}
			}
		}()
		synctest.Wait()
		time.Sleep(3 * time.Second)
		require.Equal(t, 2, seen)
		require.Equal(t, map[string]string{
			"zkrecipes_view_current" + of: "1", "zkrecipes_view_age_seconds" + of: "0", "zkrecipes_group_members" + of: "2",
		}, scrape(t, metrics))
		away(srv, 5*time.Second)
		got := scrape(t, metrics)
		require.Equal(t, "0", got["zkrecipes_view_current"+of])
		require.NotEqual(t, "0", got["zkrecipes_view_age_seconds"+of])
		srv.Accept(zktest.Label("a"))
		time.Sleep(time.Minute)
		require.Equal(t, "1", scrape(t, metrics)["zkrecipes_view_current"+of])
		stop()
		synctest.Wait()
		require.Equal(t, "0", scrape(t, metrics)["zkrecipes_view_current"+of], "the loop is over")
	})
}

// After an error, the metrics keep the last view, whose age counts from the end of the loop.
func TestGroup_ALoopThatEndsWithAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		metrics, views, err := zkprom.Group("workers", func(yield func(group.View, error) bool) {
			yield(group.View{Members: make([]group.Member, 2), Freshness: zkrecipes.Freshness{AsOf: time.Now(), Current: true}},
				nil)
			time.Sleep(3 * time.Second)
			yield(group.View{}, zkrecipes.ErrClosed)
		})
		require.NoError(t, err)
		for _, err := range views {
			if err != nil {
				require.ErrorIs(t, err, zkrecipes.ErrClosed)
			}
		}
		time.Sleep(time.Second)
		const of = `{name="workers",recipe="group"}`
		require.Equal(t, map[string]string{
			"zkrecipes_view_current" + of: "0", "zkrecipes_view_age_seconds" + of: "1", "zkrecipes_group_members" + of: "2",
		}, scrape(t, metrics))
	})
}

func TestValue_Metrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory())
		client, _ := dial(t, srv, "a")
		v := must(value.New(client, "/app", value.JSON[int]()))
		metrics, views, err := zkprom.Value("limit", v.Watch(t.Context()))
		require.NoError(t, err)
		const of = `{name="limit",recipe="value"}`
		for range views { //nolint:errcheck // only the metrics matter
			require.Equal(t, map[string]string{
				"zkrecipes_view_current" + of: "1", "zkrecipes_view_age_seconds" + of: "0",
			}, scrape(t, metrics))
			break
		}
		require.Equal(t, "0", scrape(t, metrics)["zkrecipes_view_current"+of])
	})
}

func TestViews_OfOneRegistry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory())
		client, all := dial(t, srv, "a")
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(all)
		for _, path := range []string{"/a", "/b"} {
			c := must(cache.Node(client, path))
			defer func() { require.NoError(t, c.Close(context.WithoutCancel(t.Context()))) }()
			registry.MustRegister(must(zkprom.Cache(path, c)))
		}
		_, err := registry.Gather()
		require.NoError(t, err)
	})
}

func TestViews_BadInput(t *testing.T) {
	_, err := zkprom.Cache("a", nil)
	require.ErrorContains(t, err, "nil")
	_, err = zkprom.Node("a", nil)
	require.ErrorContains(t, err, "nil")
	_, _, err = zkprom.Group("a", nil)
	require.ErrorContains(t, err, "views of the group are nil")
	_, _, err = zkprom.Value[int]("a", nil)
	require.ErrorContains(t, err, "views of the value are nil")
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
