package cache_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/conn"
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

// The bytes of a node are counted until it is gone.
func TestView_Bytes_GoWithTheNodes(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		create(t, srv, root, "/app/a")
		c := ready(t, open(t, srv, cache.Tree))
		before := c.View()
		for range 3 {
			create(t, srv, "/app/b", "/app/b/c")
			synctest.Wait()
			require.Equal(t, before.Bytes+int64(len("b")+len("c")+len("data of /app/b")+len("data of /app/b/c")), c.View().Bytes)
			require.NoError(t, srv.DeleteAll("/app/b"))
			synctest.Wait()
			require.Equal(t, before.Bytes, c.View().Bytes)
			require.Equal(t, before.Nodes, c.View().Nodes)
		}
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

// Both servers have the same nodes with different data. Most watches have yet to be set when the cache notices.
func TestTree_RestoredServer_ManyNodes_AreAllReadAnew(t *testing.T) {
	inBubble(t, func(t *testing.T, old *zktest.Server) {
		restored := zktest.Run(t, zktest.InMemory())
		create(t, old, root)
		create(t, restored, root)
		for i := range 100 {
			path := fmt.Sprintf("/app/%0100d", i)
			create(t, old, path)
		}
		for i := range 100 { // in another order, and therefore under other transaction numbers
			_, err := restored.Create(fmt.Sprintf("/app/%0100d", 99-i), []byte("restored"), zktest.Persistent)
			require.NoError(t, err)
		}
		for range 1000 {
			require.NoError(t, old.Set(root, nil))
		}
		client, restore := dialRestorable(t, old, conn.WithMaxRequestSize(4096))
		c, err := cache.Tree(client, root, cache.WithWindow(1), cache.WithRecheck(24*time.Hour))
		require.NoError(t, err)
		require.Equal(t, truth(old), content(ready(t, c)))
		restore(restored)
		time.Sleep(time.Minute)
		require.Equal(t, truth(restored), content(c))
	})
}
