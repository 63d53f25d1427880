package cache_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/cache"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// owner closes nodes to other clients, and opens them again.
type owner struct {
	t    *testing.T
	conn *zk.Conn
}

func newOwner(t *testing.T, srv *zktest.Server) owner {
	t.Helper()
	c, _, err := zk.Connect([]string{srv.Addr()}, bubble.Timeout, zk.WithDialer(srv.DialTimeout), zk.WithLogInfo(false))
	require.NoError(t, err)
	t.Cleanup(c.Close)
	require.NoError(t, c.AddAuth("digest", []byte("u:p")))
	return owner{t, c}
}

func (o owner) close(path string) { o.set(path, zk.DigestACL(zk.PermAll, "u", "p")) }

func (o owner) open(path string) { o.set(path, zk.WorldACL(zk.PermAll)) }

func (o owner) set(path string, acl []zk.ACL) {
	o.t.Helper()
	_, err := o.conn.SetACL(path, acl, -1)
	require.NoError(o.t, err)
}

// While a node is closed, its event is sent to no client that may not read it, and the watch is spent.
func TestSync_NodeWasClosedAndOpened_HasWhatWasWrittenMeanwhile(t *testing.T) {
	changes := map[string]func(t *testing.T, srv *zktest.Server, o owner){
		"set": func(t *testing.T, srv *zktest.Server, _ owner) {
			require.NoError(t, srv.Set("/app/a", []byte("new")))
		},
		"child": func(t *testing.T, srv *zktest.Server, _ owner) { create(t, srv, "/app/a/new") },
		"made again": func(t *testing.T, srv *zktest.Server, o owner) {
			require.NoError(t, srv.DeleteAll("/app/a"))
			create(t, srv, "/app/a", "/app/a/other")
			o.close("/app/a")
		},
		"root": func(t *testing.T, srv *zktest.Server, o owner) {
			o.close(root)
			require.NoError(t, srv.Set(root, []byte("new")))
			if srv.Exists("/app/new") {
				require.NoError(t, srv.Delete("/app/new"))
			} else {
				create(t, srv, "/app/new")
			}
			o.open(root)
		},
	}
	for name, change := range changes {
		for _, bare := range []bool{false, true} { // a server that cannot set watches without a read
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				if bare {
					srv.Intercept(zktest.Match{From: watcher, Op: zktest.OpSetWatches, Times: -1},
						zktest.Fail(zktest.CodeUnimplemented))
				}
				create(t, srv, root, "/app/a", "/app/a/b", "/app/c")
				c := ready(t, open(t, srv, cache.Tree))
				o := newOwner(t, srv)
				for range 2 {
					o.close("/app/a")
					change(t, srv, o)
					o.open("/app/a")
					require.NoError(t, c.Sync(within(t, time.Second)), name)
					require.Equal(t, truth(srv), content(c), name)
					require.NoError(t, srv.DeleteAll("/app/a"))
					create(t, srv, "/app/a")
					require.NoError(t, c.Sync(within(t, time.Second)), name)
				}
			})
		}
	}
}

// A node that may not be read leaves the rest current. The view reports how much could not be read, and Sync tries
// again.
func TestSync_ReadsAgainWhatMayBeReadNow(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		create(t, srv, root, "/app/a", "/app/a/b", "/app/c")
		o := newOwner(t, srv)
		o.close("/app/a")
		c := ready(t, open(t, srv, cache.Tree))
		require.Equal(t, 2, c.View().Failed)
		require.True(t, c.View().Current)
		require.NoError(t, c.Sync(within(t, time.Second)))
		require.Equal(t, 2, c.View().Failed)
		o.open("/app/a")
		synctest.Wait()
		require.Equal(t, 2, c.View().Failed, "nothing tells of that")
		require.NoError(t, c.Sync(within(t, time.Second)))
		require.Zero(t, c.View().Failed)
		require.Equal(t, truth(srv), content(c))
		o.close("/app/a")
		require.NoError(t, srv.Set("/app/c", nil)) // unrelated to the node
		require.NoError(t, c.Sync(within(t, time.Second)))
		require.Zero(t, c.View().Failed, "what was read stays right")
	})
}

// The server does not report the creation of a root that may not be read.
func TestSync_RootIsCreatedClosed_SaysSo(t *testing.T) {
	for _, release := range []zktest.Release{"3.9.5", "3.9.6"} {
		inBubble(t, func(t *testing.T, srv *zktest.Server) {
			c := ready(t, open(t, srv, cache.Tree))
			o := newOwner(t, srv)
			_, err := o.conn.Create(root, nil, 0, zk.DigestACL(zk.PermAll, "u", "p"))
			require.NoError(t, err)
			require.ErrorIs(t, c.Sync(within(t, time.Second)), zk.ErrNoAuth, release)
			require.True(t, c.View().Exists)
			o.open(root)
			require.NoError(t, c.Sync(within(t, time.Second)))
			require.Equal(t, truth(srv), content(c))
			require.NoError(t, srv.Delete(root))
			require.NoError(t, c.Sync(within(t, time.Second)))
			require.False(t, c.View().Exists)
			create(t, srv, root)
			synctest.Wait()
			require.Equal(t, truth(srv), content(c), "the watch is set again")
		}, zktest.WithRelease(release))
	}
}

// misled returns a cache that has missed what was written while a node was closed, and that knows of a later
// transaction.
func misled(t *testing.T, srv *zktest.Server) *cache.Cache {
	t.Helper()
	create(t, srv, root, "/app/a", "/app/c")
	c := ready(t, open(t, srv, cache.Tree))
	o := newOwner(t, srv)
	o.close("/app/a")
	require.NoError(t, srv.Set("/app/a", []byte("new")))
	o.open("/app/a")
	require.NoError(t, srv.Set("/app/c", []byte("newer")))
	synctest.Wait()
	require.NotEqual(t, truth(srv), content(c))
	return c
}

// The sync is answered while the watches are being set again, since a transaction that came after the one that was
// missed.
func TestSync_DuringAReconnect_HasWhatWasWrittenWhileANodeWasClosed(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := misled(t, srv)
		srv.Refuse(watcher)
		srv.Cut(watcher)
		synced := make(chan error, 1)
		go func() { synced <- c.Sync(within(t, time.Minute)) }()
		synctest.Wait()
		srv.Accept(watcher)
		require.NoError(t, <-synced)
		require.Equal(t, truth(srv), content(c))
	})
}

// The connection is lost while the watches are being requested. On the next one all of them are requested, since the
// same transaction.
func TestSync_LostConnection_HasWhatWasWrittenWhileANodeWasClosed(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := misled(t, srv)
		srv.Intercept(zktest.Match{From: watcher, Op: zktest.OpSetWatches}, zktest.DropRequest())
		require.NoError(t, c.Sync(within(t, time.Minute)))
		require.Equal(t, truth(srv), content(c))
	})
}

// Concurrent calls share requests.
func TestSync_Costs(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		create(t, srv, root)
		for i := range 3000 {
			create(t, srv, fmt.Sprintf("/app/n%d", i))
		}
		c := ready(t, open(t, srv, cache.Tree))
		srv.SetLatency(time.Millisecond)
		read, all := reads(srv), bubble.Requests(srv)
		require.NoError(t, c.Sync(within(t, time.Second)))
		require.Equal(t, 2, all.Hits(), "a sync, and the watches")
		synced := make(chan error)
		for range 100 {
			go func() { synced <- c.Sync(within(t, time.Second)) }()
		}
		for range 100 {
			require.NoError(t, <-synced)
		}
		require.LessOrEqual(t, all.Hits(), 6)
		require.Zero(t, read.Hits())
	})
}

// A node has too much data, but its list of children can be read.
func TestTree_DataTooLarge_ChildrenAreFollowed(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		_, err := srv.Create(root, make([]byte, 10<<10), zktest.Persistent)
		require.NoError(t, err)
		create(t, srv, "/app/a")
		c, err := cache.Tree(bubble.Dial(t, srv, "w", conn.WithMaxReplySize(4<<10)), root)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, c.Close(context.WithoutCancel(t.Context()))) })
		require.ErrorIs(t, c.Ready(within(t, time.Second)), zkrecipes.ErrTooLarge)
		require.Equal(t, 1, c.View().Failed)
		create(t, srv, "/app/b")
		synctest.Wait()
		require.Len(t, c.List(root), 2)
	})
}

// The data of a node that can be read again shows that it has no children. Its list has not been read yet.
func TestTree_ReadableAgain_WithoutChildren_IsWhole(t *testing.T) {
	for _, window := range []int{1, 256} {
		inBubble(t, func(t *testing.T, srv *zktest.Server) {
			create(t, srv, root, "/app/a")
			o := newOwner(t, srv)
			o.close("/app/a")
			c := ready(t, open(t, srv, cache.Tree, cache.WithWindow(window)))
			told := follow(t, c)
			require.Equal(t, []string{"created /app", "created /app/a", "current "}, told())
			o.open("/app/a")
			require.NoError(t, c.Sync(within(t, time.Second)))
			require.Zero(t, c.View().Failed)
			lines := told()
			require.NotEmpty(t, lines)
			for _, line := range lines {
				require.Equal(t, "updated /app/a", line)
			}
			create(t, srv, "/app/a/b")
			require.Equal(t, []string{"created /app/a/b"}, told())
		})
	}
}
