package cache_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/cache"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// The first reads of the children are in flight, so the cache does not know them yet. They have set watches.
func TestClose_WhileNodesAreRead_LeavesNoWatch(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		create(t, srv, root, "/app/a", "/app/b")
		client, read, answer := bubble.Dial(t, srv, "w"), make(chan struct{}), make(chan struct{})
		srv.Intercept(zktest.Match{From: watcher, Op: zktest.OpGetData, Path: "^/app/b$"}, zktest.After(func(zktest.Request) {
			close(read)
			<-answer
		}))
		c, err := cache.Tree(client, root)
		require.NoError(t, err)
		<-read
		_, known := c.Get("/app/b")
		require.False(t, known)
		closed := make(chan error, 1)
		go func() { closed <- c.Close(t.Context()) }()
		synctest.Wait()
		close(answer)
		require.NoError(t, <-closed)
		total, _ := srv.Watches()
		require.Zero(t, total)
	})
}

// The view was not requested for a quiet hour. When the connection is lost, the time of the newest answer counts.
func TestView_AsOf_OfAQuietCacheThatIsCutOff(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		create(t, srv, root)
		c := ready(t, open(t, srv, cache.Tree, cache.WithRecheck(24*time.Hour)))
		time.Sleep(time.Hour)
		srv.Refuse(watcher)
		srv.Cut(watcher)
		time.Sleep(time.Minute)
		require.Less(t, time.Since(c.View().AsOf), time.Minute+bubble.Timeout)
		srv.Accept(watcher)
	})
}

// A cache that was complete once is ready, even without a connection.
func TestReady_WhileDisconnected_ReturnsAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		create(t, srv, root)
		c := ready(t, open(t, srv, cache.Tree))
		srv.Refuse(watcher)
		srv.Cut(watcher)
		synctest.Wait()
		require.NoError(t, c.Ready(within(t, time.Second)))
		srv.Accept(watcher)
	})
}

// The list of a node could not be read, so no watch reports its changes. The data shows when it has changed.
func TestTree_ListThatCouldNotBeRead_IsReadWithTheData(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		create(t, srv, root, "/app/a", "/app/a/b")
		hidden := srv.Intercept(zktest.Match{From: watcher, Op: zktest.OpGetChildren2, Path: "^/app/a$", Times: -1},
			zktest.Fail(zktest.CodeNoAuth))
		c := ready(t, open(t, srv, cache.Tree))
		e, _ := c.Get("/app/a")
		require.ErrorIs(t, e.Err, zk.ErrNoAuth)
		require.Zero(t, e.NumChildren, "no list was read")
		require.Equal(t, e.Czxid, e.Pzxid)
		hidden.Remove()
		require.NoError(t, srv.Set("/app/a", []byte("new")))
		synctest.Wait()
		require.Equal(t, truth(srv), content(c))
		require.Zero(t, c.View().Failed)
	})
}

// What the caller waits for has happened, so it counts even if ctx is done.
func TestReady_CompleteAndContextDone(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		create(t, srv, root)
		c, err := cache.Tree(bubble.Dial(t, srv, "w"), root)
		require.NoError(t, err)
		require.NoError(t, c.Ready(t.Context()))
		done, cancel := context.WithCancel(t.Context())
		cancel()
		for range 100 {
			require.NoError(t, c.Ready(done))
		}
		srv.Intercept(zktest.Match{Op: zktest.OpSync}, zktest.HoldReply(time.Second)) // so that it is not complete
		require.ErrorIs(t, c.Sync(done), context.Canceled)
		require.NoError(t, c.Close(t.Context()))
	})
}

func TestClose_ClosedAndContextDone(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		create(t, srv, root)
		c, err := cache.Tree(bubble.Dial(t, srv, "w"), root)
		require.NoError(t, err)
		require.NoError(t, c.Close(t.Context()))
		done, cancel := context.WithCancel(t.Context())
		cancel()
		for range 100 {
			require.NoError(t, c.Close(done))
		}
	})
}

// While a tree is loaded, an answer may always have arrived before the cache has handled the previous one.
func TestClose_DuringALoad_ReturnsWithItsContext(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		create(t, srv, root)
		for i := range 500 {
			create(t, srv, fmt.Sprintf("/app/n%d", i), fmt.Sprintf("/app/n%d/x", i))
		}
		srv.Intercept(zktest.Match{From: watcher, Times: -1}, zktest.Delay(time.Millisecond/2))
		busy := func(path string) cache.Scope {
			if strings.HasSuffix(path, "/x") {
				time.Sleep(time.Millisecond)
			}
			return cache.Whole
		}
		c := open(t, srv, cache.Tree, cache.WithWindow(2), cache.WithFilter(busy))
		time.Sleep(400 * time.Millisecond) // half of the lists are read
		began := time.Now()
		require.ErrorIs(t, c.Close(within(t, 10*time.Millisecond)), context.DeadlineExceeded)
		require.Less(t, time.Since(began), 50*time.Millisecond)
	})
}
