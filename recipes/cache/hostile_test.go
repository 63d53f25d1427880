package cache_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/cache"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// TestSize_OfANode limits the memory that a node takes, with and without its data.
func TestSize_OfANode(t *testing.T) {
	if bubble.Race {
		t.Skip("the race detector takes memory of its own")
	}
	const nodes = 50_000
	for _, tt := range []struct {
		name string
		data int
		opts []cache.Option
		most int64
	}{
		{"with data", 16, nil, 145},
		{"names alone", 100, []cache.Option{cache.WithoutData()}, 129},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				create(t, srv, root)
				for i := range nodes {
					_, err := srv.Create(fmt.Sprintf("/app/node-%06d", i), make([]byte, tt.data), zktest.Persistent)
					require.NoError(t, err)
				}
				c, err := cache.Children(bubble.Dial(t, srv, "w"), root, tt.opts...)
				require.NoError(t, err)
				kept := []*cache.Cache{ready(t, c)}
				require.NoError(t, c.Close(t.Context())) // the entries remain
				require.Equal(t, nodes+1, c.View().Nodes)
				before := bubble.Heap()
				clear(kept)
				total := before - bubble.Heap()
				each := total / nodes
				t.Logf("%d bytes a node, %.1f MB of %d", each, float64(total)/1e6, nodes)
				require.Positive(t, each, "the cache is still in use")
				require.Less(t, each, tt.most, "with %d bytes of data, and 11 of a name", tt.data)
			}, zktest.WithHistory(0))
		})
	}
}

// Each name is used once, like the names of contenders. A busy reader need not learn of nodes that are gone by then.
func TestHostile_NodesThatComeAndGo_DoNotPileUpForASlowReader(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		create(t, srv, root, "/app/a", "/app/kept")
		c := ready(t, open(t, srv, cache.Tree))
		back, told := make(chan struct{}), make(chan string, 100)
		comeBack := sync.OnceFunc(func() { close(back) })
		defer comeBack()
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go func() {
			for change, err := range c.Watch(ctx) {
				if err == nil {
					if change.Kind == cache.Deleted {
						<-back
					}
					told <- fmt.Sprint(change.Kind, " ", change.Entry.Path)
				}
			}
		}()
		synctest.Wait()
		require.NoError(t, srv.Delete("/app/a"))
		synctest.Wait()
		require.NoError(t, srv.Set("/app/kept", nil))
		synctest.Wait()
		before := bubble.Heap()
		for i := range 5000 {
			path := fmt.Sprintf("/app/%0200d", i)
			create(t, srv, path)
			synctest.Wait()
			require.NoError(t, srv.Delete(path))
			synctest.Wait()
		}
		require.Less(t, bubble.Heap()-before, int64(512<<10))
		create(t, srv, "/app/b")
		synctest.Wait()
		comeBack()
		synctest.Wait()
		stop()
		close(told)
		var all []string
		for line := range told {
			all = append(all, line)
		}
		require.Equal(t, []string{
			"created /app", "created /app/a", "created /app/kept", "current ",
			"deleted /app/a", "updated /app/kept", "created /app/b",
		}, all)
	}, zktest.WithHistory(0))
}

// A caller received many changes late. Their memory is released.
func TestHostile_BacklogThatWasTold_TakesNoMemory(t *testing.T) {
	if bubble.Race {
		t.Skip("the race detector takes memory of its own")
	}
	const nodes = 30_000
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		path := func(i int) string { return fmt.Sprintf("/app/node-%06d", i) }
		create(t, srv, root)
		for i := range nodes {
			create(t, srv, path(i))
		}
		c := ready(t, open(t, srv, cache.Children))
		back, updated := make(chan struct{}), 0
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go func() {
			for change, err := range c.Watch(ctx) {
				if err == nil && change.Kind == cache.Updated {
					<-back
					updated++
				}
			}
		}()
		synctest.Wait()
		before := bubble.Heap()
		for i := range nodes {
			require.NoError(t, srv.Set(path(i), nil))
		}
		synctest.Wait()
		close(back)
		synctest.Wait()
		require.Equal(t, nodes, updated)
		require.Less(t, bubble.Heap()-before, int64(512<<10))
	}, zktest.WithHistory(0))
}
