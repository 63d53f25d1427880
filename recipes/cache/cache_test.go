package cache_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/cache"
	"github.com/zkrecipes/zkrecipes/zktest"
)

const root = "/app"

var watcher = zktest.Label("w")

func inBubble(t *testing.T, test func(t *testing.T, srv *zktest.Server), opts ...zktest.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(t, zktest.Run(t, append([]zktest.Option{zktest.InMemory()}, opts...)...))
	})
}

func create(t testing.TB, srv *zktest.Server, paths ...string) {
	t.Helper()
	for _, path := range paths {
		_, err := srv.Create(path, []byte("data of "+path), zktest.Persistent)
		require.NoError(t, err)
	}
}

type opener func(*conn.Client, string, ...cache.Option) (*cache.Cache, error)

// open opens a cache with its own client, and closes it at the end of the test.
func open(t testing.TB, srv *zktest.Server, of opener, opts ...cache.Option) *cache.Cache {
	t.Helper()
	c, err := of(bubble.Dial(t, srv, "w"), root, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close(context.WithoutCancel(t.Context()))) })
	return c
}

func ready(t testing.TB, c *cache.Cache) *cache.Cache {
	t.Helper()
	require.NoError(t, c.Ready(within(t, time.Minute)))
	return c
}

func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// content returns what a cache has, in the server's terms.
func content(c *cache.Cache) map[string]string {
	list, _ := c.Snapshot()
	got := map[string]string{}
	for _, e := range list {
		got[e.Path] = show(e.Data, e.Version, e.Czxid, e.Mzxid, e.EphemeralOwner)
	}
	return got
}

func show(data []byte, version int32, czxid, mzxid, owner int64) string {
	return fmt.Sprintf("%q v%d %x %x %x", data, version, czxid, mzxid, owner)
}

// truth returns what the server has, down to a depth.
func truth(srv *zktest.Server) map[string]string {
	want := map[string]string{}
	for _, n := range srv.Tree(root) {
		want[n.Path] = show(n.Data, n.Stat.Version, n.Stat.Czxid, n.Stat.Mzxid, n.Stat.EphemeralOwner)
	}
	return want
}

func TestTree_IsLoadedAndFollows(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		create(t, srv, root, "/app/a", "/app/a/b", "/app/a/b/c", "/app/d", "/other")
		c := ready(t, open(t, srv, cache.Tree))
		require.Equal(t, truth(srv), content(c))
		require.True(t, c.View().Current)

		require.NoError(t, srv.Set("/app/a/b", []byte("x")))
		create(t, srv, "/app/d/e", "/app/f")
		require.NoError(t, srv.Delete("/app/a/b/c"))
		synctest.Wait()
		require.Equal(t, truth(srv), content(c))
		require.NoError(t, srv.DeleteAll(root))
		synctest.Wait()
		require.Empty(t, content(c))
		require.False(t, c.View().Exists)
		require.True(t, c.View().Current)
		create(t, srv, root, "/app/a")
		synctest.Wait()
		require.Equal(t, truth(srv), content(c))
		total, _ := srv.Watches()
		require.Equal(t, 2*2, total, "two watches for each node")
	})
}

func TestClose_AtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		client := bubble.Dial(t, srv, "w")
		for range 100 {
			c, err := cache.Tree(client, root)
			require.NoError(t, err)
			require.NoError(t, c.Close(t.Context()))
		}
	})
}

// An invalid path is not another name of a node.
func TestGet_NoPath(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		create(t, srv, root, "/app/a", "/app/a/b")
		c := ready(t, open(t, srv, cache.Tree))
		for _, path := range []string{"", "/", "app", "/app/", "/app/a/", "/app//a", "/app/a/b/", "/appa", "/app/a/b/c"} {
			_, ok := c.Get(path)
			require.False(t, ok, path)
			require.Empty(t, c.List(path), path)
		}
	})
}

// A server that does not know the request hangs up on it. A client that closes one cache after another does not lose a
// connection for each.
func TestClose_ServerHangsUpOnRemovals(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		create(t, srv, root, "/app/a")
		client := bubble.Dial(t, srv, "w")
		asked := srv.Intercept(zktest.Match{Op: zktest.OpRemoveWatches, Times: -1}, zktest.DropRequest())
		for range 5 {
			c, err := cache.Tree(client, root)
			require.NoError(t, err)
			ready(t, c)
			require.NoError(t, c.Close(t.Context()))
			time.Sleep(time.Second)
		}
		require.Equal(t, 2, asked.Hits())
		asked.Remove()
	})
}

// While one cache removes its watches, another one on the same nodes is closed. Each leaves the watches that the other
// needs, and in the end none is left.
func TestClose_AnotherIsClosing(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		create(t, srv, root, "/app/a", "/app/a/b", "/app/z")
		client := bubble.Dial(t, srv, "w")
		whole, err := cache.Tree(client, root)
		require.NoError(t, err)
		part, err := cache.Tree(client, "/app/a")
		require.NoError(t, err)
		ready(t, whole)
		ready(t, part)
		slow := make(chan struct{})
		srv.Intercept(zktest.Match{Op: zktest.OpRemoveWatches, Path: "^/app/z$"}, zktest.HoldReplyUntil(slow))
		closed := make(chan error)
		go func() { closed <- whole.Close(t.Context()) }()
		synctest.Wait()
		go func() { closed <- part.Close(t.Context()) }()
		synctest.Wait()
		close(slow)
		require.NoError(t, <-closed)
		require.NoError(t, <-closed)
		total, _ := srv.Watches()
		require.Zero(t, total)
	})
}

// A cache leaves the watches that another cache of the client needs, and removes all others.
func TestClose_AnotherCacheCoversThePath_TakesWhatThatDoesNotNeed(t *testing.T) {
	others := map[string]struct {
		open    opener
		opts    []cache.Option
		hidden  bool // the other cache does not know the children
		watches int  // of the other cache
	}{
		"node":                    {open: cache.Node, watches: 1},
		"children":                {open: cache.Children, watches: 2 + 1000},
		"tree of two levels":      {open: cache.Tree, opts: []cache.Option{cache.WithDepth(2)}, watches: 2 + 2*1000 + 1},
		"tree":                    {open: cache.Tree, watches: 2 + 2*1000 + 2},
		"tree that has not found": {open: cache.Tree, hidden: true, watches: 1},
	}
	for name, other := range others {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				create(t, srv, root)
				for i := range 1000 {
					create(t, srv, fmt.Sprintf("/app/n%d", i))
				}
				create(t, srv, "/app/n7/x")
				client := bubble.Dial(t, srv, "w")
				whole, err := cache.Tree(client, root)
				require.NoError(t, err)
				ready(t, whole)
				if other.hidden {
					srv.Intercept(zktest.Match{Op: zktest.OpGetChildren2, Path: "^/app$", Times: -1}, zktest.Fail(zktest.CodeNoAuth))
				}
				stays, err := other.open(client, root, other.opts...)
				require.NoError(t, err)
				_ = stays.Ready(within(t, time.Minute)) // the hidden one returns an error
				count := reads(srv)
				require.NoError(t, whole.Close(t.Context()))
				synctest.Wait()
				if other.hidden {
					require.LessOrEqual(t, count.Hits(), 1, "it may look whether it can list the children now")
				} else {
					require.Zero(t, count.Hits(), "the other is not disturbed")
				}
				total, _ := srv.Watches()
				require.Equal(t, other.watches, total)
				want := content(stays)
				for path := range want {
					require.NoError(t, srv.Set(path, []byte("new")))
				}
				synctest.Wait()
				for path := range want {
					e, _ := stays.Get(path)
					require.Equal(t, "new", string(e.Data))
				}
				require.NoError(t, stays.Close(t.Context()))
				total, _ = srv.Watches()
				require.Zero(t, total)
			})
		})
	}
}
