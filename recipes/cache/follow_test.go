package cache_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/internal/testkit/trial"
	"github.com/zkrecipes/zkrecipes/recipes/cache"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// reads counts the requests by which the cache reads, from now on.
func reads(srv *zktest.Server) *zktest.Rule {
	return srv.Intercept(zktest.Match{From: watcher, Times: -1, Where: func(r zktest.Request) bool {
		return r.Op == zktest.OpGetData || r.Op == zktest.OpGetChildren2 || r.Op == zktest.OpExists
	}}, zktest.Proceed())
}

// follow collects the changes as they arrive, one line each.
func follow(t *testing.T, c *cache.Cache) (told func() []string) {
	t.Helper()
	var lines []string
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	go func() {
		for change, err := range c.Watch(ctx) {
			if err != nil {
				lines = append(lines, err.Error())
			} else {
				lines = append(lines, fmt.Sprintf("%v %s", change.Kind, change.Entry.Path))
			}
		}
	}()
	return func() []string {
		synctest.Wait()
		now := lines
		lines = nil
		return now
	}
}

// The new node has the same versions as the old one, and so does the list of its children. A cache that compares
// versions would miss it.
func TestTree_DeletedAndCreatedAgain_IsSeen(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		create(t, srv, root, "/app/a", "/app/a/old")
		c := ready(t, open(t, srv, cache.Tree))
		told := follow(t, c)
		require.Equal(t, []string{"created /app", "created /app/a", "created /app/a/old", "current "}, told())
		for _, away := range []bool{false, true} {
			if away {
				srv.Refuse(watcher)
				srv.Cut(watcher)
				require.Equal(t, []string{"behind "}, told())
			}
			require.NoError(t, srv.DeleteAll("/app/a"))
			create(t, srv, "/app/a", "/app/a/new")
			if away {
				srv.Accept(watcher)
				time.Sleep(time.Second)
			}
			synctest.Wait()
			require.Equal(t, truth(srv), content(c))
			if away {
				require.Equal(t, []string{
					"deleted /app/a", "created /app/a", "deleted /app/a/new",
					"created /app/a/new", "current ",
				}, told())
			} else {
				require.ElementsMatch(t,
					[]string{"deleted /app/a/old", "deleted /app/a", "created /app/a", "created /app/a/new"}, told())
			}
		}
	})
}

func TestView_SaysHowOldItIs(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		create(t, srv, root)
		c := ready(t, open(t, srv, cache.Node))
		time.Sleep(time.Hour + time.Second) // between two rechecks
		require.Less(t, time.Since(c.View().AsOf), bubble.Timeout, "pings show that nothing has changed")

		srv.Stall(watcher, zktest.Both)
		stalled := time.Now()
		require.NoError(t, srv.Set(root, []byte("new")))
		time.Sleep(bubble.Timeout / 2)
		require.False(t, c.View().AsOf.After(stalled))
		time.Sleep(bubble.Timeout)
		view := c.View()
		require.False(t, view.Current, "the session is over")
		require.False(t, view.AsOf.After(stalled))
		e, ok := c.Get(root)
		require.True(t, ok, "old entries stay readable")
		require.Equal(t, "data of /app", string(e.Data))

		srv.Heal(watcher)
		time.Sleep(2 * bubble.Timeout)
		require.True(t, c.View().Current, "%+v", c.View())
		require.Less(t, time.Since(c.View().AsOf), bubble.Timeout)
		e, _ = c.Get(root)
		require.Equal(t, "new", string(e.Data))
	})
}

// The session ends while it is connected. No other event could wake the reader.
func TestWatch_SessionEndsUnderAReading_IsBehindAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		create(t, srv, root)
		c := ready(t, open(t, srv, cache.Tree))
		told := follow(t, c)
		require.Equal(t, []string{"created /app", "current "}, told())
		srv.Refuse(watcher) // the next session cannot open yet
		expiry := srv.Intercept(zktest.Match{From: watcher, Op: zktest.OpGetData, Times: -1},
			zktest.Fail(zktest.CodeSessionExpired))
		require.NoError(t, srv.Set(root, []byte("new")))
		require.Equal(t, []string{"behind "}, told())
		expiry.Remove()
		srv.Accept(watcher)
		time.Sleep(time.Minute)
		require.Equal(t, []string{"updated /app", "current "}, told())
	})
}

// After a reconnect, and in a new session, only what has changed is read.
func TestTree_Reconnect_ReadsOnlyWhatChanged(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		create(t, srv, root)
		for i := range 3000 {
			create(t, srv, fmt.Sprintf("/app/node-%d", i))
		}
		c := ready(t, open(t, srv, cache.Tree))
		for _, fault := range []func(){
			func() { srv.Cut(watcher) },
			func() { srv.Expire(srv.SessionOf("w")) },
		} {
			count, all := reads(srv), bubble.Requests(srv)
			fault()
			require.NoError(t, srv.Set("/app/node-7", []byte(time.Now().String())))
			time.Sleep(time.Second)
			synctest.Wait()
			require.True(t, c.View().Current)
			require.Equal(t, truth(srv), content(c))
			require.Equal(t, 1, count.Hits())
			require.Less(t, all.Hits(), 10)
			count.Remove()
			all.Remove()
			total, _ := srv.Watches()
			require.Equal(t, 2*3001, total)
		}
	})
}

// A node and the list of its children change together. The data that is read shows this too, while the list is in
// flight.
func TestTree_NodeAndChildrenChange_EachIsReadOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		create(t, srv, root, "/app/a")
		c := ready(t, open(t, srv, cache.Tree))
		srv.SetLatency(10 * time.Millisecond)
		count := reads(srv)
		require.NoError(t, srv.Set("/app/a", []byte("new")))
		create(t, srv, "/app/a/b")
		time.Sleep(time.Second)
		require.Equal(t, truth(srv), content(c))
		require.Equal(t, 3, count.Hits(), "two parts of a, and its child")
	})
}

// Every read of a node that once had children reports when the list last changed. The cache already knows that change,
// so it does not read the list.
func TestTree_NodeWithoutChildrenAnyMore_ItsListIsNotReadWithTheData(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		create(t, srv, root, "/app/a", "/app/a/b")
		c := ready(t, open(t, srv, cache.Tree))
		require.NoError(t, srv.Delete("/app/a/b"))
		synctest.Wait()
		count := reads(srv)
		for range 3 {
			require.NoError(t, srv.Set("/app/a", []byte("new")))
			synctest.Wait()
		}
		require.Equal(t, truth(srv), content(c))
		require.Equal(t, 3, count.Hits())
	})
}

func TestTree_Root_OfTheServer(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		create(t, srv, root, "/app/a")
		c, err := cache.Tree(bubble.Dial(t, srv, "w"), "/")
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, c.Close(context.WithoutCancel(t.Context()))) })
		ready(t, c)
		list, _ := c.Snapshot()
		require.Equal(t, "/", list[0].Path)
		e, ok := c.Get("/app/a")
		require.True(t, ok)
		require.Equal(t, "data of /app/a", string(e.Data))
	})
}

// In the order of the text "/app/a-b" comes before "/app/a/x"; in the order of the tree it comes after.
func TestWatch_NamesThatSortBeforeASlash(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		create(t, srv, root, "/app/a", "/app/a/x", "/app/a-b", "/app/b")
		c := ready(t, open(t, srv, cache.Tree))
		var told []string
		for change, err := range c.Watch(within(t, time.Minute)) {
			require.NoError(t, err)
			told = append(told, fmt.Sprintf("%v %s", change.Kind, change.Entry.Path))
			if change.Entry.Path == "/app/a-b" {
				require.NoError(t, srv.Set("/app/a/x", []byte("new")))
				synctest.Wait()
			}
			if change.Kind == cache.Current {
				break
			}
		}
		require.Equal(t, []string{
			"created /app", "created /app/a", "created /app/a/x", "created /app/a-b", "created /app/b",
			"updated /app/a/x", "current ",
		}, told)
	})
}

// A connection reports new transactions and is lost before the watches are set again. On the next one the watches must
// still be set as of the time before both.
func TestTree_LostAgainBeforeTheWatchesAreSet_MissesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		create(t, srv, root, "/app/a", "/app/b")
		c := ready(t, open(t, srv, cache.Tree))
		srv.Intercept(zktest.Match{From: watcher, Op: zktest.OpGetData, Path: "^/app/a$"}, zktest.Ignore())
		require.NoError(t, srv.Set("/app/a", []byte("new")))
		synctest.Wait() // the read is pending
		srv.Refuse(watcher)
		srv.Cut(watcher)
		require.NoError(t, srv.Set("/app/b", []byte("new")))
		never := make(chan struct{})
		defer close(never)
		srv.Intercept(zktest.Match{From: watcher, Op: zktest.OpSetWatches}, zktest.DelayUntil(never))
		srv.Accept(watcher)
		time.Sleep(time.Second)
		require.Contains(t, content(c)["/app/a"], "new", "the server has told of a newer transaction")
		srv.Cut(watcher)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, truth(srv), content(c))
	})
}

// The server has reported what has changed in the meantime, but it has not been read yet.
func TestView_AfterAReconnect_IsCurrentWhenAllIsRead(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		create(t, srv, root, "/app/a", "/app/b")
		c := ready(t, open(t, srv, cache.Tree))
		srv.SetLatency(50 * time.Millisecond)
		srv.Refuse(watcher)
		srv.Cut(watcher)
		require.NoError(t, srv.Set("/app/b", []byte("new")))
		create(t, srv, "/app/a/c", "/app/a/c/d")
		srv.Accept(watcher)
		synctest.Wait()
		for !c.View().Current {
			time.Sleep(time.Millisecond)
		}
		require.Equal(t, truth(srv), content(c))
	})
}

// A server that cannot set watches without a read returns an error, or hangs up.
func TestTree_ServerWithoutSetWatches_IsReadAgain(t *testing.T) {
	for name, action := range map[string]zktest.Action{
		"refuses": zktest.Fail(zktest.CodeUnimplemented), "hangs up": zktest.DropRequest(),
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				srv.Intercept(zktest.Match{From: watcher, Op: zktest.OpSetWatches, Times: -1}, action)
				create(t, srv, root, "/app/a", "/app/a/b")
				c := ready(t, open(t, srv, cache.Tree))
				change := func() {
					time.Sleep(time.Minute)
					require.True(t, c.View().Current)
					require.Equal(t, truth(srv), content(c))
				}
				change()
				srv.Cut(watcher)
				create(t, srv, "/app/a/b/c")
				change()
				require.NoError(t, srv.DeleteAll(root))
				change()
				create(t, srv, root, "/app/x")
				change()
				create(t, srv, "/app/x/y")
				change()
			})
		})
	}
}

// Most nodes are still waiting for their watches when the server refuses to set some.
func TestTree_ServerWithoutSetWatches_RefusesTheFirstOfMany(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		create(t, srv, root)
		for i := range 3000 {
			create(t, srv, fmt.Sprintf("/app/n%d", i))
		}
		refused := srv.Intercept(zktest.Match{From: watcher, Op: zktest.OpSetWatches, Times: -1},
			zktest.Fail(zktest.CodeUnimplemented))
		c := ready(t, open(t, srv, cache.Tree))
		require.Positive(t, refused.Hits())
		require.Equal(t, truth(srv), content(c))
		create(t, srv, "/app/n1/a", "/app/n2999/a")
		synctest.Wait()
		require.Equal(t, truth(srv), content(c))
	})
}

// Three bad connections make the cache reread all nodes after each reconnect. When a recheck finds that the server can
// set watches, only what has changed is read.
func TestTree_ServerSetsWatchesAgain_OnlyChangesAreRead(t *testing.T) {
	for name, action := range map[string]zktest.Action{
		"refuses": zktest.Fail(zktest.CodeUnimplemented), "hangs up": zktest.DropRequest(),
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				create(t, srv, root)
				for i := range 100 {
					create(t, srv, fmt.Sprintf("/app/n%d", i))
				}
				bad := srv.Intercept(zktest.Match{From: watcher, Op: zktest.OpSetWatches, Times: -1}, action)
				c := ready(t, open(t, srv, cache.Tree, cache.WithRecheck(time.Minute)))
				tries := bad.Hits()
				time.Sleep(time.Hour)
				require.Less(t, bad.Hits()-tries, 8, "it tries after 1, 2, 4 and more rechecks")
				bad.Remove()
				time.Sleep(time.Hour + 10*time.Minute)
				for range 3 {
					count := reads(srv)
					srv.Cut(watcher)
					require.NoError(t, srv.Set("/app/n7", []byte("new")))
					time.Sleep(time.Second)
					require.True(t, c.View().Current)
					require.Equal(t, truth(srv), content(c))
					require.Less(t, count.Hits(), 5)
					count.Remove()
				}
			})
		})
	}
}

// The server spends a watch without an event. The next recheck finds it.
func TestTree_LostWatch_IsFoundByTheRecheck(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		create(t, srv, root, "/app/a", "/app/b")
		c := ready(t, open(t, srv, cache.Tree, cache.WithRecheck(time.Minute)))
		time.Sleep(90 * time.Second)
		for _, path := range []string{"/app/a", "/app/b", root} {
			require.Equal(t, 2, srv.LoseWatch(watcher, path))
		}
		require.NoError(t, srv.Set("/app/a", []byte("new")))
		create(t, srv, "/app/b/new", "/app/c")
		synctest.Wait()
		require.NotEqual(t, truth(srv), content(c))
		time.Sleep(time.Minute + time.Second)
		synctest.Wait()
		require.Equal(t, truth(srv), content(c))
		count := reads(srv)
		time.Sleep(10 * time.Minute)
		require.Less(t, count.Hits(), 10, "a recheck of what is quiet reads nothing")
	})
}

// A server that cannot set watches again spends one without an event. The next recheck finds it, even if the root is
// missing.
func TestTree_ServerWithoutSetWatches_LostWatch_IsFoundByTheRecheck(t *testing.T) {
	for _, missing := range []bool{false, true} {
		inBubble(t, func(t *testing.T, srv *zktest.Server) {
			if !missing {
				create(t, srv, root)
			}
			srv.Intercept(zktest.Match{From: watcher, Op: zktest.OpSetWatches, Times: -1}, zktest.Fail(zktest.CodeUnimplemented))
			c := ready(t, open(t, srv, cache.Tree, cache.WithRecheck(time.Minute)))
			time.Sleep(90 * time.Second)
			require.Positive(t, srv.LoseWatch(watcher, root))
			if missing {
				create(t, srv, root)
			}
			create(t, srv, "/app/new")
			synctest.Wait()
			require.NotEqual(t, truth(srv), content(c))
			time.Sleep(time.Minute)
			synctest.Wait()
			require.Equal(t, truth(srv), content(c))
		})
	}
}

// Such a server sets a watch on a missing root only by exists. The root exists when it is checked, and is gone when it
// is read.
func TestTree_ServerWithoutSetWatches_RootGoesBeforeItIsRead(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		srv.SetLatency(time.Millisecond)
		srv.Intercept(zktest.Match{From: watcher, Op: zktest.OpSetWatches, Times: -1}, zktest.Fail(zktest.CodeUnimplemented))
		c := ready(t, open(t, srv, cache.Tree))
		srv.Intercept(zktest.Match{From: watcher, Op: zktest.OpGetData},
			zktest.Before(func(zktest.Request) { _ = srv.Delete(root) }))
		create(t, srv, root)
		count := reads(srv)
		time.Sleep(time.Minute)
		require.Less(t, count.Hits(), 10)
		require.True(t, c.View().Current)
		require.Empty(t, content(c))
		create(t, srv, root)
		time.Sleep(time.Second)
		require.Equal(t, truth(srv), content(c))
	})
}

// oblivious connects as a client that has seen nothing, so that a server that is behind accepts it.
type oblivious struct {
	net.Conn
	greeted bool
}

func (c *oblivious) Write(frame []byte) (int, error) {
	if !c.greeted {
		c.greeted = true
		binary.BigEndian.PutUint64(frame[8:], 0)
	}
	return c.Conn.Write(frame)
}

func TestTree_ServerThatIsBehind_TakesNothingBack(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		create(t, srv, root, "/app/a")
		fronts := srv.Fronts()
		var front atomic.Int32
		client, err := conn.Dial(t.Context(), srv.Addr(), conn.WithSessionTimeout(bubble.Timeout),
			conn.WithTickTime(2*time.Second),
			conn.WithDialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
				raw, err := fronts[front.Load()].DialAs("w")(ctx, network, addr)
				return &oblivious{Conn: raw}, err
			}))
		require.NoError(t, err)
		defer client.Close()
		c, err := cache.Tree(client, root)
		require.NoError(t, err)
		ready(t, c)
		fronts[1].Lag()
		require.NoError(t, srv.Set("/app/a", []byte("new")))
		create(t, srv, "/app/b")
		require.NoError(t, c.Sync(within(t, time.Second)))
		want := truth(srv)
		require.Equal(t, want, content(c))
		front.Store(1)
		srv.Cut(watcher)
		for range 3000 {
			time.Sleep(time.Millisecond)
			require.Equal(t, want, content(c))
		}
		require.False(t, c.View().Current)
		count := bubble.Requests(srv)
		time.Sleep(time.Second)
		require.Less(t, count.Hits(), 500, "no storm")
		fronts[1].CatchUp()
		time.Sleep(time.Minute)
		require.True(t, c.View().Current)
		require.Equal(t, want, content(c))
	}, zktest.WithFronts(3))
}

// The ensemble was rebuilt from an old backup: the transactions that the cache knows never happened.
func TestTree_RestoredServer_IsReadAnew(t *testing.T) {
	inBubble(t, func(t *testing.T, old *zktest.Server) {
		restored := zktest.Run(t, zktest.InMemory())
		create(t, restored, root, "/app/a")
		create(t, old, root, "/app/b", "/app/c", "/app/c/d", "/app/e")
		client, restore := dialRestorable(t, old)
		c, err := cache.Tree(client, root)
		require.NoError(t, err)
		require.Equal(t, truth(old), content(ready(t, c)))
		restore(restored)
		time.Sleep(5 * time.Minute)
		require.True(t, c.View().Current)
		require.Equal(t, truth(restored), content(c))
		create(t, restored, "/app/a/new")
		synctest.Wait()
		require.Equal(t, truth(restored), content(c))
	})
}

// As above, while watches still wait to be set since the old transactions. Each leaf gets a child before the watch on
// its list is set.
func TestTree_RestoredServer_WatchesAreSetSinceItsOwnTransactions(t *testing.T) {
	inBubble(t, func(t *testing.T, old *zktest.Server) {
		restored := zktest.Run(t, zktest.InMemory())
		leaf := func(i int) string { return fmt.Sprintf("/app/%0100d", i) } // so long that few fit into one request
		create(t, old, root)
		create(t, restored, root)
		for i := range 40 {
			create(t, old, leaf(100+i))
			create(t, restored, leaf(i))
		}
		for range 1000 {
			require.NoError(t, old.Set(root, nil))
		}
		client, restore := dialRestorable(t, old, conn.WithMaxRequestSize(4096))
		c, err := cache.Tree(client, root, cache.WithWindow(1), cache.WithRecheck(time.Hour))
		require.NoError(t, err)
		require.Equal(t, truth(old), content(ready(t, c)))
		restored.Intercept(zktest.Match{Op: zktest.OpSetWatches, Skip: 1}, zktest.Before(func(zktest.Request) {
			for i := range 40 {
				create(t, restored, leaf(i)+"/new")
			}
		}))
		restore(restored)
		time.Sleep(5 * time.Minute)
		require.True(t, restored.Exists(leaf(0)+"/new"))
		require.Equal(t, truth(restored), content(c))
	})
}

// dialRestorable returns a client of a server, and a function that replaces the server by another one.
func dialRestorable(
	t *testing.T, old *zktest.Server, opts ...conn.Option,
) (client *conn.Client, restore func(*zktest.Server)) {
	t.Helper()
	var now atomic.Pointer[zktest.Server]
	now.Store(old)
	client, err := conn.Dial(t.Context(), old.Addr(), append(opts, conn.WithSessionTimeout(bubble.Timeout),
		conn.WithDialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
			return now.Load().DialAs("w")(ctx, network, addr)
		}))...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() }) // never fails
	return client, func(srv *zktest.Server) {
		now.Store(srv)
		old.Cut(watcher)
	}
}

// A round is in progress when the sync is answered. What changes in the meantime belongs to the next round, for which
// Sync waits.
func TestSync_DuringARound_HasWhatChangedMeanwhile(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		create(t, srv, "/t")
		for i := range 10 {
			create(t, srv, fmt.Sprint("/t/", i))
		}
		c, err := cache.Tree(bubble.Dial(t, srv, "a"), "/t", cache.WithWindow(1))
		require.NoError(t, err)
		require.NoError(t, c.Ready(within(t, time.Second)))
		const roundTrip = 50 * time.Millisecond
		srv.SetLatency(roundTrip)
		for i := range 10 {
			require.NoError(t, srv.Set(fmt.Sprint("/t/", i), []byte("changed")))
		}
		time.Sleep(4*roundTrip + roundTrip/2) // it reads one node after the other, and has read the first
		require.NoError(t, srv.Set("/t/0", []byte("new")))
		require.NoError(t, c.Sync(within(t, time.Minute)))
		e, _ := c.Get("/t/0")
		require.Equal(t, "new", string(e.Data))
		require.NoError(t, c.Close(t.Context()))
	})
}

// Nodes change all the time, so there is never a moment without a read in flight.
func TestSync_WhileNodesChange_Ends(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		create(t, srv, root)
		for i := range 20 {
			create(t, srv, fmt.Sprintf("/app/n%d", i))
		}
		c := ready(t, open(t, srv, cache.Tree))
		srv.SetLatency(20 * time.Millisecond)
		stop := make(chan struct{})
		defer close(stop)
		go func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				case <-time.After(time.Millisecond):
					_ = srv.Set(fmt.Sprintf("/app/n%d", i%20), []byte(strconv.Itoa(i)))
				}
			}
		}()
		time.Sleep(time.Second)
		create(t, srv, "/app/new")
		start := time.Now()
		require.NoError(t, c.Sync(within(t, time.Second)))
		require.Less(t, time.Since(start), 200*time.Millisecond)
		_, ok := c.Get("/app/new")
		require.True(t, ok)
		view := c.View()
		require.True(t, view.Current)
		require.Less(t, time.Since(view.AsOf), 200*time.Millisecond)
	})
}

// The caller sleeps while nodes change: it gets the newest state of each, and the cache does not wait.
func TestWatch_SlowReader_IsToldTheNewest(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		create(t, srv, root, "/app/a", "/app/b", "/app/c")
		c := ready(t, open(t, srv, cache.Children))
		var told []string
		var woken bool
		for change, err := range c.Watch(t.Context()) {
			require.NoError(t, err)
			if change.Kind == cache.Current && !woken {
				woken = true
				for i := range 100 {
					require.NoError(t, srv.Set("/app/a", []byte(strconv.Itoa(i))))
					synctest.Wait()
				}
				require.NoError(t, srv.Delete("/app/b"))
				create(t, srv, "/app/d")
				synctest.Wait()
				require.NoError(t, srv.Delete("/app/d"))
				create(t, srv, "/app/e")
				synctest.Wait()
				require.NoError(t, srv.Delete("/app/e"))
				synctest.Wait()
				create(t, srv, "/app/e")
				synctest.Wait()
				require.NoError(t, srv.Set("/app/c", nil))
				synctest.Wait()
				require.Equal(t, truth(srv), content(c))
			} else if woken {
				told = append(told, fmt.Sprintf("%v %s %q", change.Kind, change.Entry.Path, change.Entry.Data))
			}
			if change.Entry.Path == "/app/c" && change.Kind == cache.Updated {
				break
			}
		}
		require.Equal(t, []string{
			`updated /app/a "99"`, `deleted /app/b ""`, `created /app/e "data of /app/e"`,
			`updated /app/c ""`,
		}, told)
	})
}

func TestTree_NodeThatMayNotBeRead_IsAnEntryWithAnError(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		create(t, srv, root, "/app/open")
		other := bubble.Dial(t, srv, "other", conn.WithAuth("digest", "u:p"))
		_, err := other.Create(t.Context(), "/app/secret", []byte("x"), 0, zk.DigestACL(zk.PermAll, "u", "p")...)
		require.NoError(t, err)
		c := ready(t, open(t, srv, cache.Tree, cache.WithRecheck(time.Minute)))
		e, ok := c.Get("/app/secret")
		require.True(t, ok)
		require.ErrorIs(t, e.Err, zk.ErrNoAuth)
		require.ErrorContains(t, e.Err, "/app/secret")
		require.True(t, c.View().Current)
		require.NoError(t, other.Delete(t.Context(), "/app/secret", -1))
		create(t, srv, "/app/secret")
		synctest.Wait()
		time.Sleep(2 * time.Minute) // what cannot be read is not watched
		require.Equal(t, truth(srv), content(c))
		e, _ = c.Get("/app/secret")
		require.NoError(t, e.Err)
	})
}

func TestReady_RootThatMayNotBeRead_SaysSo(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		other := bubble.Dial(t, srv, "other", conn.WithAuth("digest", "u:p"))
		_, err := other.Create(t.Context(), root, nil, 0, zk.DigestACL(zk.PermAll, "u", "p")...)
		require.NoError(t, err)
		c := open(t, srv, cache.Tree)
		require.ErrorIs(t, c.Ready(within(t, time.Minute)), zk.ErrNoAuth)
		require.ErrorIs(t, c.Sync(within(t, time.Minute)), zk.ErrNoAuth)
	})
}

func TestBounds_EndTheCacheWithAnError(t *testing.T) {
	for name, opt := range map[string]cache.Option{
		"WithMaxNodes": cache.WithMaxNodes(3), "WithMaxBytes": cache.WithMaxBytes(50),
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				create(t, srv, root, "/app/a", "/app/b")
				c := ready(t, open(t, srv, cache.Tree, opt))
				told := follow(t, c)
				told()
				create(t, srv, "/app/c")
				require.ErrorIs(t, c.Sync(within(t, time.Minute)), cache.ErrTooMuch)
				require.ErrorIs(t, c.Ready(within(t, time.Minute)), cache.ErrTooMuch)
				require.ErrorContains(t, c.View().Err, name)
				require.False(t, c.View().Current)
				lines := told()
				require.Contains(t, lines[len(lines)-1], name)
				e, ok := c.Get("/app/a")
				require.True(t, ok)
				require.Equal(t, "data of /app/a", string(e.Data))
				total, _ := srv.Watches()
				require.Zero(t, total)
			})
		})
	}
}

func TestWindow_BoundsTheRequestsOnTheirWay(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		create(t, srv, root)
		for i := range 100 {
			create(t, srv, fmt.Sprintf("/app/n%d", i))
		}
		const window = 10
		var most, now atomic.Int32
		srv.Intercept(zktest.Match{From: watcher, Op: zktest.OpGetData, Times: -1},
			zktest.After(func(zktest.Request) { now.Add(1) }))
		srv.SetLatency(10 * time.Millisecond)
		c := open(t, srv, cache.Tree, cache.WithWindow(window))
		srv.Stall(watcher, zktest.FromServer)
		time.Sleep(time.Second)
		most.Store(now.Load())
		require.LessOrEqual(t, most.Load(), int32(window))
		srv.Heal(watcher)
		ready(t, c)
		require.Equal(t, truth(srv), content(c))
	})
}

func TestDepth_BoundsTheTree(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		create(t, srv, root, "/app/a", "/app/a/b", "/app/a/b/c")
		c := ready(t, open(t, srv, cache.Tree, cache.WithDepth(2)))
		require.Len(t, content(c), 3)
		require.Len(t, c.List("/app/a"), 1)
		require.Empty(t, c.List("/app/a/b"))
		require.Empty(t, c.List("/app/missing"))
		total, _ := srv.Watches()
		require.Equal(t, 5, total)
	})
}

// The filter also applies to nodes that are created later, and to nodes that are deleted and created again.
func TestFilter_ReadsAndWatchesOnlyWhatItKeeps(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		create(t, srv, root, "/app/jobs", "/app/jobs/1", "/app/locks", "/app/locks/1", "/app/tmp", "/app/tmp/1")
		var asked []string
		read := reads(srv)
		c := ready(t, open(t, srv, cache.Tree, cache.WithFilter(func(path string) cache.Scope {
			asked = append(asked, path)
			switch path {
			case "/app/locks":
				return cache.Alone
			case "/app/tmp":
				return cache.Nothing
			}
			return cache.Whole
		})))
		require.Equal(t, []string{"/app/jobs", "/app/locks", "/app/tmp", "/app/jobs/1"}, asked)
		require.Equal(t, 4+2, read.Hits(), "the data of four, and two lists")
		kept := []string{"/app", "/app/jobs", "/app/jobs/1", "/app/locks"}
		paths := func() []string { return slices.Sorted(maps.Keys(content(c))) }
		require.Equal(t, kept, paths())
		total, _ := srv.Watches()
		require.Equal(t, 4+3, total, "on the data of four, and the children of three")
		e, _ := c.Get(root)
		require.EqualValues(t, 3, e.NumChildren, "of all")
		locks, _ := c.Get("/app/locks")
		require.EqualValues(t, 1, locks.NumChildren)

		require.NoError(t, srv.DeleteAll("/app/locks"))
		synctest.Wait()
		require.Equal(t, kept[:3], paths())
		create(t, srv, "/app/locks", "/app/locks/2", "/app/tmp/2", "/app/jobs/2")
		require.NoError(t, c.Sync(t.Context()))
		require.Equal(t, []string{"/app", "/app/jobs", "/app/jobs/1", "/app/jobs/2", "/app/locks"}, paths())
		srv.Cut(watcher)
		require.NoError(t, c.Sync(t.Context()))
		total, _ = srv.Watches()
		require.Equal(t, 5+4, total)
	})
}

// Writes are reported, but their data takes no memory.
func TestWithoutData_KeepsStats(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		create(t, srv, root, "/app/a")
		c := ready(t, open(t, srv, cache.Tree, cache.WithoutData()))
		told := follow(t, c)
		told()
		require.NoError(t, srv.Set("/app/a", make([]byte, 1000)))
		synctest.Wait()
		require.Len(t, told(), 1)
		e, ok := c.Get("/app/a")
		require.True(t, ok)
		require.Nil(t, e.Data)
		require.Zero(t, e.DataLength)
		require.EqualValues(t, 1, e.Version)
		require.EqualValues(t, len("a"), c.View().Bytes)
	})
}

func TestSync_WhileDisconnected_EndsWithItsContext(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		create(t, srv, root)
		c := ready(t, open(t, srv, cache.Node))
		srv.Refuse(watcher)
		srv.Cut(watcher)
		cause := errors.New("long enough")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, cause)
		defer cancel()
		require.ErrorIs(t, c.Sync(ctx), cause)
		srv.Accept(watcher)
		require.NoError(t, c.Sync(within(t, time.Minute)))
	})
}

func TestClose_EndsEverything(t *testing.T) {
	for name, closeIt := range map[string]func(*conn.Client, *cache.Cache) error{
		"cache":  func(_ *conn.Client, c *cache.Cache) error { return c.Close(context.Background()) },
		"client": func(client *conn.Client, _ *cache.Cache) error { return client.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				create(t, srv, root)
				client := bubble.Dial(t, srv, "w")
				c, err := cache.Tree(client, root)
				require.NoError(t, err)
				ready(t, c)
				told := follow(t, c)
				told()
				srv.Stall(watcher, zktest.ToServer)
				waiting := make(chan error, 1)
				go func() { waiting <- c.Sync(t.Context()) }()
				synctest.Wait()
				srv.Heal(watcher)
				require.NoError(t, closeIt(client, c))
				err = <-waiting
				if err != nil {
					require.ErrorIs(t, err, zkrecipes.ErrClosed)
				}
				require.ErrorIs(t, c.Ready(t.Context()), zkrecipes.ErrClosed)
				require.ErrorIs(t, c.Sync(t.Context()), zkrecipes.ErrClosed)
				require.Contains(t, told()[0], "behind")
				for _, err := range c.Watch(t.Context()) {
					if err != nil {
						require.ErrorIs(t, err, zkrecipes.ErrClosed)
					}
				}
				require.NoError(t, c.Close(t.Context()), "again")
				_, ok := c.Get(root)
				require.True(t, ok)
				total, _ := srv.Watches()
				require.Zero(t, total)
			})
		})
	}
}

func TestNew_BadInput(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		client := bubble.Dial(t, srv, "w")
		for _, opt := range []cache.Option{
			nil, cache.WithDepth(0), cache.WithMaxNodes(0), cache.WithMaxBytes(0), cache.WithWindow(0),
			cache.WithRecheck(time.Millisecond), cache.WithFilter(nil),
		} {
			_, err := cache.Tree(client, root, opt)
			require.ErrorContains(t, err, "cache: ")
		}
		_, err := cache.Children(client, root, cache.WithDepth(2))
		require.ErrorContains(t, err, "only cache.Tree")
		_, err = cache.Node(client, "app")
		require.ErrorContains(t, err, "relative")
		require.NoError(t, client.Close())
		_, err = cache.Node(client, root)
		require.ErrorIs(t, err, zkrecipes.ErrClosed)
	})
}

func TestTyped_DecodesOnceAndKeepsErrorsApart(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		create(t, srv, root, "/app/bad")
		_, err := srv.Create("/app/good", []byte("1"), zktest.Persistent)
		require.NoError(t, err)
		c := ready(t, open(t, srv, cache.Children))
		calls := 0
		typed, err := cache.As(c, func(e cache.Entry) (int, error) {
			calls++
			return strconv.Atoi(string(e.Data))
		})
		require.NoError(t, err)
		for range 3 {
			list := typed.List(root)
			require.Len(t, list, 2)
			require.ErrorContains(t, list[0].Err, "decode /app/bad")
			require.NoError(t, list[1].Err)
			require.Equal(t, 1, list[1].Value)
		}
		require.Equal(t, 2, calls)
		require.NoError(t, srv.Set("/app/good", []byte("2")))
		synctest.Wait()
		good, ok := typed.Get("/app/good")
		require.True(t, ok)
		require.Equal(t, 2, good.Value)
		_, ok = typed.Get("/app/missing")
		require.False(t, ok)
		srv.Intercept(zktest.Match{From: watcher, Op: zktest.OpGetData, Path: "^/app/secret$"},
			zktest.Fail(zktest.CodeNoAuth))
		create(t, srv, "/app/secret")
		synctest.Wait()
		secret, ok := typed.Get("/app/secret")
		require.True(t, ok)
		require.Equal(t, "/app/secret", secret.Path)
		require.ErrorIs(t, secret.Err, zk.ErrNoAuth)
		require.Equal(t, 3, calls, "there is nothing to decode")
	})
}

// The servers create nodes of their own without a transaction, so their zxids are 0.
func TestTyped_NodeOfTheServers_IsDecoded(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		const config = "/zookeeper/config"
		c, err := cache.Node(bubble.Dial(t, srv, "w"), config)
		require.NoError(t, err)
		ready(t, c)
		calls := 0
		typed, err := cache.As(c, func(e cache.Entry) (string, error) {
			calls++
			return string(e.Data), nil
		})
		require.NoError(t, err)
		for range 3 {
			e, ok := typed.Get(config)
			require.True(t, ok)
			require.NoError(t, e.Err)
			require.Zero(t, e.Mzxid)
			require.Contains(t, e.Value, "server.1=")
		}
		require.Equal(t, 1, calls)
	}, zktest.WithFronts(3))
}

// A server that sheds load gets a pause before each request.
func TestNode_Throttled_IsAskedWithPauses(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		create(t, srv, root)
		began := time.Now()
		srv.Intercept(zktest.Match{From: watcher, Times: 100}, zktest.Fail(zktest.CodeThrottled))
		ready(t, open(t, srv, cache.Node))
		require.GreaterOrEqual(t, time.Since(began), time.Second)
	})
}

// The children of a node cannot be listed when its data is decoded, but can be later. The error disappears, as it does
// from the entry.
func TestTyped_NodeCanBeReadAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		create(t, srv, root, "/app/a", "/app/a/b")
		hidden := srv.Intercept(zktest.Match{From: watcher, Op: zktest.OpGetChildren2, Path: "^/app/a$", Times: -1},
			zktest.Fail(zktest.CodeNoAuth))
		c := ready(t, open(t, srv, cache.Tree))
		typed, err := cache.As(c, func(e cache.Entry) (string, error) { return string(e.Data), nil })
		require.NoError(t, err)
		e, _ := typed.Get("/app/a")
		require.ErrorIs(t, e.Err, zk.ErrNoAuth)
		require.Equal(t, "data of /app/a", e.Value)
		hidden.Remove()
		time.Sleep(6 * time.Minute) // a recheck
		e, _ = typed.Get("/app/a")
		require.NoError(t, e.Err)
		require.Equal(t, "data of /app/a", e.Value)
	})
}

// The entry is that of now, even if its data was decoded earlier.
func TestTyped_ChildComes_StatIsNew(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		create(t, srv, root, "/app/a")
		c := ready(t, open(t, srv, cache.Tree))
		typed, err := cache.As(c, func(e cache.Entry) (string, error) { return string(e.Data), nil })
		require.NoError(t, err)
		before, _ := typed.Get("/app/a")
		require.Zero(t, before.NumChildren)
		create(t, srv, "/app/a/b")
		require.NoError(t, c.Sync(t.Context()))
		after, _ := typed.Get("/app/a")
		require.EqualValues(t, 1, after.NumChildren)
		require.Equal(t, before.Value, after.Value)
	})
}

// A server that sheds load gets a pause. Events that keep arriving must not extend it.
func TestTree_ThrottledDuringManyEvents_ReadsAgainSoon(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		create(t, srv, root)
		for i := range 1000 {
			create(t, srv, fmt.Sprintf("/app/n%d", i))
		}
		c := ready(t, open(t, srv, cache.Tree))
		srv.Intercept(zktest.Match{From: watcher, Times: 1}, zktest.Fail(zktest.CodeThrottled))
		for i := range 500 {
			require.NoError(t, srv.Set(fmt.Sprintf("/app/n%d", i), []byte("new")))
			time.Sleep(5 * time.Millisecond)
		}
		e, ok := c.Get("/app/n0")
		require.True(t, ok)
		require.Equal(t, "new", string(e.Data))
	})
}

// Data and list of one node may both be too large. When the list can be read again, the data still cannot.
func TestTree_TwoFailures_OneEnds_TheOtherStays(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		_, err := srv.Create(root, make([]byte, 10<<10), zktest.Persistent)
		require.NoError(t, err)
		for i := range 1000 {
			create(t, srv, fmt.Sprintf("/app/name-%d", i))
		}
		c, err := cache.Tree(bubble.Dial(t, srv, "w", conn.WithMaxReplySize(4<<10)), root, cache.WithRecheck(time.Minute))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, c.Close(context.WithoutCancel(t.Context()))) })
		time.Sleep(90 * time.Second)
		require.ErrorIs(t, c.Ready(within(t, time.Second)), zkrecipes.ErrTooLarge)
		for i := range 1000 {
			require.NoError(t, srv.Delete(fmt.Sprintf("/app/name-%d", i)))
		}
		time.Sleep(10 * time.Second)
		e, ok := c.Get(root)
		require.True(t, ok)
		require.ErrorIs(t, e.Err, zkrecipes.ErrTooLarge, "there is no data")
		require.NoError(t, srv.Set(root, []byte("small")))
		time.Sleep(10 * time.Second)
		e, _ = c.Get(root)
		require.NoError(t, e.Err)
		require.Equal(t, "small", string(e.Data))
	})
}

// The Stat of an entry is that of the node. Changes made by SetACL trigger no event, so Aversion is as of the newest
// read.
func TestEntry_HasTheStat(t *testing.T) {
	for name, opener := range map[string]opener{"tree": cache.Tree, "children": cache.Children} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				create(t, srv, root, "/app/a", "/app/a/b", "/app/c")
				other := bubble.Dial(t, srv, "other")
				_, err := other.Create(t.Context(), "/app/e", []byte("x"), zk.FlagEphemeral)
				require.NoError(t, err)
				o := newOwner(t, srv)
				o.open("/app/a")
				c := ready(t, open(t, srv, opener))
				same := func() {
					t.Helper()
					synctest.Wait()
					list, _ := c.Snapshot()
					for _, e := range list {
						n, ok := srv.Node(e.Path)
						require.True(t, ok)
						require.Equal(t, zk.Stat(n.Stat), e.Stat, e.Path)
					}
				}
				same()
				time.Sleep(time.Second)
				require.NoError(t, srv.Set("/app/c", []byte("longer than before")))
				create(t, srv, "/app/f")
				same()
				require.NoError(t, srv.DeleteAll("/app/a"))
				create(t, srv, "/app/a")
				same()
				create(t, srv, "/app/a/new")
				require.NoError(t, srv.Delete("/app/c"))
				require.NoError(t, srv.Set("/app/a", nil))
				same()
				if name == "tree" {
					create(t, srv, "/app/a/newer")
					same()
					require.NoError(t, srv.Delete("/app/a/new"))
					same()
				}
			})
		})
	}
}

// Only what has changed is decoded. A value is not decoded again because other nodes come and go, or because the caller
// still has an older entry.
func TestTyped_DecodesOnlyWhatHasChanged(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		create(t, srv, root, "/app/a", "/app/b", "/app/c")
		c := ready(t, open(t, srv, cache.Children))
		calls := map[string]int{}
		typed, err := cache.As(c, func(e cache.Entry) (string, error) {
			calls[e.Path]++
			return string(e.Data), nil
		})
		require.NoError(t, err)
		old, ok := c.Get("/app/a")
		require.True(t, ok)
		typed.List(root)
		require.NoError(t, srv.Set("/app/a", []byte("new")))
		synctest.Wait()
		typed.List(root)
		require.Equal(t, map[string]int{"/app/a": 2, "/app/b": 1, "/app/c": 1}, calls)
		require.Equal(t, "data of /app/a", typed.Decode(old).Value)
		typed.List(root)
		require.Equal(t, map[string]int{"/app/a": 3, "/app/b": 1, "/app/c": 1}, calls, "the older entry alone")
		for i := range 1000 {
			path := fmt.Sprintf("/app/n%d", i)
			create(t, srv, path)
			synctest.Wait()
			typed.Get(path)
			require.NoError(t, srv.Delete(path))
			synctest.Wait()
			typed.List(root)
		}
		require.Len(t, calls, 1003)
		require.Equal(t, 3, calls["/app/a"])
		delete(calls, "/app/a")
		for path, n := range calls {
			require.Equal(t, 1, n, path)
		}
	})
}

// Values of nodes that are gone are released.
func TestTyped_ValuesOfNodesThatAreGone_TakeNoMemory(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		create(t, srv, root)
		c := ready(t, open(t, srv, cache.Children))
		typed, err := cache.As(c, func(cache.Entry) ([]byte, error) { return make([]byte, 64<<10), nil })
		require.NoError(t, err)
		before := bubble.Heap()
		for i := range 1000 {
			path := fmt.Sprintf("/app/n%d", i)
			create(t, srv, path)
			synctest.Wait()
			typed.Get(path)
			require.NoError(t, srv.Delete(path))
			synctest.Wait()
		}
		require.Less(t, bubble.Heap()-before, int64(100*64<<10))
	})
}

// A child is gone when its data is read, but exists again when the list that names it is read.
func TestTree_ChildMadeAgainBeforeTheListIsRead_IsThere(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		create(t, srv, root, "/app/a", "/app/b")
		c := ready(t, open(t, srv, cache.Tree))
		var read bool
		srv.Intercept(zktest.Match{From: watcher, Op: zktest.OpGetData, Path: "^/app/a$"},
			zktest.After(func(zktest.Request) { read = true }))
		srv.Intercept(zktest.Match{From: watcher, Op: zktest.OpGetChildren2, Path: "^/app$"},
			zktest.Before(func(zktest.Request) {
				require.True(t, read, "else this test shows nothing")
				create(t, srv, "/app/a")
			}))
		require.NoError(t, srv.Delete("/app/a"))
		synctest.Wait()
		require.True(t, srv.Exists("/app/a"))
		require.Equal(t, truth(srv), content(c))
	})
}

// A change that is known but has not been read yet holds the time back, whatever the server answers in the meantime.
func TestView_AsOf_WaitsForWhatIsToBeRead(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		create(t, srv, root, "/app/a")
		client := bubble.Dial(t, srv, "w")
		c, err := cache.Tree(client, root)
		require.NoError(t, err)
		ready(t, c)
		time.Sleep(time.Second)
		srv.Intercept(zktest.Match{From: watcher, Op: zktest.OpGetData, Path: "^/app/a$", Times: -1},
			zktest.Fail(zktest.CodeThrottled))
		changed := time.Now()
		require.NoError(t, srv.Set("/app/a", []byte("new")))
		for range 100 {
			time.Sleep(100 * time.Millisecond)
			require.NoError(t, client.Sync(t.Context(), root))
			require.NoError(t, srv.Set(root, nil)) // there are other events, too
			synctest.Wait()
			require.False(t, c.View().AsOf.After(changed), "the cache has the old data")
		}
		require.Positive(t, c.View().Pending)
		require.NoError(t, c.Close(t.Context()))
	})
}

// A server that cannot set watches again is asked whether the root exists only while it does not.
func TestTree_ServerWithoutSetWatches_RootThatIsThere_IsReadOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		create(t, srv, root)
		srv.Intercept(zktest.Match{From: watcher, Op: zktest.OpSetWatches, Times: -1}, zktest.Fail(zktest.CodeUnimplemented))
		c := ready(t, open(t, srv, cache.Tree))
		count := bubble.Requests(srv)
		require.NoError(t, srv.Set(root, []byte("new")))
		synctest.Wait()
		require.Equal(t, truth(srv), content(c))
		require.Equal(t, 1, count.Hits())
	})
}

// However long the server could set watches, the first recheck after it could not tries again.
func TestTree_ServerSetsNoWatchesOnce_IsTriedAtTheNextRecheck(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		create(t, srv, root)
		c := ready(t, open(t, srv, cache.Tree, cache.WithRecheck(time.Minute)))
		time.Sleep(35*time.Minute + time.Second)
		srv.Intercept(zktest.Match{From: watcher, Op: zktest.OpSetWatches}, zktest.Fail(zktest.CodeUnimplemented))
		srv.Cut(watcher)
		time.Sleep(time.Second)
		require.True(t, c.View().Current)
		tried := srv.Intercept(zktest.Match{From: watcher, Op: zktest.OpSetWatches, Times: -1}, zktest.Proceed())
		time.Sleep(time.Minute)
		require.Equal(t, 1, tried.Hits())
	})
}

// Nodes change faster than the cache can read them, so it always has news to handle. It never looked at its ticker.
func TestTree_NewsNeverCease_LostWatch_IsFoundByTheRecheck(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		create(t, srv, root, "/app/lost")
		const nodes = 50
		for i := range nodes {
			create(t, srv, fmt.Sprintf("/app/n%d", i))
		}
		var slow atomic.Bool
		client := bubble.Dial(t, srv, "w", trial.Through(srv, trial.Pipe{OnWrite: func([]byte) {
			if slow.Load() {
				time.Sleep(2 * time.Millisecond)
			}
		}}))
		c, err := cache.Tree(client, root, cache.WithRecheck(time.Second))
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close(t.Context())) }()
		ready(t, c)
		time.Sleep(10 * time.Millisecond) // the rechecks come between the changes
		slow.Store(true)
		require.Positive(t, srv.LoseWatch(trial.Ours, "/app/lost"))
		require.NoError(t, srv.Set("/app/lost", []byte("new")))
		for i := range 6000 {
			require.NoError(t, srv.Set(fmt.Sprintf("/app/n%d", i%nodes), nil))
			time.Sleep(500 * time.Microsecond)
		}
		e, _ := c.Get("/app/lost")
		require.Equal(t, "new", string(e.Data))
	})
}

// A server that fails on a sync may not have caught up with the leader.
func TestSync_ServerFailsOnIt_IsAskedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		create(t, srv, root)
		c := ready(t, open(t, srv, cache.Tree))
		failing := srv.Intercept(zktest.Match{From: watcher, Op: zktest.OpSync, Path: root, Times: 3},
			zktest.Fail(zktest.CodeMarshallingError))
		began := time.Now()
		require.NoError(t, c.Sync(within(t, time.Second)))
		require.Equal(t, 3, failing.Hits())
		require.GreaterOrEqual(t, time.Since(began), 30*time.Millisecond, "with pauses")
	})
}

// Some servers answer an error without a transaction number. Such requests were repeated without a pause.
func TestNode_ErrorsWithoutATransaction_AreFollowedByPauses(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		create(t, srv, root)
		refused := srv.Intercept(zktest.Match{From: trial.Ours, Op: zktest.OpGetData, Times: 100},
			zktest.Fail(zktest.CodeThrottled))
		client := bubble.Dial(t, srv, "w", trial.Through(srv, trial.Pipe{OnRead: func(frame []byte) {
			if len(frame) == 20 && int32(binary.BigEndian.Uint32(frame[16:])) == int32(zktest.CodeThrottled) {
				clear(frame[8:16])
			}
		}}))
		began := time.Now()
		c, err := cache.Node(client, root)
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close(t.Context())) }()
		ready(t, c)
		require.Equal(t, 100, refused.Hits())
		require.GreaterOrEqual(t, time.Since(began), time.Second)
	})
}
