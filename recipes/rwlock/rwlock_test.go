package rwlock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/fence"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/layout"
	"github.com/zkrecipes/zkrecipes/recipes/rwlock"
	"github.com/zkrecipes/zkrecipes/zktest"
	"github.com/zkrecipes/zkrecipes/zktest/check"
)

const path = "/app/config"

func newLock(t testing.TB, c *conn.Client, opts ...rwlock.Option) *rwlock.RWLock {
	t.Helper()
	l, err := rwlock.New(c, path, opts...)
	require.NoError(t, err)
	return l
}

// held acquires a lock that must be free.
func held( //nolint:revive // t goes first
	t testing.TB, ctx context.Context, acquire func(context.Context) (*zkrecipes.Hold, error),
) *zkrecipes.Hold {
	t.Helper()
	return bubble.Start(ctx, acquire).Granted(t, 0)
}

func release(t testing.TB, h *zkrecipes.Hold) {
	t.Helper()
	require.NoError(t, h.Release(t.Context()))
}

func pair(t *testing.T, test func(t *testing.T, srv *zktest.Server, a, b *conn.Client)) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory())
		test(t, srv, bubble.Dial(t, srv, "a"), bubble.Dial(t, srv, "b"))
	})
}

// Curator's golden dump: a write hold (data d), another writer and a reader in the queue, then the downgrade, whose
// node is plainly ephemeral and has the writer's own digits.
func TestNodes_AreThoseOfCurator(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, b *conn.Client) {
		mine := newLock(t, a, rwlock.WithData([]byte("d")))
		writer := held(t, t.Context(), mine.Lock)
		others := newLock(t, b, rwlock.WithData(nil))
		second := bubble.Start(t.Context(), others.Lock)
		second.Waits(t)
		third := bubble.Start(t.Context(), others.RLock)
		third.Waits(t)
		reader := held(t, writer.Context(), mine.RLock)

		const prefix = `^/app/config/_c_[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}-`
		assert.Regexp(t, prefix+`__WRIT__0000000000$`, writer.Path())
		assert.Regexp(t, prefix+`__READ__0000000000$`, reader.Path())
		assert.Equal(t, reader.Token(), writer.Token())
		queue, err := mine.Queue(t.Context())
		require.NoError(t, err)
		require.Len(t, queue, 4)
		for i, want := range []struct {
			suffix, data string
			write, holds bool
		}{
			{"__WRIT__0000000000", "d", true, true},
			{"__READ__0000000000", "d", false, true},
			{"__WRIT__0000000001", "", true, false},
			{"__READ__0000000002", "", false, false},
		} {
			assert.Regexp(t, prefix+want.suffix+"$", queue[i].Path)
			assert.Equal(t, want.data, queue[i].Name)
			assert.Equal(t, want.write, queue[i].Write)
			assert.Equal(t, want.holds, queue[i].Holds)
			n, ok := srv.Node(queue[i].Path)
			require.True(t, ok)
			assert.Equal(t, queue[i].Session, n.Stat.EphemeralOwner)
		}
		parent, _ := srv.Node(path)
		assert.True(t, parent.Container)
		assert.Empty(t, parent.Data)

		release(t, writer)
		second.Waits(t)
		third.Waits(t)
		release(t, reader)
		h := second.Granted(t, 0)
		third.Waits(t)
		release(t, h)
		release(t, third.Granted(t, 0))
		bubble.Clean(t, srv, path)
	})
}

// CURATOR-621: an older Curator grants the queued writer when the write lock is released.
func TestDowngrade_QueuedWriter_StaysOutUntilTheReaderHasLeft(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, b *conn.Client) {
		mine, other := newLock(t, a), newLock(t, b)
		writer := held(t, t.Context(), mine.Lock)
		waiting := bubble.Start(t.Context(), other.Lock)
		waiting.Waits(t)
		reader := held(t, writer.Context(), mine.RLock)
		nested := held(t, reader.Context(), mine.TryRLock)
		require.Equal(t, reader.Path(), nested.Path())
		release(t, writer)
		waiting.Waits(t)
		require.NoError(t, reader.Check(t.Context()))
		_, err := mine.Lock(reader.Context())
		require.ErrorIs(t, err, zkrecipes.ErrUpgrade, "it is a reader now")
		release(t, reader)
		waiting.Waits(t)
		release(t, nested)
		release(t, waiting.Granted(t, 0))
		bubble.Clean(t, srv, path)
	})
}

func TestDowngrade_InAnyOrderOfRelease(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, b *conn.Client) {
		mine, other := newLock(t, a), newLock(t, b)
		writer := held(t, t.Context(), mine.Lock)
		one, two := held(t, writer.Context(), mine.RLock), held(t, writer.Context(), mine.TryRLock)
		require.NotEqual(t, one.Path(), two.Path())
		inner := held(t, one.Context(), newLock(t, a, rwlock.WithReentrance()).Lock)
		require.Equal(t, writer.Path(), inner.Path(), "write inside read inside write is write inside write")
		waiting := bubble.Start(t.Context(), other.RLock)
		for _, h := range []*zkrecipes.Hold{two, writer, one} {
			waiting.Waits(t)
			release(t, h)
		}
		waiting.Waits(t)
		release(t, inner)
		release(t, waiting.Granted(t, 0))
		bubble.Clean(t, srv, path)
	})
}

// The write hold ends between the check and the reader's node. A writer may have been granted, so the reader must not
// be.
func TestDowngrade_WriterGoneMeanwhile_IsNoGrant(t *testing.T) {
	for name, end := range map[string]func(*testing.T, *zktest.Server, *zkrecipes.Hold){
		"released": func(t *testing.T, _ *zktest.Server, h *zkrecipes.Hold) { assert.NoError(t, h.Release(t.Context())) },
		"deleted":  func(t *testing.T, srv *zktest.Server, h *zkrecipes.Hold) { assert.NoError(t, srv.Delete(h.Path())) },
	} {
		t.Run(name, func(t *testing.T) {
			pair(t, func(t *testing.T, srv *zktest.Server, a, b *conn.Client) {
				mine := newLock(t, a)
				writer := held(t, t.Context(), mine.Lock)
				next := bubble.Start(t.Context(), newLock(t, b).Lock)
				next.Waits(t)
				gone := make(chan struct{})
				srv.Intercept(zktest.Match{Op: zktest.OpCreate, Path: "__READ__"}, zktest.Before(func(zktest.Request) { <-gone }))
				reader := bubble.Start(context.WithoutCancel(writer.Context()), mine.RLock)
				reader.Waits(t)
				go func() {
					if name == "deleted" {
						srv.LoseWatch(zktest.Label("a"), writer.Path()) // the holder is not notified
					}
					end(t, srv, writer)
				}()
				if name == "released" {
					// The delete waits behind the create that is held back, but the operator's delete does not.
					synctest.Wait() // the hold has ended by its release, not by the operator's delete
					assert.NoError(t, srv.Delete(writer.Path()))
				}
				h := next.Granted(t, 0)
				close(gone)
				reader.Waits(t)
				require.Len(t, srv.Children(path), 2, "it stands behind, as anybody who comes now")
				release(t, h)
				release(t, reader.Granted(t, 0))
				bubble.Clean(t, srv, path)
			})
		})
	}
}

// A downgrade that finds its writer gone was reported as two acquisitions, and one of TryRLock as a call that waits.
func TestDowngrade_IsTracedOnce(t *testing.T) {
	for name, try := range map[string]bool{"RLock": false, "TryRLock": true} {
		for _, gone := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s gone=%v", name, gone), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					srv := zktest.Run(t, zktest.InMemory())
					var ends []zkrecipes.AcquireEnd
					tracer := &zkrecipes.Tracer{
						AcquireEnd: func(_ context.Context, e zkrecipes.AcquireEnd) { ends = append(ends, e) },
					}
					l := newLock(t, bubble.Dial(t, srv, "a", conn.WithTracer(tracer)))
					writer := held(t, t.Context(), l.Lock)
					if gone {
						srv.LoseWatch(zktest.Label("a"), writer.Path()) // the holder is not notified
						srv.Intercept(zktest.Match{Op: zktest.OpCreate, Path: "__READ__"}, zktest.Before(func(zktest.Request) {
							assert.NoError(t, srv.Delete(writer.Path()))
						}))
					}
					acquire := l.RLock
					if try {
						acquire = l.TryRLock
					}
					held(t, writer.Context(), acquire)
					require.Len(t, ends, 2)
					require.Equal(t, "rwlock-read", ends[1].Recipe)
					require.Equal(t, try, ends[1].Try)
					require.NoError(t, ends[1].Err)
				})
			})
		}
	}
}

func TestDowngrade_SessionOfTheWriterGone_IsAnOrdinaryReader(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, b *conn.Client) {
		mine := newLock(t, a)
		writer := held(t, t.Context(), mine.Lock)
		srv.Intercept(zktest.Match{Op: zktest.OpCreate, Path: "__READ__"},
			zktest.Before(func(r zktest.Request) { srv.Expire(r.Session) }))
		next := bubble.Start(t.Context(), newLock(t, b).Lock)
		next.Waits(t)
		reader := bubble.Start(context.WithoutCancel(writer.Context()), mine.RLock)
		h := next.Granted(t, time.Second)
		time.Sleep(time.Minute)
		reader.Waits(t)
		release(t, h)
		release(t, reader.Granted(t, 0))
	})
}

// Curator's testThatDowngradingRespectsThreads.
func TestRLock_WithoutTheContextOfTheWriter_Waits(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, _ *conn.Client) {
		l := newLock(t, a)
		writer := held(t, t.Context(), l.Lock)
		_, err := l.TryRLock(t.Context())
		var busy *zkrecipes.BusyError
		require.ErrorAs(t, err, &busy)
		require.Equal(t, writer.Path(), busy.Holder.Path)
		reader := bubble.Start(t.Context(), l.RLock)
		reader.Waits(t)
		release(t, writer)
		release(t, reader.Granted(t, 0))
		bubble.Clean(t, srv, path)
	})
}

// Curator waits forever.
func TestLock_InsideRead_IsErrUpgradeAtOnce(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, _ *conn.Client) {
		l := newLock(t, a)
		reader := held(t, t.Context(), l.RLock)
		sent := bubble.Requests(srv)
		for _, acquire := range []func(context.Context) (*zkrecipes.Hold, error){l.Lock, l.TryLock, newLock(t, a).Lock} {
			_, err := acquire(reader.Context())
			require.ErrorIs(t, err, zkrecipes.ErrUpgrade)
			require.ErrorContains(t, err, path)
		}
		require.ErrorIs(t, l.Do(reader.Context(), func(context.Context, *zkrecipes.Hold) error { return nil }),
			zkrecipes.ErrUpgrade)
		require.Zero(t, sent.Hits())
		release(t, reader)
		release(t, held(t, context.WithoutCancel(reader.Context()), l.Lock))
	})
}

// A writer excludes the goroutines that have its context. Readers exclude none.
func TestLock_InsideItsOwnHold(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, _ *conn.Client) {
		l := newLock(t, a)
		writer := held(t, t.Context(), l.Lock)
		downgraded := held(t, writer.Context(), l.RLock)
		synctest.Wait()
		sent := bubble.Requests(srv)
		for _, outer := range []*zkrecipes.Hold{writer, downgraded} {
			_, err := newLock(t, a).Lock(outer.Context())
			require.ErrorIs(t, err, zkrecipes.ErrDeadlock)
		}
		require.Zero(t, sent.Hits())
		sent.Remove()
		_, err := l.TryLock(writer.Context())
		require.ErrorIs(t, err, zkrecipes.ErrLocked, "a try does not wait")
		release(t, writer)
		_, err = l.Lock(downgraded.Context())
		require.ErrorIs(t, err, zkrecipes.ErrUpgrade)
		release(t, downgraded)
		bubble.Clean(t, srv, path)
	})
}

func TestLock_Nested_SharesTheContender(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, _ *conn.Client) {
		l := newLock(t, a, rwlock.WithReentrance())
		for _, pair := range [][2]func(context.Context) (*zkrecipes.Hold, error){{l.Lock, l.TryLock}, {l.RLock, l.TryRLock}} {
			outer := held(t, t.Context(), pair[0])
			inner := held(t, outer.Context(), pair[1])
			require.Equal(t, outer.Path(), inner.Path())
			release(t, outer)
			require.NoError(t, inner.Check(t.Context()))
			release(t, inner)
			bubble.Clean(t, srv, path)
		}
	})
}

// Curator's testGetParticipantNodes: twenty readers hold, eight writers queue.
func TestQueue_TwentyReadersAndEightWriters(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, b *conn.Client) {
		readers, writers := newLock(t, a), newLock(t, b)
		var reading []*zkrecipes.Hold
		for range 20 {
			reading = append(reading, held(t, t.Context(), readers.RLock))
		}
		var writing []*bubble.Attempt
		for range 8 {
			w := bubble.Start(t.Context(), writers.Lock)
			w.Waits(t)
			writing = append(writing, w)
		}
		late := bubble.Start(t.Context(), readers.RLock)
		late.Waits(t)
		queue, err := readers.Queue(t.Context())
		require.NoError(t, err)
		require.Len(t, queue, 29)
		for i, c := range queue {
			require.Equal(t, i >= 20 && i < 28, c.Write, i)
			require.Equal(t, i < 20, c.Holds, i)
		}
		for _, h := range reading {
			release(t, h)
		}
		for _, w := range writing {
			late.Waits(t)
			release(t, w.Granted(t, 0))
		}
		release(t, late.Granted(t, 0))
		bubble.Clean(t, srv, path)
	})
}

func TestRLock_ManyBehindOneWriter_AreLetInTogether(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, b *conn.Client) {
		writer := held(t, t.Context(), newLock(t, a).Lock)
		l := newLock(t, b)
		var readers []*bubble.Attempt
		for range 30 {
			r := bubble.Start(t.Context(), l.RLock)
			r.Waits(t)
			readers = append(readers, r)
		}
		require.Len(t, srv.Watchers(writer.Path()), 2)
		release(t, writer)
		for _, r := range readers {
			h := r.Granted(t, 0)
			defer func() { release(t, h) }()
		}
	})
}

func TestHold_NodeDeletedByAnother_IsLost(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, _ *conn.Client) {
		l := newLock(t, a)
		writer := held(t, t.Context(), l.Lock)
		reader := held(t, writer.Context(), l.RLock)
		require.NoError(t, srv.Delete(writer.Path()))
		synctest.Wait()
		require.ErrorIs(t, writer.Err(), zkrecipes.ErrLost)
		require.NoError(t, reader.Err(), "it has a node of its own")
		release(t, reader)
	})
}

// The write hold lives, and its reader must not queue behind it.
func TestDowngrade_ReaderDeletedByHand_IsMadeAgain(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, _ *conn.Client) {
		l := newLock(t, a)
		writer := held(t, t.Context(), l.Lock)
		synctest.Wait()
		listed := srv.Intercept(zktest.Match{Op: zktest.OpGetChildren2, Path: path}, zktest.Before(func(zktest.Request) {
			for _, p := range srv.Ephemerals(srv.SessionOf("a")) {
				if p != writer.Path() {
					require.NoError(t, srv.Delete(p))
				}
			}
		}))
		reader := bubble.Start(writer.Context(), l.RLock).Granted(t, time.Second)
		require.Equal(t, 1, listed.Hits())
		release(t, writer)
		release(t, reader)
		bubble.Clean(t, srv, path)
	})
}

// The next writer, which was in the queue before the downgrade, is not stale at a resource that has seen the token of
// the downgraded reader.
func TestDowngrade_HasTheTokenOfItsPlace(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, b *conn.Client) {
		gate := fence.New(fence.NewMemory())
		admit := func(h *zkrecipes.Hold) { require.NoError(t, gate.Admit(t.Context(), "r", h.Token())) }
		l := newLock(t, a)
		writer := held(t, t.Context(), l.Lock)
		admit(writer)
		next := bubble.Start(t.Context(), newLock(t, b).Lock)
		next.Waits(t)
		reader := held(t, writer.Context(), l.RLock)
		release(t, writer)
		admit(reader)
		require.NoError(t, reader.Check(t.Context()))
		queue, err := l.Queue(t.Context())
		require.NoError(t, err)
		require.Greater(t, queue[0].Token, reader.Token(), "the czxid")
		release(t, reader)
		admit(next.Granted(t, 0))
	})
}

// The same connection and the same path on the server, under another name.
func TestDowngrade_ThroughSub(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, b *conn.Client) {
		sub, err := a.Sub("/app")
		require.NoError(t, err)
		below, err := rwlock.New(sub, strings.TrimPrefix(path, "/app"))
		require.NoError(t, err)
		writer := held(t, t.Context(), newLock(t, a).Lock)
		next := bubble.Start(t.Context(), newLock(t, b).Lock)
		next.Waits(t)
		reader := bubble.Start(writer.Context(), below.RLock).Granted(t, time.Second)
		release(t, writer)
		next.Waits(t)
		release(t, reader)
		release(t, next.Granted(t, 0))
		bubble.Clean(t, srv, path)
	})
}

func TestDowngrade_Cancelled_IsAWaitError(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, _ *conn.Client) {
		l := newLock(t, a)
		writer := held(t, t.Context(), l.Lock)
		synctest.Wait()
		served := make(chan struct{})
		srv.Intercept(zktest.Match{Op: zktest.OpCreate, Path: "__READ__"}, zktest.DelayUntil(served))
		ctx, cancel := context.WithCancel(writer.Context())
		reader := bubble.Start(ctx, l.RLock)
		reader.Waits(t)
		cancel()
		err := reader.Failed(t, 0)
		require.ErrorIs(t, err, context.Canceled)
		var waited *zkrecipes.WaitError
		require.ErrorAs(t, err, &waited)
		require.Equal(t, path, waited.Path)
		close(served)
		synctest.Wait()
		release(t, writer)
		bubble.Clean(t, srv, path)
	})
}

func TestLock_Cancelled_LeavesNothingAndLetsThoseBehindIn(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, b *conn.Client) {
		first := held(t, t.Context(), newLock(t, a).RLock)
		ctx, cancel := context.WithCancel(t.Context())
		writer := bubble.Start(ctx, newLock(t, b).Lock)
		writer.Waits(t)
		reader := bubble.Start(t.Context(), newLock(t, b).RLock)
		reader.Waits(t)
		cancel()
		var waited *zkrecipes.WaitError
		require.ErrorAs(t, writer.Failed(t, 0), &waited)
		require.Equal(t, 2, waited.Position)
		require.Equal(t, "a", waited.Holder.Name)
		release(t, reader.Granted(t, 0))
		release(t, first)
		bubble.Clean(t, srv, path)
	})
}

// The writer has left, but the session of the second reader is not proven in time.
func TestRLock_CancelledBeforeItIsProven_IsBehindTheOtherReader(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, b *conn.Client) {
		writer := held(t, t.Context(), newLock(t, b).Lock)
		first := bubble.Start(t.Context(), newLock(t, b).RLock)
		first.Waits(t)
		ctx, cancel := context.WithCancel(t.Context())
		second := bubble.Start(ctx, newLock(t, a).RLock)
		second.Waits(t)
		time.Sleep(2 * bubble.Timeout) // the proof has lapsed
		srv.Intercept(zktest.Match{From: zktest.Label("a"), Times: -1, Where: func(r zktest.Request) bool {
			return r.Op == zktest.OpSync || r.Op == zktest.OpMulti
		}}, zktest.Fail(zktest.CodeThrottled))
		release(t, writer)
		first.Granted(t, 0)
		second.Waits(t)
		cancel()
		var waited *zkrecipes.WaitError
		require.ErrorAs(t, second.Failed(t, time.Second), &waited)
		require.Equal(t, []int{2, 2}, []int{waited.Position, waited.Queue}, waited)
	})
}

func TestDoAndRDo_HoldForTheBody(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, b *conn.Client) {
		l, other := newLock(t, a), newLock(t, b)
		failed := errors.New("failed")
		require.Equal(t, failed, l.Do(t.Context(), func(ctx context.Context, _ *zkrecipes.Hold) error {
			_, err := other.TryRLock(ctx)
			require.ErrorIs(t, err, zkrecipes.ErrLocked)
			require.NoError(t, l.RDo(ctx, func(context.Context, *zkrecipes.Hold) error { return nil }))
			return failed
		}))
		require.NoError(t, l.RDo(t.Context(), func(ctx context.Context, _ *zkrecipes.Hold) error {
			h, err := other.TryRLock(ctx)
			require.NoError(t, err)
			return h.Release(ctx)
		}))
		require.Panics(t, func() { _ = l.Do(t.Context(), func(context.Context, *zkrecipes.Hold) error { panic("boom") }) })
		require.Empty(t, srv.Children(path))
	})
}

// This is a longer version of Curator's testBasic: eight clients, a tenth of them writers, with cuts, restarts and
// downgrades.
func TestLock_ReadersAndWriters_AreSound(t *testing.T) {
	seeds := uint64(5)
	if testing.Short() || bubble.Race {
		seeds = 1
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { readersAndWriters(t, rand.New(rand.NewPCG(seed, 3))) })
		})
	}
}

func readersAndWriters(t *testing.T, random *rand.Rand) {
	srv := zktest.Run(t, zktest.InMemory())
	var rec check.Recorder
	var wg sync.WaitGroup
	var reading, most int
	var mu sync.Mutex
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Minute)
	defer stop()
	hold := func(op *check.Op, h *zkrecipes.Hold, d time.Duration) {
		select {
		case <-time.After(d):
			op.Released()
			_ = h.Release(ctx)
		case <-h.Done():
			op.Lost()
		}
	}
	for i := range 8 {
		who := fmt.Sprint("client-", i)
		l := newLock(t, bubble.Dial(t, srv, who))
		mine := rand.New(rand.NewPCG(random.Uint64(), 4))
		pause := func() time.Duration { return time.Duration(mine.IntN(4000)) * time.Millisecond }
		wg.Go(func() {
			for ctx.Err() == nil {
				write := mine.IntN(10) == 0
				op := rec.CallRead(who)
				acquire := l.RLock
				if write {
					// The reader was never granted, but every op needs an end.
					op.Failed()
					op, acquire = rec.Call(who, 1), l.Lock
				}
				h, err := acquire(ctx)
				if err != nil {
					op.Failed()
					continue
				}
				op.GrantedHold(h)
				if write && mine.IntN(2) == 0 {
					inner := rec.CallRead(who)
					r, err := l.RLock(h.Context())
					if err != nil {
						inner.Failed()
					} else {
						inner.GrantedHold(r)
						hold(op, h, pause())
						hold(inner, r, pause())
						continue
					}
				}
				if !write {
					mu.Lock()
					reading++
					most = max(most, reading)
					mu.Unlock()
				}
				hold(op, h, pause())
				if !write {
					mu.Lock()
					reading--
					mu.Unlock()
				}
			}
		})
	}
	wg.Go(func() {
		for ctx.Err() == nil {
			time.Sleep(time.Duration(random.IntN(30_000)) * time.Millisecond)
			switch who := zktest.Label(fmt.Sprint("client-", random.IntN(8))); random.IntN(4) {
			case 0:
				srv.Cut(who)
			case 1:
				srv.Restart()
			case 2:
				srv.Stall(who, zktest.Both)
				time.Sleep(time.Duration(random.IntN(20_000)) * time.Millisecond)
				srv.Heal(who)
			case 3:
				srv.Intercept(zktest.Match{Op: zktest.OpCreate}, zktest.DropReply())
			}
		}
	})
	wg.Wait()
	holds, err := rec.Holds()
	require.NoError(t, err)
	weighted, limit := check.ReadWrite(holds)
	require.NoError(t, check.Exclusion(weighted, limit))
	require.NoError(t, check.Order(weighted, limit))
	require.Greater(t, most, 1, "readers together")
	t.Logf("%d holds, %d readers at once", len(holds), most)
	time.Sleep(time.Minute)
	bubble.Clean(t, srv, path)
}

// A reader waits for no reader, so only what cannot be granted inside a hold of another client fails.
func TestLock_ThroughTwoClients_WouldWaitForItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory())
		x, err := rwlock.New(bubble.Dial(t, srv, "a"), "/app/rw")
		require.NoError(t, err)
		y, err := rwlock.New(bubble.Dial(t, srv, "b"), "/app/rw")
		require.NoError(t, err)
		read, err := x.RLock(t.Context())
		require.NoError(t, err)
		_, err = y.Lock(read.Context())
		require.ErrorIs(t, err, zkrecipes.ErrDeadlock)
		both, err := y.RLock(read.Context())
		require.NoError(t, err)
		require.NoError(t, both.Release(t.Context()))
		require.NoError(t, read.Release(t.Context()))
		write, err := x.Lock(t.Context())
		require.NoError(t, err)
		_, err = y.RLock(write.Context())
		require.ErrorIs(t, err, zkrecipes.ErrDeadlock)
		_, err = y.Lock(write.Context())
		require.ErrorIs(t, err, zkrecipes.ErrDeadlock)
		require.NoError(t, write.Release(t.Context()))
		bubble.Clean(t, srv, "/app/rw")
	})
}

// The second reader waited for a writer that waited for the caller's first hold.
func TestRLock_ThroughTwoClients_BehindAWriter_WouldWaitForItself(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, b *conn.Client) {
		x, y := newLock(t, a), newLock(t, b)
		first := held(t, t.Context(), x.RLock)
		writer := bubble.Start(t.Context(), y.Lock)
		writer.Waits(t)
		require.ErrorIs(t, bubble.Start(first.Context(), y.RLock).Failed(t, 0), zkrecipes.ErrDeadlock)
		_, err := y.TryRLock(first.Context())
		require.ErrorIs(t, err, zkrecipes.ErrLocked)
		other := bubble.Start(t.Context(), y.RLock)
		other.Waits(t)
		release(t, first)
		release(t, writer.Granted(t, 0))
		release(t, other.Granted(t, 0))
		bubble.Clean(t, srv, path)
	})
}

// A context without the cancellation of its hold outlives it. Another hold on the same node, of another goroutine, made
// the released one count as held.
func TestLock_InsideAReleasedHold_WhileANestedOneLives_Waits(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, _ *conn.Client) {
		l := newLock(t, a, rwlock.WithReentrance())
		for _, acquire := range []func(context.Context) (*zkrecipes.Hold, error){l.RLock, l.Lock} {
			first := held(t, t.Context(), acquire)
			nested := held(t, first.Context(), acquire)
			require.Equal(t, first.Path(), nested.Path())
			release(t, first)
			outlives := context.WithoutCancel(first.Context())
			writer := bubble.Start(outlives, l.Lock)
			writer.Waits(t)
			release(t, nested)
			release(t, writer.Granted(t, 0))
		}
		bubble.Clean(t, srv, path)
	})
}

func TestRevoke_AsksAllWhoHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory())
		client := bubble.Dial(t, srv, "a")
		a, b := newLock(t, client), newLock(t, bubble.Dial(t, srv, "b"), rwlock.WithData([]byte("me")))
		require.NoError(t, a.Revoke(t.Context()), "no holder")
		first, err := a.RLock(t.Context())
		require.NoError(t, err)
		second, err := b.RLock(t.Context())
		require.NoError(t, err)
		writer := bubble.Start(t.Context(), b.Lock)
		writer.Waits(t)
		late := bubble.Start(t.Context(), a.RLock)
		late.Waits(t)
		queue, err := a.Queue(t.Context())
		require.NoError(t, err)
		require.Equal(t, "me", queue[1].Name)
		require.NoError(t, a.Revoke(t.Context()))
		for _, h := range []*zkrecipes.Hold{first, second} {
			<-h.Revoked()
			require.NoError(t, h.Release(t.Context()))
		}
		h := writer.Granted(t, 0)
		synctest.Wait()
		select {
		case <-h.Revoked():
			t.Fatal("waited then")
		default:
		}
		require.NoError(t, a.Revoke(t.Context()))
		<-h.Revoked()
		require.NoError(t, h.Release(t.Context()))
		require.NoError(t, late.Granted(t, 0).Release(t.Context()))
		bubble.Clean(t, srv, path)
		require.NoError(t, client.Close())
		require.ErrorIs(t, a.Revoke(t.Context()), zkrecipes.ErrClosed)
	})
}

// The lock was deleted together with its writer, which is not notified. Another writer has the same number in the new
// one.
func TestDowngrade_AnotherWriterHasTheSameNumber_Waits(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, b *conn.Client) {
		mine := newLock(t, a)
		writer := held(t, t.Context(), mine.Lock)
		synctest.Wait()
		require.Equal(t, 1, srv.LoseWatch(zktest.Label("a"), writer.Path()))
		require.NoError(t, srv.Delete(writer.Path()))
		require.NoError(t, srv.Delete(path))
		other := held(t, t.Context(), newLock(t, b).Lock)
		require.Equal(t, writer.Path()[len(writer.Path())-10:], other.Path()[len(other.Path())-10:],
			"or this test shows nothing")
		reader := bubble.Start(context.WithoutCancel(writer.Context()), mine.RLock)
		reader.Waits(t)
		release(t, other)
		release(t, reader.Granted(t, 0))
		bubble.Clean(t, srv, path)
	})
}

// The client has lost the session of the writer, but the server keeps it for a while. The place belongs to that
// session, so a reader of the next session does not take it.
func TestDowngrade_SessionOfTheWriterLives_OnTheServerAlone_Waits(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, _ *conn.Client) {
		mine := newLock(t, a)
		writer := held(t, t.Context(), mine.Lock)
		synctest.Wait()
		srv.Intercept(zktest.Match{Op: zktest.OpCreate, Path: "__READ__"}, zktest.Ignore())
		reader := bubble.Start(context.WithoutCancel(writer.Context()), mine.RLock)
		reader.Waits(t)
		old := srv.SessionOf("a")
		srv.Refuse(zktest.Label("a"))
		srv.Cut(zktest.Label("a"))
		for range a.States(t.Context()) {
			if a.Status().State == zkrecipes.Lost {
				break
			}
		}
		closing := make(chan struct{})
		srv.Intercept(zktest.Match{Op: zktest.OpCloseSession}, zktest.DelayUntil(closing))
		srv.Accept(zktest.Label("a"))
		require.NoError(t, a.Sync(t.Context(), path), "the next session is up")
		reader.Waits(t)
		require.True(t, srv.Exists(writer.Path()), "or this test shows nothing")
		close(closing)
		h := reader.Granted(t, 0)
		n, _ := srv.Node(h.Path())
		require.NotEqual(t, old, n.Stat.EphemeralOwner)
		require.Greater(t, h.Token(), writer.Token())
		release(t, h)
	})
}

// A reader at the place of a writer that is itself waiting does not hold the lock.
func TestQueue_ReaderAtThePlaceOfAWaitingWriter_Waits(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, _ *conn.Client) {
		l := newLock(t, a)
		release(t, held(t, t.Context(), l.Lock)) // creates the parents
		for _, name := range []string{"__WRIT__0000000001", "__WRIT__0000000002", "__READ__0000000002"} {
			_, err := srv.Create(path+"/"+name, nil, zktest.Persistent)
			require.NoError(t, err)
		}
		queue, err := l.Queue(t.Context())
		require.NoError(t, err)
		var holds []bool
		for _, c := range queue {
			holds = append(holds, c.Holds)
		}
		require.Equal(t, []bool{true, false, false}, holds)
	})
}

// Past the end of the sequence, contenders share a number without sharing a place. A waiting reader of another library
// is not asked to release what it does not hold.
func TestRevoke_ReaderWithTheLastNumberOfAWriter_IsNotAsked(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, _ *conn.Client) {
		l := newLock(t, a)
		release(t, held(t, t.Context(), l.Lock)) // creates the parents
		writer, reader := path+"/__WRIT__2147483647", path+"/__READ__2147483647"
		for _, name := range []string{writer, reader} {
			_, err := srv.Create(name, nil, zktest.Persistent)
			require.NoError(t, err)
		}
		require.NoError(t, l.Revoke(t.Context()))
		asked, _ := srv.Node(writer)
		require.Equal(t, layout.RevokeRequest, string(asked.Data))
		waits, _ := srv.Node(reader)
		require.Empty(t, waits.Data)
	})
}

func TestWithLossOnSuspend_DisconnectEndsTheHolds(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, _ *conn.Client) {
		l := newLock(t, a, rwlock.WithLossOnSuspend())
		for _, acquire := range []func(context.Context) (*zkrecipes.Hold, error){l.Lock, l.RLock} {
			h := held(t, t.Context(), acquire)
			srv.Cut(zktest.Label("a"))
			<-h.Done()
			require.ErrorIs(t, h.Err(), zkrecipes.ErrLost)
			time.Sleep(bubble.Timeout)
		}
	})
}

func TestDoAndRDo_WithoutTheLock_DoNotRunTheBody(t *testing.T) {
	pair(t, func(t *testing.T, _ *zktest.Server, a, b *conn.Client) {
		held(t, t.Context(), newLock(t, a).Lock)
		l := newLock(t, b)
		for _, do := range []func(context.Context, func(context.Context, *zkrecipes.Hold) error) error{l.Do, l.RDo} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			require.ErrorIs(t, do(ctx, func(context.Context, *zkrecipes.Hold) error { t.Error("it runs"); return nil }),
				context.DeadlineExceeded)
			cancel()
		}
	})
}

// The writer had been released, but its node could not be deleted. A reader with a context of that hold took its place,
// ahead of the writers in the queue and with its token.
func TestRLock_OfAReleasedWriter_Queues(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, b *conn.Client) {
		mine := newLock(t, a)
		writer := held(t, t.Context(), mine.Lock)
		srv.Intercept(zktest.Match{Op: zktest.OpDelete, Times: -1}, zktest.Fail(zktest.CodeNoAuth))
		require.Error(t, writer.Release(t.Context()))
		bubble.Start(t.Context(), newLock(t, b).Lock).Waits(t)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(writer.Context()), time.Second)
		defer cancel()
		_, err := mine.RLock(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}
