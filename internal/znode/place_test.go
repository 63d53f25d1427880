package znode_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/client"
	"github.com/zkrecipes/zkrecipes/internal/recipe"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/internal/testkit/trial"
	"github.com/zkrecipes/zkrecipes/internal/znode"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// line creates a holder and n waiters of one session.
func line(t *testing.T, q *znode.Queue, n int) (holder *zkrecipes.Hold, waiting []*bubble.Attempt) {
	t.Helper()
	holder = acquire(t.Context(), q).Granted(t, time.Hour)
	for range n {
		waiting = append(waiting, acquire(t.Context(), q))
		waiting[len(waiting)-1].Waits(t)
	}
	return holder, waiting
}

// at returns the queue as seen by a client made by Sub with the prefix, or by c itself if prefix is "".
func at(t *testing.T, c *client.Client, prefix string) *znode.Queue {
	t.Helper()
	if prefix != "" {
		sub, err := c.Sub(prefix)
		require.NoError(t, err)
		c = sub
	}
	q, err := znode.New(c, strings.TrimPrefix(path, prefix), recipe.Config{}, znode.Lock)
	require.NoError(t, err)
	return q
}

// leave releases a hold without waiting for the deletion.
func leave(t *testing.T, h *zkrecipes.Hold) {
	t.Helper()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, h.Release(ended), context.Canceled)
}

// Sixteen goroutines of one client managed 36 sections a second, because each hand-over took two or three round trips
// of 10 ms.
func TestPlace_SixteenGoroutines_SectionsInASecond(t *testing.T) {
	inBubbleWith(t, true, func(t *testing.T, srv *zktest.Server) {
		q := queue(t, srv, "a")
		section(t, q)
		srv.SetLatency(10 * time.Millisecond)
		require.Greater(t, sections(t, 3*time.Second, slices.Repeat([]*znode.Queue{q}, 16)), 3*480)
	})
}

// sections returns how many sections the callers complete, with one caller for each queue.
func sections(t *testing.T, within time.Duration, queues []*znode.Queue) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	var sections, inside atomic.Int64
	var last zkrecipes.Token
	var all sync.WaitGroup
	for _, q := range queues {
		all.Go(func() {
			for {
				h, err := q.Acquire(ctx, entry)
				if err != nil {
					return
				}
				if inside.Add(1) != 1 || h.Token() <= last {
					t.Error("two inside, or out of order")
				}
				last = h.Token()
				sections.Add(1)
				inside.Add(-1)
				_ = h.Release(ctx) // the removal continues
			}
		})
	}
	all.Wait()
	t.Log(sections.Load(), "sections in", within)
	return int(sections.Load())
}

// TestPlace_Released_GrantsTheNextAtOnce: it does not wait for the answer to the deletion, whoever waits behind the
// two.
func TestPlace_Released_GrantsTheNextAtOnce(t *testing.T) {
	inBubbleWith(t, true, func(t *testing.T, srv *zktest.Server) {
		q := queue(t, srv, "a")
		holder, waiting := line(t, q, 3)
		other := acquire(t.Context(), queue(t, srv, "b"))
		other.Waits(t)
		gate := make(chan struct{})
		srv.Intercept(zktest.Match{Op: zktest.OpDelete, Times: -1}, zktest.DelayUntil(gate))
		holds := []*zkrecipes.Hold{holder}
		for _, w := range waiting {
			leave(t, holds[len(holds)-1])
			holds = append(holds, w.Granted(t, 0))
			require.Greater(t, holds[len(holds)-1].Token(), holds[len(holds)-2].Token())
		}
		leave(t, holds[3])
		other.Waits(t)
		close(gate)
		release(t, other.Granted(t, 0))
		requireEmpty(t, srv)
	})
}

// TestPlace_AnotherSessionIsNext: a session hands over to the next contender in the queue, and not past it.
func TestPlace_AnotherSessionIsNext(t *testing.T) {
	inBubbleWith(t, true, func(t *testing.T, srv *zktest.Server) {
		q := queue(t, srv, "a")
		holder := acquire(t.Context(), q).Granted(t, time.Hour)
		between := acquire(t.Context(), queue(t, srv, "b"))
		between.Waits(t)
		mine := acquire(t.Context(), q)
		mine.Waits(t)
		release(t, holder)
		h := between.Granted(t, 0)
		mine.Waits(t)
		release(t, h)
		release(t, mine.Granted(t, 0))
	})
}

// TestPlace_NotReleased_HandsNothingOver: the work of a lost hold may continue, and without a connection nothing is in
// flight.
func TestPlace_NotReleased_HandsNothingOver(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, srv *zktest.Server, h *zkrecipes.Hold){
		"deleted by hand": func(t *testing.T, srv *zktest.Server, h *zkrecipes.Hold) {
			t.Helper()
			require.NoError(t, srv.Delete(h.Path()))
			<-h.Done()
		},
		"given back after its loss": func(t *testing.T, srv *zktest.Server, h *zkrecipes.Hold) {
			t.Helper()
			require.NoError(t, srv.Delete(h.Path()))
			<-h.Done()
			require.ErrorIs(t, h.Release(t.Context()), zkrecipes.ErrLost)
		},
		"released without a connection": func(t *testing.T, srv *zktest.Server, h *zkrecipes.Hold) {
			t.Helper()
			trial.CutOff(srv, zktest.Label("a"))
			synctest.Wait()
			leave(t, h)
			time.Sleep(time.Second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubbleWith(t, true, func(t *testing.T, srv *zktest.Server) {
				q := queue(t, srv, "a")
				holder, waiting := line(t, q, 2)
				end(t, srv, holder)
				if name == "released without a connection" {
					waiting[0].Waits(t)
					srv.Accept(zktest.Label("a"))
				}
				h := waiting[0].Granted(t, time.Minute)
				require.False(t, srv.Exists(holder.Path()), "its node went first")
				release(t, h)
				release(t, waiting[1].Granted(t, time.Minute))
				requireEmpty(t, srv)
			})
		})
	}
}

// TestPlace_OwnNodeGone: a waiter whose node was deleted by hand queues again. If it was granted before it learned of
// that, its hold ends.
func TestPlace_OwnNodeGone(t *testing.T) {
	for _, heard := range []bool{true, false} {
		inBubbleWith(t, true, func(t *testing.T, srv *zktest.Server) {
			q := queue(t, srv, "a")
			holder, waiting := line(t, q, 1)
			own := last(srv)
			require.NoError(t, srv.Delete(own))
			if heard {
				synctest.Wait()
			}
			release(t, holder)
			if !heard && waiting[0].Over() && waiting[0].Hold.Path() == own {
				requireLost(t, waiting[0].Hold, zkrecipes.LossNodeDeleted)
				return
			}
			requireAnotherNode(t, srv, waiting[0], own)
		})
	}
}

// TestPlace_TransactionOnItsWay_HandsNothingOver: what the node guards must not be applied after the next hold has
// begun, so the waiter waits for the deletion, and with it for the end of the guard.
func TestPlace_TransactionOnItsWay_HandsNothingOver(t *testing.T) {
	for name, c := range map[string]struct {
		action  zktest.Action
		give    bool   // whether the caller gives up
		outcome error  // of the transaction
		holds   string // what the next holder reads
	}{
		"shed, and sent again": {zktest.Fail(zktest.CodeThrottled), false, zkrecipes.ErrFenced, "0"},
		"answered late":        {zktest.HoldReply(time.Second), false, nil, "A"},
		"given up":             {zktest.HoldReply(time.Second), true, zkrecipes.ErrUnknownOutcome, "A"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubbleWith(t, true, func(t *testing.T, srv *zktest.Server) {
				q := queue(t, srv, "a")
				_, err := srv.Create("/x", []byte("0"), zktest.Persistent)
				require.NoError(t, err)
				holder, waiting := line(t, q, 1)
				srv.Intercept(zktest.Match{Op: zktest.OpMulti, Path: "lock-"}, c.action)
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				wrote := make(chan error, 1)
				go func() {
					_, err := holder.Txn(ctx, zkrecipes.OpSet("/x", []byte("A"), -1))
					wrote <- err
				}()
				synctest.Wait()
				if c.give {
					stop()
					synctest.Wait()
				}
				gate := make(chan struct{})
				srv.Intercept(zktest.Match{Op: zktest.OpDelete}, zktest.DelayUntil(gate))
				leave(t, holder)
				time.Sleep(5 * time.Millisecond) // before it is sent again
				waiting[0].Waits(t)
				close(gate)
				next := waiting[0].Granted(t, 2*time.Second)
				data, _, err := q.Client().Get(t.Context(), "/x")
				require.NoError(t, err)
				require.Equal(t, c.holds, string(data))
				time.Sleep(time.Minute)
				require.ErrorIs(t, <-wrote, c.outcome)
				node, _ := srv.Node("/x")
				require.Equal(t, c.holds, string(node.Data))
				release(t, next)
			})
		})
	}
}

// TestPlace_TransactionAnswered_HandsOver: a finished transaction keeps nobody waiting.
func TestPlace_TransactionAnswered_HandsOver(t *testing.T) {
	inBubbleWith(t, true, func(t *testing.T, srv *zktest.Server) {
		q := queue(t, srv, "a")
		_, err := srv.Create("/x", nil, zktest.Persistent)
		require.NoError(t, err)
		holder, waiting := line(t, q, 1)
		_, err = holder.Txn(t.Context(), zkrecipes.OpSet("/x", nil, -1))
		require.NoError(t, err)
		_, err = holder.Txn(t.Context(), zkrecipes.OpSet("/missing", nil, -1))
		require.ErrorIs(t, err, zk.ErrNoNode)
		gate := make(chan struct{})
		defer close(gate)
		srv.Intercept(zktest.Match{Op: zktest.OpDelete}, zktest.DelayUntil(gate))
		leave(t, holder)
		waiting[0].Granted(t, 0)
	})
}

// TestPlace_DeletionRefused: the next hold is valid, including its writes. The others wait for the old node.
func TestPlace_DeletionRefused(t *testing.T) {
	inBubbleWith(t, true, func(t *testing.T, srv *zktest.Server) {
		q := queue(t, srv, "a")
		_, err := srv.Create("/x", []byte("0"), zktest.Persistent)
		require.NoError(t, err)
		holder, waiting := line(t, q, 1)
		other := acquire(t.Context(), queue(t, srv, "b"))
		other.Waits(t)
		refused := srv.Intercept(zktest.Match{Op: zktest.OpDelete, Path: holder.Path(), Times: -1},
			zktest.Fail(zktest.CodeNoAuth))
		require.ErrorIs(t, holder.Release(t.Context()), zk.ErrNoAuth)
		h := waiting[0].Granted(t, 0)
		_, err = h.Txn(t.Context(), zkrecipes.OpSet("/x", []byte("1"), -1))
		require.NoError(t, err)
		release(t, h)
		other.Waits(t)
		refused.Remove()
		release(t, other.Granted(t, time.Minute))
	})
}

// TestPlace_PredecessorGaveUp: a waiter that leaves hands nothing over.
func TestPlace_PredecessorGaveUp(t *testing.T) {
	inBubbleWith(t, true, func(t *testing.T, srv *zktest.Server) {
		q := queue(t, srv, "a")
		holder := acquire(t.Context(), q).Granted(t, time.Hour)
		ctx, cancel := context.WithCancel(t.Context())
		leaves := acquire(ctx, q)
		leaves.Waits(t)
		waiting := acquire(t.Context(), q)
		waiting.Waits(t)
		cancel()
		require.ErrorIs(t, leaves.Failed(t, time.Second), context.Canceled)
		waiting.Waits(t)
		release(t, holder)
		release(t, waiting.Granted(t, 0))
	})
}

// TestPlace_WriterBehindSeveralReaders: the reader that it waits for was granted alongside others.
func TestPlace_WriterBehindSeveralReaders(t *testing.T) {
	inBubbleWith(t, true, func(t *testing.T, srv *zktest.Server) {
		q := queueOf(t, srv, "a", znode.Read, znode.Write)
		read := znode.Entry{Kind: znode.Read, Rule: znode.NoWriterAhead}
		one := acquireAs(t.Context(), q, read).Granted(t, time.Hour)
		two := acquireAs(t.Context(), q, read).Granted(t, time.Hour)
		writer := acquireAs(t.Context(), q, znode.Entry{Kind: znode.Write, Rule: znode.First})
		writer.Waits(t)
		release(t, two)
		writer.Waits(t)
		release(t, one)
		release(t, writer.Granted(t, 0))
	})
}

// TestPlace_LostOnSuspend_HandsNothingOver: the hold ended with the connection. The waiter waits until its node is
// gone.
func TestPlace_LostOnSuspend_HandsNothingOver(t *testing.T) {
	inBubbleWith(t, true, func(t *testing.T, srv *zktest.Server) {
		c := dial(t, srv, "a")
		q, err := znode.New(c, path, recipe.Config{LossOnSuspend: true}, znode.Lock)
		require.NoError(t, err)
		holder := acquire(t.Context(), q).Granted(t, time.Hour)
		waiting := acquire(t.Context(), q)
		waiting.Waits(t)
		trial.CutOff(srv, zktest.Label("a"))
		waiting.Waits(t)
		requireLost(t, holder, zkrecipes.LossSuspended)
		srv.Accept(zktest.Label("a"))
		h := waiting.Granted(t, time.Minute)
		require.False(t, srv.Exists(holder.Path()))
		release(t, h)
	})
}

// TestPlace_SessionLostBetween: a contender of the last session no longer hands its place over.
func TestPlace_SessionLostBetween(t *testing.T) {
	inBubbleWith(t, true, func(t *testing.T, srv *zktest.Server) {
		c := dial(t, srv, "a")
		q := at(t, c, "")
		holder := acquire(t.Context(), q).Granted(t, time.Hour)
		waiting := acquire(t.Context(), q)
		waiting.Waits(t)
		s, err := c.Session(t.Context())
		require.NoError(t, err)
		// Otherwise the event of the first deletion may grant the waiter, and that of its own node then ends the hold.
		srv.Stall(zktest.Label("a"), zktest.Both)
		srv.Expire(s.ID())
		<-holder.Done()
		srv.Heal(zktest.Label("a"))
		h := waiting.Granted(t, time.Minute)
		require.ErrorIs(t, holder.Release(t.Context()), zkrecipes.ErrLost)
		again := acquire(t.Context(), q)
		again.Waits(t)
		release(t, h)
		release(t, again.Granted(t, 0))
	})
}

// TestPlace_OtherObjects: an object hands over only to its own callers. Those of another object wait for the deletion.
func TestPlace_OtherObjects(t *testing.T) {
	inBubbleWith(t, true, func(t *testing.T, srv *zktest.Server) {
		c := dial(t, srv, "a")
		kazoo, err := znode.New(c, path, recipe.Config{}, znode.Lock, znode.KazooLock)
		require.NoError(t, err)
		for _, queues := range [][]*znode.Queue{
			{kazoo, at(t, c, "")}, {at(t, c, ""), kazoo}, {at(t, c, ""), at(t, c, "/app")},
		} {
			holder := acquire(t.Context(), queues[0]).Granted(t, time.Hour)
			waiting := acquire(t.Context(), queues[1])
			waiting.Waits(t)
			gate := make(chan struct{})
			srv.Intercept(zktest.Match{Op: zktest.OpDelete}, zktest.DelayUntil(gate))
			leave(t, holder)
			waiting.Waits(t)
			close(gate)
			release(t, waiting.Granted(t, 0))
		}
		theirs, err := srv.Create(path+"/other"+znode.KazooLock, nil, zktest.PersistentSequential)
		require.NoError(t, err)
		// The node is not ephemeral, and therefore not its own.
		release(t, acquire(t.Context(), at(t, c, "")).Granted(t, time.Hour))
		waiting := acquire(t.Context(), kazoo)
		waiting.Waits(t)
		require.NoError(t, srv.Delete(theirs))
		release(t, waiting.Granted(t, time.Hour))
	})
}

// TestPlace_NestedThroughOtherObjects_ReleasesWithTheLast: the last hold may have come through another object.
func TestPlace_NestedThroughOtherObjects_ReleasesWithTheLast(t *testing.T) {
	inBubbleWith(t, true, func(t *testing.T, srv *zktest.Server) {
		c := dial(t, srv, "a")
		q := at(t, c, "")
		holder := acquire(t.Context(), q).Granted(t, time.Hour)
		inner, ok := at(t, c, "/app").Held(holder.Context(), znode.Lock)
		require.True(t, ok)
		waiting := acquire(t.Context(), q)
		waiting.Waits(t)
		release(t, holder)
		waiting.Waits(t)
		release(t, inner)
		release(t, waiting.Granted(t, 0))
	})
}

// TestPlace_Downgraded_WriterWaitsForTheReader: the writer leaves a reader at its place. Readers are granted, a writer
// is not.
func TestPlace_Downgraded_WriterWaitsForTheReader(t *testing.T) {
	inBubbleWith(t, true, func(t *testing.T, srv *zktest.Server) {
		c := dial(t, srv, "a")
		rw, err := znode.New(c, path, recipe.Config{}, znode.Read, znode.Write)
		require.NoError(t, err)
		write, read := znode.Entry{Kind: znode.Write, Rule: znode.First},
			znode.Entry{Kind: znode.Read, Rule: znode.NoWriterAhead, From: znode.Write}
		writer := acquireAs(t.Context(), rw, write).Granted(t, time.Hour)
		waiting := acquireAs(t.Context(), rw, write)
		waiting.Waits(t)
		reader := acquireAs(writer.Context(), rw, read).Granted(t, 0)
		release(t, writer)
		waiting.Waits(t)
		behind := acquireAs(t.Context(), rw, read)
		behind.Waits(t)
		release(t, reader)
		release(t, waiting.Granted(t, 0))
		release(t, behind.Granted(t, 0))
	})
}

// Three callers arrive together. The list of the last two is sent when the first list has been answered. Meanwhile they
// read the contender ahead of them. After two round trips all are ready for a hand-over.
func TestPlace_CallersThatComeTogether_ReadBesideTheirList(t *testing.T) {
	inBubbleWith(t, true, func(t *testing.T, srv *zktest.Server) {
		q := at(t, dial(t, srv, "a"), "")
		holder := acquire(t.Context(), q).Granted(t, time.Hour)
		srv.SetLatency(10 * time.Millisecond)
		var waiting []*bubble.Attempt
		for range 3 {
			waiting = append(waiting, acquire(t.Context(), q))
			time.Sleep(time.Microsecond) // each learns of its contender before the next one does
		}
		time.Sleep(25 * time.Millisecond)
		for range waiting {
			go func() { _ = holder.Release(t.Context()) }()
			synctest.Wait()
			next := slices.IndexFunc(waiting, (*bubble.Attempt).Over)
			require.GreaterOrEqual(t, next, 0, "nobody was granted without another round trip")
			holder = waiting[next].Granted(t, 0)
			waiting = slices.Delete(waiting, next, next+1)
		}
	})
}

// The node of the last changes as it is read. It reads again, once the list has shown whom to wait for, and does not
// list again.
func TestPlace_OwnNodeChangedAsItIsReadBesideTheList_IsReadAgain(t *testing.T) {
	inBubbleWith(t, true, func(t *testing.T, srv *zktest.Server) {
		q := at(t, dial(t, srv, "a"), "")
		holder := acquire(t.Context(), q).Granted(t, time.Hour)
		srv.SetLatency(10 * time.Millisecond)
		changed := srv.Intercept(zktest.Match{Op: zktest.OpGetData, Where: func(r zktest.Request) bool {
			return len(srv.Children(path)) == 3 && r.Path == last(srv)
		}}, zktest.After(func(r zktest.Request) { require.NoError(t, srv.Set(r.Path, []byte("x"))) }))
		requireLists(t, srv, 2, func() {
			waiting := []*bubble.Attempt{acquire(t.Context(), q)}
			time.Sleep(time.Microsecond) // it learns of its contender before the next one does
			waiting = append(waiting, acquire(t.Context(), q))
			time.Sleep(time.Second)
			require.Equal(t, 1, changed.Hits())
			for range waiting {
				release(t, holder)
				next := slices.IndexFunc(waiting, (*bubble.Attempt).Over)
				require.GreaterOrEqual(t, next, 0)
				holder = waiting[next].Granted(t, 0)
				waiting = slices.Delete(waiting, next, next+1)
			}
		})
		release(t, holder)
	})
}

// A caller that acquires again finds that its own contender handed its place over. The list that was sent with the
// create shows more, and takes no extra round trip.
func TestPlace_CallerThatComesAgain_WaitsForItsListAlone(t *testing.T) {
	inBubbleWith(t, true, func(t *testing.T, srv *zktest.Server) {
		q := at(t, dial(t, srv, "a"), "")
		section(t, q)
		srv.SetLatency(10 * time.Millisecond)
		srv.Intercept(zktest.Match{Op: zktest.OpGetChildren2}, zktest.HoldReply(time.Millisecond))
		begun := time.Now()
		h := acquire(t.Context(), q).Granted(t, time.Hour)
		require.Equal(t, 11*time.Millisecond, time.Since(begun))
		require.NoError(t, h.Release(t.Context()))
	})
}

// A place is handed over before the waiter just behind it has read a list. Its list still shows that contender, and
// another one ahead of it that hands over too, so the waiter has its turn by the read that it makes in any case.
func TestPlace_HandedOverBeforeTheWaiterLooks(t *testing.T) {
	inBubbleWith(t, true, func(t *testing.T, srv *zktest.Server) {
		q := at(t, dial(t, srv, "a"), "")
		first := acquire(t.Context(), q).Granted(t, time.Hour)
		next := acquire(t.Context(), q)
		next.Waits(t)
		srv.SetLatency(10 * time.Millisecond)
		begun := time.Now()
		last := acquire(t.Context(), q)
		last.Waits(t)
		go func() { _ = first.Release(t.Context()) }()
		synctest.Wait()
		second := next.Granted(t, 0)
		go func() { _ = second.Release(t.Context()) }()
		last.Granted(t, time.Hour)
		require.Equal(t, 20*time.Millisecond, time.Since(begun), "a list, and then the predecessor and the own node")
	})
}

// The place of one contender was handed over. Under a parent that was created again, a contender of another client may
// have its number.
func TestPlace_HandedOver_TheNumberIsAnothersUnderANewParent(t *testing.T) {
	inBubbleWith(t, true, func(t *testing.T, srv *zktest.Server) {
		ours, theirs := at(t, dial(t, srv, "a"), ""), at(t, dial(t, srv, "b"), "")
		section(t, ours) // number 0
		require.NoError(t, srv.Delete(path))
		synctest.Wait()
		holder := acquire(t.Context(), theirs).Granted(t, time.Hour)
		require.Equal(t, 0, numberOf(t, holder.Path()))
		srv.SetLatency(10 * time.Millisecond)
		go func() { _, _ = ours.Try(t.Context(), entry) }() // its list makes the next one wait
		time.Sleep(15 * time.Millisecond)
		waits := acquire(t.Context(), ours)
		time.Sleep(time.Second)
		waits.Waits(t)
		release(t, holder)
		waits.Granted(t, time.Hour)
	})
}

// The contender with the number before belongs to another client. The waiter waits for its list, but no longer than its
// context.
func TestPlace_WaitsForTheOneJustAhead_NoLongerThanItsContext(t *testing.T) {
	inBubbleWith(t, true, func(t *testing.T, srv *zktest.Server) {
		ours, theirs := at(t, dial(t, srv, "a"), ""), at(t, dial(t, srv, "b"), "")
		acquire(t.Context(), theirs).Granted(t, time.Hour)
		srv.SetLatency(10 * time.Millisecond)
		go func() { _, _ = ours.Try(t.Context(), entry) }() // its list makes the next one wait
		time.Sleep(15 * time.Millisecond)
		ctx, cancel := context.WithCancel(t.Context())
		waits := acquire(ctx, ours)
		time.Sleep(12 * time.Millisecond) // the create is answered, the list is not
		cancel()
		require.ErrorIs(t, waits.Failed(t, 0), context.Canceled)
	})
}

// TestPlace_PredecessorGoneBeforeItIsRead_OthersHold: a contender of the session that gave up has handed nothing over.
func TestPlace_PredecessorGoneBeforeItIsRead_OthersHold(t *testing.T) {
	inBubbleWith(t, true, func(t *testing.T, srv *zktest.Server) {
		holder := acquire(t.Context(), queue(t, srv, "b")).Granted(t, time.Hour)
		q := queue(t, srv, "a")
		acquire(t.Context(), q).Waits(t)
		ahead := last(srv)
		srv.Intercept(zktest.Match{From: zktest.Label("a"), Op: zktest.OpGetData, Path: ahead},
			zktest.Before(func(zktest.Request) {
				require.NoError(t, srv.Delete(ahead))
			}))
		mine := acquire(t.Context(), q)
		mine.Waits(t)
		require.NoError(t, holder.Err())
		release(t, holder)
		release(t, mine.Granted(t, time.Second))
	})
}

// A waiter whose place had been handed over before it looked, and which could not read its own node, sent 10,000
// requests in ten seconds, until the server deleted the old node.
func TestPlace_HandedOverBefore_OwnNodeCannotBeRead_Pauses(t *testing.T) {
	for name, code := range map[string]zktest.Code{
		"not allowed": zktest.CodeNoAuth, "fault of the server": zktest.CodeRuntimeInconsistency,
	} {
		t.Run(name, func(t *testing.T) {
			inBubbleWith(t, true, func(t *testing.T, srv *zktest.Server) {
				q := queue(t, srv, "a")
				holder := acquire(t.Context(), q).Granted(t, time.Hour)
				srv.SetLatency(time.Millisecond)
				refused := srv.Intercept(zktest.Match{Op: zktest.OpDelete, Path: holder.Path(), Times: -1},
					zktest.Fail(zktest.CodeNoAuth))
				leave(t, holder)
				unread := srv.Intercept(zktest.Match{
					Op:    zktest.OpGetData,
					Where: func(r zktest.Request) bool { return r.Path != holder.Path() }, Times: -1,
				}, zktest.Fail(code))
				mine := acquire(t.Context(), q)
				time.Sleep(time.Second)
				mine.Waits(t)
				sent := requests(srv, "a")
				time.Sleep(bubble.Timeout)
				require.Less(t, sent.Hits(), 50)
				// It therefore takes its place when it reads again, as if an event were lost.
				unread.Remove()
				h := mine.Granted(t, 3*bubble.Timeout)
				require.True(t, srv.Exists(holder.Path()))
				refused.Remove()
				release(t, h)
			})
		})
	}
}

// TestPlace_NothingIsKept: once the last contender has left, nothing is kept of any of them, however they left.
func TestPlace_NothingIsKept(t *testing.T) {
	inBubbleWith(t, true, func(t *testing.T, srv *zktest.Server) {
		srv.SetLatency(time.Millisecond)
		queues := []*znode.Queue{queue(t, srv, "0"), eager(t, srv, "1"), queue(t, srv, "2")}
		var all sync.WaitGroup
		for i := range 12 {
			random := rand.New(rand.NewPCG(uint64(i), 1))
			all.Go(func() {
				for range 200 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random.IntN(40))*time.Millisecond)
					if h, err := queues[i%3].Acquire(ctx, entry); err == nil {
						time.Sleep(time.Duration(random.IntN(2)*random.IntN(1000)) * time.Microsecond)
						_ = h.Release(ctx) // the removal continues
					}
					cancel()
					if random.IntN(50) == 0 {
						srv.Cut(zktest.Label(strconv.Itoa(random.IntN(3))))
					}
				}
			})
		}
		all.Wait()
		time.Sleep(6 * bubble.Timeout)
		requireEmpty(t, srv)
		for _, q := range queues {
			require.Zero(t, q.PlacesKept())
		}
	})
}
