package znode_test

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
	"github.com/zkrecipes/zkrecipes/internal/recipe"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/internal/znode"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// section acquires, waits until background work concurrent with the hold is done, and releases.
func section(t *testing.T, q *znode.Queue) {
	t.Helper()
	h := acquire(t.Context(), q).Granted(t, time.Hour)
	synctest.Wait()
	release(t, h)
	synctest.Wait()
}

// numberOf returns the number at the end of a contender's path.
func numberOf(t *testing.T, path string) (n int) {
	t.Helper()
	_, err := fmt.Sscanf(path[len(path)-10:], "%d", &n)
	require.NoError(t, err)
	return n
}

// requireLists requires that f reads the queue n times.
func requireLists(t *testing.T, srv *zktest.Server, n int, f func()) {
	t.Helper()
	lists := srv.Intercept(zktest.Match{Op: zktest.OpGetChildren2, Path: "^" + path + "$", Times: -1}, zktest.Proceed())
	defer lists.Remove()
	f()
	require.Equal(t, n, lists.Hits())
}

// join creates a contender of another client by hand.
func join(t *testing.T, srv *zktest.Server) string {
	t.Helper()
	c, err := srv.Create(path+"/other-"+znode.Lock, nil, zktest.PersistentSequential)
	require.NoError(t, err)
	return c
}

func TestAcquire_AgainAndAgainAlone_DoesNotList(t *testing.T) {
	inBubbleWith(t, true, func(t *testing.T, srv *zktest.Server) {
		q := queue(t, srv, "a")
		section(t, q)
		require.Empty(t, srv.Watchers(path), "who comes once leaves no watch")
		section(t, q)
		require.Len(t, srv.Watchers(path), 1)
		requireLists(t, srv, 2, func() { section(t, q); section(t, q) }) // it has to learn it twice
		requireLists(t, srv, 0, func() {
			for range 5 {
				section(t, q)
			}
		})
		srv.Cut(zktest.Label("a"))
		time.Sleep(time.Second)
		requireLists(t, srv, 1, func() { section(t, q) }) // what happened in the meantime is unknown
		requireLists(t, srv, 0, func() { section(t, q) })
		require.Len(t, srv.Watchers(path), 1)
		requireEmpty(t, srv)
	})
}

// TestAcquire_ThroughAnotherObject_IsListed: an object knows nothing of the contenders of another, even in its own
// session.
func TestAcquire_ThroughAnotherObject_IsListed(t *testing.T) {
	inBubbleWith(t, true, func(t *testing.T, srv *zktest.Server) {
		c := dial(t, srv, "a")
		q, other := at(t, c, ""), at(t, c, "/app")
		for range 4 {
			section(t, q)
		}
		requireLists(t, srv, 0, func() { section(t, q) })
		holder := acquire(t.Context(), other).Granted(t, time.Hour)
		waiting := acquire(t.Context(), q)
		waiting.Waits(t)
		release(t, holder)
		release(t, waiting.Granted(t, time.Hour))
	})
}

func TestAcquire_OthersCameInBetween_IsListed(t *testing.T) {
	inBubbleWith(t, true, func(t *testing.T, srv *zktest.Server) {
		q := queue(t, srv, "a")
		for _, holds := range []bool{false, true} {
			for range 5 {
				section(t, q)
			}
			requireLists(t, srv, 0, func() { section(t, q) })
			other := join(t, srv)
			if !holds {
				require.NoError(t, srv.Delete(other))
			}
			waiting := acquire(t.Context(), q)
			if holds {
				waiting.Waits(t)
				require.NoError(t, srv.Delete(other))
			}
			release(t, waiting.Granted(t, time.Hour))
			requireLists(t, srv, 1, func() { section(t, q) }) // it has learned
		}
	})
}

// TestAcquire_OthersComeNowAndThen_OneRoundTrip: a caller that is rarely alone for long requests the list together with
// the create, and does not wait for it after that.
func TestAcquire_OthersComeNowAndThen_OneRoundTrip(t *testing.T) {
	inBubbleWith(t, true, func(t *testing.T, srv *zktest.Server) {
		q := queue(t, srv, "a")
		section(t, q)
		section(t, q)
		for range 10 {
			require.NoError(t, srv.Delete(join(t, srv)))
			for range 2 {
				answers := make(chan struct{})
				srv.Intercept(zktest.Match{Op: zktest.OpCreate}, zktest.HoldReplyUntil(answers))
				lists := srv.Intercept(zktest.Match{Op: zktest.OpGetChildren2, Times: -1}, zktest.Proceed())
				waiting := acquire(t.Context(), q)
				synctest.Wait()
				require.Equal(t, 1, lists.Hits(), "before the create is answered")
				close(answers)
				release(t, waiting.Granted(t, time.Hour))
				require.Equal(t, 1, lists.Hits())
				lists.Remove()
				synctest.Wait()
			}
		}
	})
}

func TestAcquire_TwoOfOneSession_TheSecondWaits(t *testing.T) {
	inBubbleWith(t, true, func(t *testing.T, srv *zktest.Server) {
		q := queue(t, srv, "a")
		for range 5 {
			section(t, q)
			// Both are in flight at once, and either may get the expected number.
			answers := make(chan struct{})
			srv.Intercept(zktest.Match{Op: zktest.OpCreate}, zktest.HoldReplyUntil(answers))
			holds := make(chan *zkrecipes.Hold, 2)
			for range 2 {
				go func() {
					h, err := q.Acquire(t.Context(), entry)
					if err != nil {
						t.Error(err)
					}
					holds <- h
				}()
			}
			synctest.Wait()
			close(answers)
			synctest.Wait()
			require.Len(t, holds, 1)
			release(t, <-holds)
			release(t, <-holds)
		}
	})
}

// TestAcquire_AnotherParentWithTheSameCount: the count of children has reached the same number again, in another
// parent. It may have done so in few transactions, or the server may have failed to report that the first was deleted.
func TestAcquire_AnotherParentWithTheSameCount(t *testing.T) {
	for name, replace := range map[string]func(t *testing.T, srv *zktest.Server, by *conn.Client, made int) string{
		"at once": replaceAtOnce,
		"watch lost": func(t *testing.T, srv *zktest.Server, _ *conn.Client, made int) string {
			t.Helper()
			srv.LoseWatch(zktest.Label("a"), path)
			require.NoError(t, srv.Delete(path))
			_, err := srv.Create(path, nil, zktest.Container)
			require.NoError(t, err)
			other := join(t, srv)
			for range made - 1 {
				require.NoError(t, srv.Delete(join(t, srv)))
			}
			return other
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubbleWith(t, true, func(t *testing.T, srv *zktest.Server) {
				q, by := queue(t, srv, "a"), bubble.Dial(t, srv, "b")
				for range 20 {
					section(t, q)
				}
				h := acquire(t.Context(), q).Granted(t, time.Hour)
				release(t, h)
				next, other := numberOf(t, h.Path())+1, ""
				// At the last moment: a caller that knows of it beforehand lists.
				srv.Intercept(zktest.Match{From: zktest.Label("a"), Op: zktest.OpCreate}, zktest.Before(func(zktest.Request) {
					other = replace(t, srv, by, next)
				}))
				waiting := acquire(t.Context(), q)
				waiting.Waits(t)
				require.NoError(t, srv.Delete(other))
				h = waiting.Granted(t, time.Hour)
				require.Equal(t, next, numberOf(t, h.Path()), "or this test shows nothing")
				release(t, h)
			})
		})
	}
}

// replaceAtOnce replaces the parent and everything below it in two transactions, creating made contenders of which one
// remains.
func replaceAtOnce(t *testing.T, srv *zktest.Server, by *conn.Client, made int) (contender string) {
	t.Helper()
	var ops []zkrecipes.Op
	for _, name := range srv.Children(path) {
		ops = append(ops, zkrecipes.OpDelete(path+"/"+name, -1))
	}
	ops = append(ops, zkrecipes.OpDelete(path, -1), zkrecipes.OpCreate(path, nil, 0))
	for range made {
		ops = append(ops, zkrecipes.OpCreate(path+"/other-"+znode.Lock, nil, zk.FlagSequence))
	}
	answers, err := by.Multi(t.Context(), ops...)
	require.NoError(t, err)
	answers = answers[len(answers)-made:]
	ops = nil
	for _, a := range answers[1:] {
		ops = append(ops, zkrecipes.OpDelete(a.Path, -1))
	}
	_, err = by.Multi(t.Context(), ops...)
	require.NoError(t, err)
	return answers[0].Path
}

// TestAcquire_DeletedByHandWithItsParent: the node was gone before the watch was set on its parent, which is another
// one. Only the failure of our own delete shows that it no longer existed.
func TestAcquire_DeletedByHandWithItsParent(t *testing.T) {
	inBubbleWith(t, true, func(t *testing.T, srv *zktest.Server) {
		q, by := queue(t, srv, "a"), bubble.Dial(t, srv, "b")
		section(t, q)
		replaced := make(chan struct{})
		untold := srv.Intercept(zktest.Match{Op: zktest.OpGetData, Path: "^" + path + "/", Times: -1},
			zktest.Fail(zktest.CodeThrottled))
		srv.Intercept(zktest.Match{Op: zktest.OpGetData, Path: "^" + path + "$"}, zktest.DelayUntil(replaced))
		h := acquire(t.Context(), q).Granted(t, time.Hour)
		synctest.Wait()
		number := numberOf(t, h.Path())
		other := replaceAtOnce(t, srv, by, number+1)
		close(replaced)
		synctest.Wait()
		require.Len(t, srv.Watchers(path), 1, "on the new one")
		release(t, h)
		untold.Remove()
		waiting := acquire(t.Context(), q)
		waiting.Waits(t)
		require.NoError(t, srv.Delete(other))
		h = waiting.Granted(t, time.Hour)
		require.Equal(t, number+1, numberOf(t, h.Path()), "or this test shows nothing")
		release(t, h)
	})
}

// TestAcquire_BehindReaders_IsListed: a reader that was granted alongside another leaves that one behind, and no
// vacancy for a writer.
func TestAcquire_BehindReaders_IsListed(t *testing.T) {
	inBubbleWith(t, true, func(t *testing.T, srv *zktest.Server) {
		q := queueOf(t, srv, "a", znode.Read, znode.Write)
		read := znode.Entry{Kind: znode.Read, Rule: znode.NoWriterAhead}
		first := acquireAs(t.Context(), q, read).Granted(t, time.Hour)
		for range 6 {
			release(t, acquireAs(t.Context(), q, read).Granted(t, time.Hour))
			synctest.Wait()
		}
		writer := acquireAs(t.Context(), q, znode.Entry{Kind: znode.Write, Rule: znode.First})
		writer.Waits(t)
		release(t, first)
		release(t, writer.Granted(t, time.Hour))
	})
}

// TestAcquire_OutOfOrder_IsNoVacancy: a contender that was not first when it was deleted leaves others ahead.
func TestAcquire_OutOfOrder_IsNoVacancy(t *testing.T) {
	inBubbleWith(t, true, func(t *testing.T, srv *zktest.Server) {
		q := queue(t, srv, "a")
		section(t, q)
		section(t, q)
		other := join(t, srv)
		ctx, cancel := context.WithCancel(t.Context())
		given := acquire(ctx, q)
		given.Waits(t)
		cancel()
		synctest.Wait()
		waiting := acquire(t.Context(), q)
		waiting.Waits(t)
		require.NoError(t, srv.Delete(other))
		release(t, waiting.Granted(t, time.Hour))
	})
}

// Parents stay on a server without containers. The watches of a session on them do not grow with the paths that it has
// used.
func TestAcquire_ManyPathsOneAfterTheOther_LeaveFewWatches(t *testing.T) {
	inBubbleWith(t, true, func(t *testing.T, srv *zktest.Server) {
		c := dial(t, srv, "a")
		at := func(i int) *znode.Queue {
			q, err := znode.New(c, fmt.Sprintf("/app/many-%d", i), recipe.Config{}, znode.Lock)
			require.NoError(t, err)
			return q
		}
		watched := func() (n int) {
			for _, name := range srv.Children("/app") {
				n += len(srv.Watchers("/app/" + name))
			}
			return n
		}
		use := func(from, to int) {
			for i := from; i < to; i++ {
				q := at(i)
				section(t, q)
				section(t, q)
			}
		}
		use(0, 300)
		require.Equal(t, 100, watched())
		require.Len(t, srv.Watchers("/app/many-0"), 1, "one that is in use is not taken away")
		time.Sleep(time.Minute)
		use(300, 350)
		require.Equal(t, 100, watched(), "new paths take the places of those that are idle")
		require.Len(t, srv.Watchers("/app/many-349"), 1)
		time.Sleep(time.Minute)
		refused := srv.Intercept(zktest.Match{Op: zktest.OpRemoveWatches, Times: -1}, zktest.DropRequest())
		use(350, 360)
		require.Equal(t, 1, refused.Hits(), "a server that hangs up on the request is not asked again")
	}, zktest.WithoutContainers())
}
