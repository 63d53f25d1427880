package znode_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// TestAcquire_AgainAndAgain_IsThreeRequests: create, watch on the contender, delete. The watch on the parent is set
// once.
func TestAcquire_AgainAndAgain_IsThreeRequests(t *testing.T) {
	inBubbleWith(t, true, func(t *testing.T, srv *zktest.Server) {
		q := queue(t, srv, "a")
		for range 6 {
			section(t, q)
		}
		sent := bubble.Requests(srv)
		section(t, q)
		require.Equal(t, 3, sent.Hits())
	})
}

// TestAcquire_FirstOnItsPath: the create and the list are sent twice, the watch on the contender and the delete once.
// In between, the parents are created: one request if only the queue's own path is missing, two more for each that is
// missing above it.
func TestAcquire_FirstOnItsPath(t *testing.T) {
	for there, want := range map[string]int{path: 4, "/app": 7, "": 9} {
		inBubbleWith(t, true, func(t *testing.T, srv *zktest.Server) {
			if there != "" {
				require.NoError(t, bubble.Dial(t, srv, "b").CreateAll(t.Context(), there, nil))
			}
			q := queue(t, srv, "a")
			sent := bubble.Requests(srv)
			section(t, q)
			require.Equal(t, want, sent.Hits(), there)
		})
	}
}

// TestAcquire_VacancyIsUsedUp_ListsWithItsCreate: the vacancy was filled by another caller of the session, or its watch
// has fired, so the caller has the list when the create is answered.
func TestAcquire_VacancyIsUsedUp_ListsWithItsCreate(t *testing.T) {
	for name, use := range map[string]func(t *testing.T, srv *zktest.Server, holder func()){
		"filled": func(_ *testing.T, _ *zktest.Server, holder func()) { holder() },
		"watch has fired": func(_ *testing.T, srv *zktest.Server, _ func()) {
			srv.Cut(zktest.Label("a"))
			time.Sleep(time.Second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubbleWith(t, true, func(t *testing.T, srv *zktest.Server) {
				q := queue(t, srv, "a")
				for range 6 {
					section(t, q)
				}
				requireLists(t, srv, 0, func() { section(t, q) })
				use(t, srv, func() { acquire(t.Context(), q).Granted(t, time.Hour) })
				answers := make(chan struct{})
				srv.Intercept(zktest.Match{Op: zktest.OpCreate}, zktest.HoldReplyUntil(answers))
				requireLists(t, srv, 1, func() {
					acquire(t.Context(), q)
					synctest.Wait()
				})
				close(answers)
			})
		})
	}
}

// TestAcquire_OnceAndThenAnotherParent: a caller that came once has no watch on the parent, and therefore nothing to
// rely on the second time.
func TestAcquire_OnceAndThenAnotherParent(t *testing.T) {
	inBubbleWith(t, true, func(t *testing.T, srv *zktest.Server) {
		q := queue(t, srv, "a")
		section(t, q)
		answers, err := bubble.Dial(t, srv, "b").Multi(t.Context(), zkrecipes.OpDelete(path, -1),
			zkrecipes.OpCreate(path, nil, 0), zkrecipes.OpCreate(path+"/other-lock-", nil, zk.FlagSequence))
		require.NoError(t, err)
		waiting := acquire(t.Context(), q)
		waiting.Waits(t)
		require.NoError(t, srv.Delete(answers[2].Path))
		h := waiting.Granted(t, time.Hour)
		require.Equal(t, 1, numberOf(t, h.Path()), "or this test shows nothing")
		release(t, h)
	})
}

// TestAcquire_BusyElsewhere: with so many other transactions in between that another parent could have reached the
// number, the list decides. With one fewer, it is not needed.
func TestAcquire_BusyElsewhere(t *testing.T) {
	inBubbleWith(t, true, func(t *testing.T, srv *zktest.Server) {
		q := queue(t, srv, "a")
		for range 8 {
			section(t, q)
		}
		for _, lists := range []int{0, 1} {
			h := acquire(t.Context(), q).Granted(t, time.Hour)
			synctest.Wait()
			release(t, h)
			for range numberOf(t, h.Path()) + 1 + lists {
				_, err := srv.Create("/elsewhere-", nil, zktest.PersistentSequential)
				require.NoError(t, err)
			}
			requireLists(t, srv, lists, func() { section(t, q) })
		}
	})
}

// TestAcquire_WithoutShortcuts_WatchesNoParent: nothing needs the watch.
func TestAcquire_WithoutShortcuts_WatchesNoParent(t *testing.T) {
	inBubbleWith(t, false, func(t *testing.T, srv *zktest.Server) {
		q := queue(t, srv, "a")
		for range 5 {
			section(t, q)
			require.Empty(t, srv.Watchers(path))
		}
	})
}

// TestAcquire_LongWait_ReadsThePredecessorAlone: a thousand waiters must not each list a thousand. A waiter that gives
// up sends the deletion of its node and one sync, by which it would notice that the deletion was omitted.
func TestAcquire_LongWait_ReadsThePredecessorAlone(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		h := acquire(t.Context(), queue(t, srv, "a")).Granted(t, time.Hour)
		ctx, cancel := context.WithCancel(t.Context())
		waiting := acquire(ctx, queue(t, srv, "b"))
		waiting.Waits(t)
		requireLists(t, srv, 0, func() { time.Sleep(10 * time.Minute) })
		// Without it, the answer may arrive before the sync is sent, in which case no sync is needed.
		srv.SetLatency(time.Millisecond)
		sent := func(op zktest.Op) *zktest.Rule {
			return srv.Intercept(zktest.Match{From: zktest.Label("b"), Op: op, Times: -1}, zktest.Proceed())
		}
		deletes, syncs, more := sent(zktest.OpDelete), sent(zktest.OpSync), sent(0)
		cancel()
		require.ErrorIs(t, waiting.Failed(t, 0), context.Canceled)
		time.Sleep(time.Second)
		require.Equal(t, []int{1, 1, 0}, []int{deletes.Hits(), syncs.Hits(), more.Hits()})
		release(t, h)
	})
}

// TestAcquire_ReadsTheHolderOnce: the error of a caller that gives up names the holder. A waiter that has read the
// holder does not read it again, and a caller that cannot give up does not need it.
func TestAcquire_ReadsTheHolderOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		h := acquire(t.Context(), queue(t, srv, "a")).Granted(t, time.Hour)
		requireNoMoreReads := func(waiting *bubble.Attempt) *bubble.Attempt {
			waiting.Waits(t)
			reads := srv.Intercept(zktest.Match{Op: zktest.OpGetData, Times: -1}, zktest.Proceed())
			defer reads.Remove()
			time.Sleep(time.Second)
			require.Zero(t, reads.Hits())
			return waiting
		}
		second := requireNoMoreReads(acquire(t.Context(), queue(t, srv, "b")))
		third := requireNoMoreReads(acquire(context.WithoutCancel(t.Context()), queue(t, srv, "c")))
		release(t, h)
		release(t, second.Granted(t, time.Hour))
		release(t, third.Granted(t, time.Hour))
	})
}

// TestAcquire_GivesUpSoon_NamesTheHolderIfItWasRead: the contender just ahead is not the holder.
func TestAcquire_GivesUpSoon_NamesTheHolderIfItWasRead(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		h := acquire(t.Context(), queue(t, srv, "a")).Granted(t, time.Hour)
		giveUp := func(label string) *zkrecipes.WaitError {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			defer cancel()
			var waited *zkrecipes.WaitError
			require.ErrorAs(t, acquire(ctx, queue(t, srv, label)).Failed(t, time.Second), &waited)
			return waited
		}
		second := giveUp("b")
		require.Equal(t, 2, second.Position)
		require.Equal(t, h.Path(), second.Holder.Path)
		waiting := acquire(t.Context(), queue(t, srv, "c"))
		waiting.Waits(t)
		third := giveUp("d")
		require.Equal(t, 3, third.Position)
		require.Zero(t, third.Holder)
		release(t, h)
		release(t, waiting.Granted(t, time.Hour))
	})
}

// TestAcquire_HolderCannotBeRead_IsNotNamed: the waiter waits nevertheless.
func TestAcquire_HolderCannotBeRead_IsNotNamed(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		h := acquire(t.Context(), queue(t, srv, "a")).Granted(t, time.Hour)
		second := acquire(t.Context(), queue(t, srv, "b"))
		second.Waits(t)
		srv.Intercept(zktest.Match{From: zktest.Label("c"), Op: zktest.OpGetData, Path: h.Path(), Times: -1},
			zktest.Fail(zktest.CodeNoAuth))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var waited *zkrecipes.WaitError
		require.ErrorAs(t, acquire(ctx, queue(t, srv, "c")).Failed(t, time.Minute), &waited)
		require.Equal(t, 3, waited.Position)
		require.Zero(t, waited.Holder)
		release(t, h)
		release(t, second.Granted(t, time.Hour))
	})
}
