package semaphore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/semaphore"
	"github.com/zkrecipes/zkrecipes/zktest"
	"github.com/zkrecipes/zkrecipes/zktest/check"
)

const (
	path   = "/app/uploads"
	leases = path + "/leases"
	locks  = path + "/locks"
)

func newSemaphore(t testing.TB, c *conn.Client, limit int, opts ...semaphore.Option) *semaphore.Semaphore {
	t.Helper()
	s, err := semaphore.New(c, path, limit, opts...)
	require.NoError(t, err)
	return s
}

// of returns a function that acquires n leases.
func of(s *semaphore.Semaphore, n int) func(context.Context) (*zkrecipes.Hold, error) {
	return func(ctx context.Context) (*zkrecipes.Hold, error) { return s.Acquire(ctx, n) }
}

func acquire(t testing.TB, s *semaphore.Semaphore, n int) *zkrecipes.Hold {
	t.Helper()
	return bubble.Start(t.Context(), of(s, n)).Granted(t, time.Second)
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

func clean(t testing.TB, srv *zktest.Server) {
	t.Helper()
	bubble.Clean(t, srv, path, "locks", "leases")
}

// Curator's golden dump: the limit is 2, two leases are held (data me), one caller waits with its lease created, and
// one is queued behind it.
func TestNodes_AreThoseOfCurator(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, b *conn.Client) {
		mine := newSemaphore(t, a, 2, semaphore.WithData([]byte("me")))
		first, second := acquire(t, mine, 1), acquire(t, mine, 1)
		others := newSemaphore(t, b, 2, semaphore.WithData([]byte("127.0.0.1")))
		third := bubble.Start(t.Context(), of(others, 1))
		third.Waits(t)
		fourth := bubble.Start(t.Context(), of(others, 1))
		fourth.Waits(t)

		const guid = `_c_[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}-`
		var got []string
		for _, n := range srv.Tree(path) {
			if n.Container {
				assert.Empty(t, n.Data)
				continue
			}
			got = append(got, n.Path[len(n.Path)-10:]+"="+string(n.Data))
			if strings.HasPrefix(n.Path, leases) {
				assert.Regexp(t, `^`+leases+`/`+guid+`lease-\d{10}$`, n.Path)
			} else {
				assert.Regexp(t, `^`+locks+`/`+guid+`lock-\d{10}$`, n.Path)
			}
			assert.NotZero(t, n.Stat.EphemeralOwner)
		}
		assert.ElementsMatch(t, []string{
			"0000000000=me", "0000000001=me", "0000000002=127.0.0.1", // leases
			"0000000002=127.0.0.1", "0000000003=127.0.0.1", // locks; every acquisition so far took one number
		}, got)
		holders, err := mine.Holders(t.Context())
		require.NoError(t, err)
		require.Len(t, holders, 2, "without the one that waits with its lease made")
		assert.Equal(t, first.Token(), holders[0].Token)
		assert.Equal(t, second.Token(), holders[1].Token)

		release(t, second)
		h := third.Granted(t, 0)
		fourth.Waits(t)
		release(t, first)
		release(t, fourth.Granted(t, 0))
		release(t, h)
		clean(t, srv)
	})
}

func TestAcquire_SeveralLeases_AreOneTransactionAndOneHold(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, b *conn.Client) {
		s := newSemaphore(t, a, 5)
		h := acquire(t, s, 3)
		require.Len(t, srv.Children(leases), 3)
		for _, n := range srv.Tree(leases)[1:] {
			require.EqualValues(t, h.Token(), n.Stat.Czxid)
		}
		synctest.Wait()
		made := len(srv.History())
		release(t, h)
		history := srv.History()
		require.Len(t, history, made+1, "removed in one transaction")
		require.Len(t, history[made].Changes, 3)

		h = acquire(t, s, 5)
		waiting := bubble.Start(t.Context(), of(newSemaphore(t, b, 5), 2))
		waiting.Waits(t)
		synctest.Wait()
		require.NoError(t, srv.Delete(leases+"/"+srv.Children(leases)[3]), "any of them")
		<-h.Done()
		require.ErrorIs(t, h.Err(), zkrecipes.ErrLost)
		require.ErrorIs(t, h.Release(t.Context()), zkrecipes.ErrLost)
		release(t, waiting.Granted(t, 0))
		clean(t, srv)
	})
}

func TestAcquire_OneOfTheLeasesPastTheEndOfTheSequence_IsAnErrorAndNeverAGrant(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, _ *conn.Client) {
		s := newSemaphore(t, a, 5)
		release(t, acquire(t, s, 1))
		synctest.Wait()
		require.NoError(t, srv.SetCversion(leases, 2147483645))
		err := bubble.Start(t.Context(), of(s, 3)).Failed(t, time.Second)
		require.ErrorIs(t, err, zkrecipes.ErrSequenceExhausted)
		clean(t, srv)
	})
}

func TestRelease_OneLeaseGoneMeanwhile_RemovesTheOthers(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, _ *conn.Client) {
		h := acquire(t, newSemaphore(t, a, 3), 3)
		srv.Intercept(zktest.Match{Op: zktest.OpMulti}, zktest.Before(func(r zktest.Request) {
			assert.NoError(t, srv.Delete(r.Paths[1]))
		}))
		release(t, h)
		clean(t, srv)
	})
}

// The leases were read one after another.
func TestHold_Check_ManyLeases_AreReadTogether(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, _ *conn.Client) {
		h := acquire(t, newSemaphore(t, a, 200), 200)
		srv.SetLatency(time.Millisecond)
		began := time.Now()
		require.NoError(t, h.Check(t.Context()))
		require.Less(t, time.Since(began), 20*time.Millisecond)
		srv.SetLatency(0)
		require.NoError(t, srv.Delete(srv.Ephemerals(srv.SessionOf("a"))[150]))
		require.ErrorIs(t, h.Check(t.Context()), zkrecipes.ErrLost)
		synctest.Wait()
		clean(t, srv)
	})
}

func TestHold_Txn_IsGuardedByAllLeases(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, _ *conn.Client) {
		_, err := srv.Create("/data", []byte("old"), zktest.Persistent)
		require.NoError(t, err)
		h := acquire(t, newSemaphore(t, a, 3), 3)
		require.NoError(t, h.Check(t.Context()))
		results, err := h.Txn(t.Context(), zkrecipes.OpSet("/data", []byte("new"), 0))
		require.NoError(t, err)
		require.Len(t, results, 1)
		require.EqualValues(t, 1, results[0].Stat.Version)
		srv.Intercept(zktest.Match{Op: zktest.OpMulti, Path: "^/data$"}, zktest.Before(func(r zktest.Request) {
			assert.NoError(t, srv.Delete(r.Paths[2]))
		}))
		_, err = h.Txn(t.Context(), zkrecipes.OpSet("/data", []byte("stale"), -1))
		require.ErrorIs(t, err, zkrecipes.ErrFenced)
		n, _ := srv.Node("/data")
		require.Equal(t, "new", string(n.Data))
	})
}

func TestAcquire_InOrder_NoCallerPassesAWaiterThatWantsMore(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, b *conn.Client) {
		s := newSemaphore(t, a, 3)
		first, second := acquire(t, s, 1), acquire(t, s, 1)
		greedy := bubble.Start(t.Context(), of(newSemaphore(t, b, 3), 3))
		greedy.Waits(t)
		small := bubble.Start(t.Context(), of(s, 1)) // one lease is free
		small.Waits(t)
		release(t, first)
		greedy.Waits(t)
		small.Waits(t)
		release(t, second)
		h := greedy.Granted(t, 0)
		small.Waits(t)
		release(t, h)
		release(t, small.Granted(t, 0))
		clean(t, srv)
	})
}

func TestTryAcquire_NotEnough_SaysWhoHoldsAndLeavesNothing(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, b *conn.Client) {
		h := acquire(t, newSemaphore(t, a, 3), 2)
		synctest.Wait()
		zxid := srv.Zxid()
		s := newSemaphore(t, b, 3)
		_, err := s.TryAcquire(t.Context(), 2)
		var busy *zkrecipes.BusyError
		require.ErrorAs(t, err, &busy)
		require.Equal(t, 2, busy.Queue)
		require.Equal(t, h.Token(), busy.Holder.Token)
		require.Equal(t, zxid, srv.Zxid(), "nothing was written")
		one, err := s.TryAcquire(t.Context(), 1)
		require.NoError(t, err)
		release(t, one)
		release(t, h)
		clean(t, srv)
	})
}

// A try that meets others that are just taking their leases may be refused, but the first at the door is not.
func TestTryAcquire_AllAtOnce_AreWithinTheLimit(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, b *conn.Client) {
		var wg sync.WaitGroup
		var mu sync.Mutex
		var holds []*zkrecipes.Hold
		for i := range 40 {
			s := newSemaphore(t, []*conn.Client{a, b}[i%2], 25)
			wg.Go(func() {
				h, err := s.TryAcquire(t.Context(), 1)
				if err != nil {
					assert.ErrorIs(t, err, zkrecipes.ErrLocked)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				holds = append(holds, h)
			})
		}
		wg.Wait()
		require.NotEmpty(t, holds)
		require.Len(t, srv.Children(leases), len(holds), "those who failed have left nothing when they return")
		for _, h := range holds {
			release(t, h)
		}
		clean(t, srv)
	})
}

func TestTryAcquire_BehindOneWhoWaits_IsBusy(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, b *conn.Client) {
		s := newSemaphore(t, a, 3)
		h := acquire(t, s, 2)
		waiting := bubble.Start(t.Context(), of(s, 3))
		waiting.Waits(t)
		try := bubble.Start(t.Context(), func(ctx context.Context) (*zkrecipes.Hold, error) {
			return newSemaphore(t, b, 3).TryAcquire(ctx, 1)
		})
		require.ErrorIs(t, try.Failed(t, 0), zkrecipes.ErrLocked)
		release(t, h)
		release(t, waiting.Granted(t, 0))
		clean(t, srv)
	})
}

func TestTryAcquire_OneAheadBeginsToWait_IsBusy(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, b *conn.Client) {
		s := newSemaphore(t, a, 3)
		h := acquire(t, s, 1)
		synctest.Wait()
		gate := make(chan struct{})
		srv.Intercept(zktest.Match{Op: zktest.OpMulti}, zktest.DelayUntil(gate))
		ahead := bubble.Start(t.Context(), of(s, 3))
		ahead.Waits(t)
		try := bubble.Start(t.Context(), func(ctx context.Context) (*zkrecipes.Hold, error) {
			return newSemaphore(t, b, 3).TryAcquire(ctx, 1)
		})
		require.ErrorIs(t, try.Failed(t, 0), zkrecipes.ErrLocked,
			"it does not wait, though there is enough as far as it can see")
		require.Len(t, srv.Children(locks), 1)
		close(gate)
		release(t, h)
		release(t, ahead.Granted(t, 0))
		clean(t, srv)
	})
}

// CURATOR-462: an interrupted waiter left its lease.
func TestAcquire_Cancelled_LeavesNothing(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, b *conn.Client) {
		h := acquire(t, newSemaphore(t, a, 3), 2)
		s := newSemaphore(t, b, 3)
		ctx, cancel := context.WithCancel(t.Context())
		inside := bubble.Start(ctx, of(s, 2))
		inside.Waits(t)
		outside := bubble.Start(ctx, of(s, 1))
		outside.Waits(t)
		behind := bubble.Start(t.Context(), of(s, 1))
		behind.Waits(t)
		cancel()
		for _, w := range []*bubble.Attempt{inside, outside} {
			err := w.Failed(t, 0)
			require.ErrorIs(t, err, context.Canceled)
			var waited *zkrecipes.WaitError
			require.ErrorAs(t, err, &waited)
		}
		release(t, behind.Granted(t, 0))
		release(t, h)
		clean(t, srv)
	})
}

// Curator's testNoOrphanedNodes.
func TestAcquire_LeaseOfTheWaiterDeleted_QueuesAgainWithOneLease(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, b *conn.Client) {
		h := acquire(t, newSemaphore(t, a, 2), 2)
		waiting := bubble.Start(t.Context(), of(newSemaphore(t, b, 2), 2))
		waiting.Waits(t)
		for i, dir := range []string{leases, locks, leases} {
			var own []string
			for _, p := range srv.Ephemerals(srv.SessionOf("b")) {
				if strings.HasPrefix(p, dir) {
					own = append(own, p)
				}
			}
			require.NoError(t, srv.Delete(own[min(i, len(own)-1)]), "the first lease, the door, the last lease")
			waiting.Waits(t)
			require.Len(t, srv.Children(leases), 4)
			require.Len(t, srv.Children(locks), 1)
		}
		release(t, h)
		release(t, waiting.Granted(t, 0))
		clean(t, srv)
	})
}

func TestWithLossOnSuspend_DisconnectEndsTheHoldAndAllItsLeasesGo(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, _ *conn.Client) {
		h := acquire(t, newSemaphore(t, a, 3, semaphore.WithLossOnSuspend()), 3)
		srv.Cut(zktest.Label("a"))
		<-h.Done()
		require.ErrorIs(t, h.Err(), zkrecipes.ErrLost)
		time.Sleep(bubble.Timeout)
		clean(t, srv)
	})
}

// Curator's testThreadedLeaseIncrease, and SharedCount's bytes.
func TestLimitNode_IsFollowedLive(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, b *conn.Client) {
		const node = "/settings/uploads"
		with := semaphore.WithLimitNode(node)
		s, other := newSemaphore(t, a, 1, with), newSemaphore(t, b, 7, with)
		limit, err := other.Limit(t.Context())
		require.NoError(t, err)
		require.Equal(t, 7, limit, "not made yet")
		require.False(t, srv.Exists(node))

		first := acquire(t, s, 1)
		n, ok := srv.Node(node)
		require.True(t, ok)
		require.Equal(t, []byte{0, 0, 0, 1}, n.Data)
		require.False(t, n.Container)
		require.Zero(t, n.Stat.EphemeralOwner)
		limit, err = other.Limit(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, limit, "what is there counts")

		second := bubble.Start(t.Context(), of(other, 1))
		second.Waits(t)
		require.NoError(t, srv.Set(node, []byte{0, 0, 0, 2})) // as Java would
		h := second.Granted(t, 0)

		// Lowering the limit revokes no lease, and grants no waiter until enough leases have been released.
		require.NoError(t, s.SetLimit(t.Context(), 1))
		synctest.Wait()
		require.NoError(t, first.Err())
		require.NoError(t, h.Err())
		third := bubble.Start(t.Context(), of(s, 1))
		third.Waits(t)
		release(t, first)
		third.Waits(t)
		release(t, h)
		release(t, third.Granted(t, 0))

		// A request for more than the limit waits, because the limit may be raised.
		require.NoError(t, s.SetLimit(t.Context(), 258))
		n, _ = srv.Node(node)
		require.Equal(t, []byte{0, 0, 1, 2}, n.Data)
		many := bubble.Start(t.Context(), of(s, 300))
		many.Waits(t)
		require.NoError(t, other.SetLimit(t.Context(), 300))
		release(t, many.Granted(t, 0))
		clean(t, srv)
	})
}

// Holders lists the leases that were granted, whatever leases the first waiter has, and whatever else its session
// holds.
func TestHolders_AreThoseThatWereGranted(t *testing.T) {
	for name, opts := range map[string][]semaphore.Option{
		"fixed": nil, "kazoo's": {semaphore.WithKazoo()}, "limit node": {semaphore.WithLimitNode("/limit")},
	} {
		t.Run(name, func(t *testing.T) {
			pair(t, func(t *testing.T, srv *zktest.Server, a, b *conn.Client) {
				mine, others := newSemaphore(t, a, 6, opts...), newSemaphore(t, b, 6, opts...)
				is := func(want ...*zkrecipes.Hold) {
					t.Helper()
					holders, err := others.Holders(t.Context())
					require.NoError(t, err)
					var got, tokens []zkrecipes.Token
					for _, p := range holders {
						got = append(got, p.Token)
					}
					for _, h := range want {
						tokens = append(tokens, h.Token())
					}
					require.Equal(t, tokens, got)
				}
				two, three, one := acquire(t, mine, 2), acquire(t, others, 3), acquire(t, mine, 1)
				is(two, two, three, three, three, one)
				ctx, cancel := context.WithCancel(t.Context())
				inside := bubble.Start(ctx, of(mine, 3)) // its session holds two leases, and it waits for one more
				inside.Waits(t)
				behind := bubble.Start(t.Context(), of(others, 4))
				behind.Waits(t)
				is(two, two, three, three, three, one)
				release(t, one)
				is(two, two, three, three, three)
				if name == "limit node" { // the limit cannot be read, so the waiters are read at the door
					refused := srv.Intercept(
						zktest.Match{Op: zktest.OpGetData, Path: "^/limit$", From: zktest.Label("b")},
						zktest.Fail(zktest.CodeNoAuth))
					is(two, two, three, three, three)
					require.Equal(t, 1, refused.Hits())
				}
				release(t, two)
				granted := inside.Granted(t, 0)
				is(three, three, three, granted, granted, granted)
				release(t, three)
				behind.Waits(t)
				is(granted, granted, granted)
				release(t, granted)
				last := behind.Granted(t, 0)
				is(last, last, last, last)
				release(t, last)
				cancel()
			})
		})
	}
}

// The limit was lowered, and a waiter has made its lease, both before a client asks whose server lags behind. That
// client counts the lease as held if it compares it with the old limit, and would revoke it.
func TestHolders_ServerLagsBehindALowerLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory(), zktest.WithFronts(3))
		front, limited := srv.Fronts()[2], semaphore.WithLimitNode("/limit")
		a := newSemaphore(t, bubble.Dial(t, srv, "a"), 5, limited)
		b := newSemaphore(t, bubble.Dial(t, srv, "b", conn.WithDialer(front.DialAs("b"))), 5, limited)
		h := acquire(t, a, 1)
		_, err := b.Holders(t.Context())
		require.NoError(t, err)
		front.Lag()
		require.NoError(t, a.SetLimit(t.Context(), 1))
		waiting := bubble.Start(t.Context(), of(a, 1))
		waiting.Waits(t)
		time.AfterFunc(time.Second, front.CatchUp)
		holders, err := b.Holders(t.Context())
		require.NoError(t, err)
		require.Len(t, holders, 1)
		require.Equal(t, h.Token(), holders[0].Token)
		release(t, h)
		release(t, waiting.Granted(t, 0))
	})
}

// An operator types text in zkCli. If it were read as four bytes, any of it would grant everyone.
func TestLimitNode_OfText_IsRefused(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, _ *conn.Client) {
		_, err := srv.Create("/limit", nil, zktest.Persistent)
		require.NoError(t, err)
		s := newSemaphore(t, a, 1, semaphore.WithLimitNode("/limit"))
		for _, text := range []string{"1000", "100000", "1000\n", "100\n", " 100", "1e10", "none", "5", "10"} {
			require.NoError(t, srv.Set("/limit", []byte(text)))
			says := fmt.Sprintf("/limit holds the text %q", text)
			_, err = s.Limit(t.Context())
			require.ErrorContains(t, err, says)
			require.ErrorContains(t, err, "zkr limit")
			_, err = s.TryAcquire(t.Context(), 1)
			require.ErrorContains(t, err, says)
			_, err = s.Acquire(t.Context(), 1)
			require.ErrorContains(t, err, says)
		}
		for _, n := range []int{'1'<<24 | '0'<<16 | '0'<<8 | '0', 'a'<<24 | 'b'<<16 | 'c'<<8 | '\n'} {
			require.ErrorContains(t, s.SetLimit(t.Context(), n), fmt.Sprintf("set limit %d", n), "nobody could read it")
			_, err = semaphore.New(a, path, n, semaphore.WithLimitNode("/limit"))
			require.ErrorContains(t, err, fmt.Sprintf("limit %d", n))
			_, err = semaphore.New(a, path, n)
			require.NoError(t, err, "no node holds it")
		}
		for _, n := range []int{1, 1000, 1_000_000, 1_000_000_000, math.MaxInt32} {
			require.NoError(t, s.SetLimit(t.Context(), n))
			limit, err := s.Limit(t.Context())
			require.NoError(t, err)
			require.Equal(t, n, limit)
		}
		release(t, acquire(t, s, 1))
	})
}

// Holders keep their leases, and waiters are granted once the limit is raised.
func TestSetLimit_ToZero_StopsGrants(t *testing.T) {
	pair(t, func(t *testing.T, _ *zktest.Server, a, b *conn.Client) {
		with := semaphore.WithLimitNode("/limit")
		s := newSemaphore(t, a, 2, with)
		h := acquire(t, s, 1)
		require.NoError(t, s.SetLimit(t.Context(), 0))
		waiter := bubble.Start(t.Context(), of(newSemaphore(t, b, 2, with), 1))
		waiter.Waits(t)
		require.NoError(t, h.Err())
		release(t, h)
		waiter.Waits(t)
		require.ErrorContains(t, s.SetLimit(t.Context(), -1), "want between 0")
		require.NoError(t, s.SetLimit(t.Context(), 1))
		release(t, waiter.Granted(t, 0))
	})
}

func TestLimitNode_WithoutANumber_IsAnError(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, _ *conn.Client) {
		_, err := srv.Create("/limit", []byte{3}, zktest.Persistent)
		require.NoError(t, err)
		s := newSemaphore(t, a, 1, semaphore.WithLimitNode("/limit"))
		_, err = s.Limit(t.Context())
		require.ErrorContains(t, err, "/limit holds 1 bytes")
		_, err = s.Acquire(t.Context(), 1)
		require.ErrorContains(t, err, "/limit holds 1 bytes")
		_, err = s.TryAcquire(t.Context(), 1)
		require.ErrorContains(t, err, "/limit holds 1 bytes")
		clean(t, srv)
		require.NoError(t, srv.Set("/limit", []byte{0, 0, 0, 2, 9, 9})) // longer: only the first four count
		release(t, acquire(t, s, 2))
		require.NoError(t, srv.Set("/limit", []byte{255, 255, 255, 255}))
		waiter := bubble.Start(t.Context(), of(s, 1))
		waiter.Waits(t)
		require.NoError(t, s.SetLimit(t.Context(), 1))
		release(t, waiter.Granted(t, 0))
	})
}

// That the node holds the requested limit does not show that this call set it.
func TestSetLimit_ReplyLostAndSetByOthers(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, _ *conn.Client) {
		s := newSemaphore(t, a, 2, semaphore.WithLimitNode("/limit"))
		require.NoError(t, s.SetLimit(t.Context(), 4))
		srv.Intercept(zktest.Match{Op: zktest.OpMulti, Path: "^/limit$"}, zktest.DropReply())
		srv.Intercept(zktest.Match{Op: zktest.OpGetData, Skip: 1}, zktest.Before(func(zktest.Request) {
			assert.NoError(t, srv.Set("/limit", []byte{0, 0, 0, 7}))
		}))
		require.ErrorIs(t, s.SetLimit(t.Context(), 5), zkrecipes.ErrUnknownOutcome)
		limit, err := s.Limit(t.Context())
		require.NoError(t, err)
		require.Equal(t, 7, limit)
	})
}

// The error is returned even if the limit is already the requested one, or if the node cannot be created.
func TestSetLimit_Refused(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, _ *conn.Client) {
		s := newSemaphore(t, a, 2, semaphore.WithLimitNode("/limit"))
		refuse := func(op zktest.Op) {
			srv.Intercept(zktest.Match{Op: op, Path: "^/limit$"}, zktest.Fail(zktest.CodeNoAuth))
		}
		refuse(zktest.OpMulti)
		require.ErrorIs(t, s.SetLimit(t.Context(), 4), zk.ErrNoAuth)
		require.False(t, srv.Exists("/limit"))
		require.NoError(t, s.SetLimit(t.Context(), 4))
		refuse(zktest.OpMulti)
		require.ErrorIs(t, s.SetLimit(t.Context(), 4), zk.ErrNoAuth)
	})
}

// A call does not retry forever.
func TestLimitNode_CannotBeMade(t *testing.T) {
	for _, opt := range []semaphore.Option{semaphore.WithLimitNode("/limit"), semaphore.WithKazoo()} {
		pair(t, func(t *testing.T, srv *zktest.Server, a, _ *conn.Client) {
			s := newSemaphore(t, a, 2, opt)
			srv.Intercept(zktest.Match{Op: zktest.OpGetData, Times: -1}, zktest.Fail(zktest.CodeNoNode))
			refused := srv.Intercept(zktest.Match{Op: zktest.OpCreate, Path: "^(/limit|" + path + ")$", Times: 3},
				zktest.Fail(zktest.CodeNoAuth))
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err := s.Acquire(ctx, 1)
			require.ErrorIs(t, err, zk.ErrNoAuth)
			require.Equal(t, 1, refused.Hits())
		})
	}
}

// If the limit node cannot be read, the error is the server's.
func TestLimitNode_CannotBeRead(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, _ *conn.Client) {
		fixed, err := newSemaphore(t, a, 2).Limit(t.Context())
		require.NoError(t, err)
		require.Equal(t, 2, fixed)
		s := newSemaphore(t, a, 2, semaphore.WithLimitNode("/limit"))
		sync := srv.Intercept(zktest.Match{Op: zktest.OpSync, Times: -1}, zktest.Fail(zktest.CodeNoAuth))
		_, err = s.Limit(t.Context())
		require.ErrorIs(t, err, zk.ErrNoAuth)
		sync.Remove()
		srv.Intercept(zktest.Match{Op: zktest.OpGetData, Path: "^/limit$", Times: -1}, zktest.Fail(zktest.CodeNoAuth))
		_, err = s.Limit(t.Context())
		require.ErrorIs(t, err, zk.ErrNoAuth)
		_, err = s.Acquire(t.Context(), 1)
		require.ErrorIs(t, err, zk.ErrNoAuth)
		clean(t, srv)
		srv.Intercept(zktest.Match{Op: zktest.OpGetData, Path: "^" + path + "$"}, zktest.Fail(zktest.CodeNoAuth))
		_, err = newSemaphore(t, a, 2, semaphore.WithKazoo()).Acquire(t.Context(), 1)
		require.ErrorIs(t, err, zk.ErrNoAuth)
	})
}

// The limit was changed, and the server refuses to return it. Nothing is granted on the old limit, and nothing is left
// behind.
func TestLimitNode_CannotBeReadAgain(t *testing.T) {
	const node = "/limit"
	change := func(t *testing.T, srv *zktest.Server) {
		t.Helper()
		srv.Intercept(zktest.Match{From: zktest.Label("a"), Op: zktest.OpGetData, Path: "^" + node + "$"},
			zktest.Fail(zktest.CodeNoAuth))
		require.NoError(t, srv.Set(node, []byte{0, 0, 0, 9}))
	}
	for name, inside := range map[string]bool{"as the door is given up": false, "while waiting inside": true} {
		t.Run(name, func(t *testing.T) {
			pair(t, func(t *testing.T, srv *zktest.Server, a, b *conn.Client) {
				s := regular(t, a, 3, semaphore.WithLimitNode(node))
				held := acquire(t, newSemaphore(t, b, 3, semaphore.WithLimitNode(node)), 2)
				var try *bubble.Attempt
				if inside {
					try = bubble.Start(t.Context(), of(s, 2))
					try.Waits(t)
					change(t, srv)
				} else {
					srv.Intercept(together, zktest.Before(func(zktest.Request) { change(t, srv) }))
					try = bubble.Start(t.Context(), of(s, 1))
				}
				require.ErrorIs(t, try.Failed(t, 0), zk.ErrNoAuth)
				require.Len(t, srv.Children(leases), 2)
				require.Empty(t, srv.Children(locks))
				release(t, held)
			})
		})
	}
}

// The limit has changed as well and has been read, but that does not replace the count.
func TestAcquire_LeasesCannotBeCountedAgain(t *testing.T) {
	const node = "/limit"
	pair(t, func(t *testing.T, srv *zktest.Server, a, _ *conn.Client) {
		s := regular(t, a, 3, semaphore.WithLimitNode(node))
		srv.Intercept(together, zktest.Before(func(zktest.Request) {
			require.NoError(t, srv.Set(node, []byte{0, 0, 0, 9}))
			srv.Intercept(zktest.Match{Op: zktest.OpGetChildren2, Path: "^" + leases + "$"}, zktest.Fail(zktest.CodeNoAuth))
		}))
		require.ErrorIs(t, bubble.Start(t.Context(), of(s, 1)).Failed(t, 0), zk.ErrNoAuth)
		require.Empty(t, srv.Children(leases))
	})
}

// The leases were within the limit when they were granted.
func TestLimitNode_Lowered_IsNoReasonToWarn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory())
		var log bytes.Buffer
		a := bubble.Dial(t, srv, "a", bubble.Warnings(&log))
		s := newSemaphore(t, a, 3, semaphore.WithLimitNode("/limit"))
		h := acquire(t, s, 3)
		require.NoError(t, s.SetLimit(t.Context(), 1))
		_, err := s.TryAcquire(t.Context(), 1)
		require.ErrorIs(t, err, zkrecipes.ErrLocked)
		synctest.Wait()
		require.Empty(t, log.String())
		release(t, h)
	})
}

// All leases being held causes no warning; only more leases than the limit does.
func TestAcquire_AllLeasesOut_IsNoReasonToWarn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory())
		var log bytes.Buffer
		a := bubble.Dial(t, srv, "a", bubble.Warnings(&log))
		h := acquire(t, newSemaphore(t, bubble.Dial(t, srv, "b"), 3), 3)
		_, err := newSemaphore(t, a, 3).TryAcquire(t.Context(), 1)
		require.ErrorIs(t, err, zkrecipes.ErrLocked)
		synctest.Wait()
		require.Empty(t, log.String())
		release(t, h)
	})
}

// A caller that waits for others to leave already has its lease nodes.
func TestTryAcquire_BesideOneWhoWaitsInside_IsNoReasonToWarn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory())
		var log bytes.Buffer
		a := bubble.Dial(t, srv, "a", bubble.Warnings(&log))
		h := acquire(t, newSemaphore(t, bubble.Dial(t, srv, "b"), 3), 3)
		bubble.Start(t.Context(), of(newSemaphore(t, bubble.Dial(t, srv, "c"), 3), 2)).Waits(t)
		s := newSemaphore(t, a, 3)
		_, err := s.TryAcquire(t.Context(), 1)
		require.ErrorIs(t, err, zkrecipes.ErrLocked)
		// It gives up once the leases have been counted.
		srv.Intercept(zktest.Match{From: zktest.Label("a"), Op: zktest.OpGetChildren2, Path: locks},
			zktest.Before(func(zktest.Request) {
				srv.Refuse(zktest.Label("c"))
				srv.Expire(srv.SessionOf("c"))
			}))
		_, err = s.TryAcquire(t.Context(), 1)
		require.ErrorIs(t, err, zkrecipes.ErrLocked)
		synctest.Wait()
		require.Empty(t, log.String())
		release(t, h)
	})
}

// Only the limit blocks the caller, so the error names no holder.
func TestAcquire_LimitIsZero_NamesNoHolder(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, _ *conn.Client) {
		_, err := srv.Create("/limit", []byte{0, 0, 0, 0}, zktest.Persistent)
		require.NoError(t, err)
		s := newSemaphore(t, a, 3, semaphore.WithLimitNode("/limit"))
		_, err = s.TryAcquire(t.Context(), 1)
		var busy *zkrecipes.BusyError
		require.ErrorAs(t, err, &busy)
		require.Zero(t, busy.Queue)
		require.Zero(t, busy.Holder)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = s.Acquire(ctx, 1)
		var waited *zkrecipes.WaitError
		require.ErrorAs(t, err, &waited)
		require.Zero(t, waited.Holder)
		require.Equal(t, []int{1, 1}, []int{waited.Position, waited.Queue})
	})
}

func TestRevokeAndQueue(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, b *conn.Client) {
		mine, others := newSemaphore(t, a, 3), newSemaphore(t, b, 3, semaphore.WithData([]byte("me")))
		require.NoError(t, mine.Revoke(t.Context()), "no holder")
		queue, err := mine.Queue(t.Context())
		require.NoError(t, err)
		require.Empty(t, queue)
		two, one := acquire(t, mine, 2), acquire(t, others, 1)
		first := bubble.Start(t.Context(), of(others, 2))
		first.Waits(t)
		second := bubble.Start(t.Context(), of(mine, 1))
		second.Waits(t)
		queue, err = mine.Queue(t.Context())
		require.NoError(t, err)
		var ids []string
		for _, p := range queue {
			ids = append(ids, p.Name)
		}
		require.Equal(t, []string{"a", "a", "me", "me", "a"}, ids, "the leases that are held, and the two that wait")
		require.NoError(t, others.Revoke(t.Context()))
		for _, h := range []*zkrecipes.Hold{two, one} {
			<-h.Revoked()
			require.NoError(t, h.Err(), "a request, no more")
			release(t, h)
		}
		release(t, first.Granted(t, 0))
		release(t, second.Granted(t, 0))
		clean(t, srv)
		require.NoError(t, a.Close())
		require.ErrorIs(t, mine.Revoke(t.Context()), zkrecipes.ErrClosed)
		_, err = mine.Queue(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrClosed)
	})
}

// A list that lacks those at the door is not the queue.
func TestQueue_DoorCannotBeRead(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, _ *conn.Client) {
		s := newSemaphore(t, a, 3)
		h := acquire(t, s, 1)
		srv.Intercept(zktest.Match{Op: zktest.OpGetChildren2, Path: "^" + locks + "$"}, zktest.Fail(zktest.CodeNoAuth))
		_, err := s.Queue(t.Context())
		require.ErrorIs(t, err, zk.ErrNoAuth)
		release(t, h)
	})
}

func TestAcquire_OthersHaveALargerLimit_IsReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory())
		var log bytes.Buffer
		a := bubble.Dial(t, srv, "a", bubble.Warnings(&log))
		h := acquire(t, newSemaphore(t, bubble.Dial(t, srv, "b"), 5), 4)
		s := newSemaphore(t, a, 3)
		for range 2 {
			_, err := s.TryAcquire(t.Context(), 1)
			require.ErrorIs(t, err, zkrecipes.ErrLocked)
		}
		synctest.Wait() // for the logger
		require.Equal(t, 1, strings.Count(log.String(), "larger"), log.String())
		require.Contains(t, log.String(), "limit=3 leases=4")
		release(t, h)
	})
}

func TestDo_HoldsForTheBody(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, _ *conn.Client) {
		s := newSemaphore(t, a, 3)
		failed := errors.New("failed")
		require.Equal(t, failed, s.Do(t.Context(), 2, func(context.Context, *zkrecipes.Hold) error {
			require.Len(t, srv.Children(leases), 2)
			return failed
		}))
		require.Empty(t, srv.Children(leases))
	})
}

func TestBadInput_IsRefusedAndNothingIsSent(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, _ *conn.Client) {
		sent := bubble.Requests(srv)
		for _, bad := range []struct {
			path  string
			limit int
			says  string
			opt   semaphore.Option
		}{
			{path, 0, "limit 0", nil},
			{path, -1, "limit -1", nil},
			{"uploads", 1, "uploads", nil},
			{"/", 1, "root", nil},
			{path, 1, "limit node", semaphore.WithLimitNode("relative")},
			{path, 1, "limit node", semaphore.WithLimitNode("/")},
		} {
			var opts []semaphore.Option
			if bad.opt != nil {
				opts = append(opts, bad.opt)
			}
			_, err := semaphore.New(a, bad.path, bad.limit, opts...)
			require.ErrorContains(t, err, bad.says)
			require.ErrorContains(t, err, "semaphore: ")
		}
		if above := uint(math.MaxInt32) + 1; math.MaxInt > math.MaxInt32 { // an int of 32 bits cannot hold such a limit
			_, err := semaphore.New(a, path, int(above)) //nolint:gosec // it fits
			require.ErrorContains(t, err, "limit 2147483648")
		}
		_, err := semaphore.New(a, path, math.MaxInt32)
		require.NoError(t, err)
		s := newSemaphore(t, a, 3)
		for _, n := range []int{0, -1, 4} {
			for name, call := range map[string]func(context.Context, int) (*zkrecipes.Hold, error){
				"Acquire": s.Acquire, "TryAcquire": s.TryAcquire,
			} {
				_, err := call(t.Context(), n)
				require.ErrorContains(t, err, fmt.Sprintf("acquire %s: n is %d", path, n), name)
			}
			require.Error(t, s.Do(t.Context(), n, nil))
		}
		require.ErrorContains(t, s.SetLimit(t.Context(), 0), "limit 0")
		require.ErrorContains(t, s.SetLimit(t.Context(), 5), "WithLimitNode")
		follows := newSemaphore(t, a, 3, semaphore.WithLimitNode("/limit"))
		for _, n := range []int{100_000, math.MaxInt32, math.MaxInt} {
			_, err = follows.Acquire(t.Context(), n)
			require.ErrorIs(t, err, zkrecipes.ErrTooLarge)
			_, err = follows.TryAcquire(t.Context(), n)
			require.ErrorIs(t, err, zkrecipes.ErrTooLarge)
		}
		require.Zero(t, sent.Hits())
		require.NoError(t, a.Close())
		before := sent.Hits()
		_, err = s.Acquire(t.Context(), 1)
		require.ErrorIs(t, err, zkrecipes.ErrClosed)
		_, err = s.TryAcquire(t.Context(), 1)
		require.ErrorIs(t, err, zkrecipes.ErrClosed)
		_, err = s.Holders(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrClosed)
		require.Equal(t, before, sent.Hits())
	})
}

// Curator's testMaxPerSession, testRelease1AtATime and testReleaseInChunks, with faults.
func TestAcquire_RandomQuantities_NeverAboveTheLimitAndInOrder(t *testing.T) {
	seeds := uint64(5)
	if testing.Short() || bubble.Race {
		seeds = 1
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { randomQuantities(t, rand.New(rand.NewPCG(seed, 5))) })
		})
	}
}

func randomQuantities(t *testing.T, random *rand.Rand) {
	const limit = 7
	srv := zktest.Run(t, zktest.InMemory())
	var rec check.Recorder
	var wg sync.WaitGroup
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Minute)
	defer stop()
	for i := range 6 {
		s := newSemaphore(t, bubble.Dial(t, srv, fmt.Sprint(i)), limit)
		for j := range 2 {
			who := fmt.Sprint(i, "-", j)
			mine := rand.New(rand.NewPCG(random.Uint64(), 6))
			wg.Go(func() {
				for ctx.Err() == nil {
					n := mine.IntN(limit) + 1
					op := rec.Call(who, n)
					waiting, cancel := context.WithTimeout(ctx, time.Duration(mine.IntN(60_000))*time.Millisecond)
					h, err := s.Acquire(waiting, n)
					cancel()
					if err != nil {
						op.Failed()
						continue
					}
					op.GrantedHold(h)
					select {
					case <-time.After(time.Duration(mine.IntN(15_000)) * time.Millisecond):
						op.Released()
						_ = h.Release(ctx)
					case <-h.Done():
						op.Lost()
					}
				}
			})
		}
	}
	wg.Go(func() {
		for ctx.Err() == nil {
			time.Sleep(time.Duration(random.IntN(30_000)) * time.Millisecond)
			switch who := zktest.Label(fmt.Sprint(random.IntN(6))); random.IntN(4) {
			case 0:
				srv.Cut(who)
			case 1:
				srv.Restart()
			case 2:
				srv.Stall(who, zktest.Both)
				time.Sleep(time.Duration(random.IntN(20_000)) * time.Millisecond)
				srv.Heal(who)
			case 3:
				srv.Intercept(zktest.Match{Path: "lease-"}, zktest.DropReply())
			}
		}
	})
	wg.Wait()
	holds, err := rec.Holds()
	require.NoError(t, err)
	require.NoError(t, check.Exclusion(holds, limit))
	require.NoError(t, check.Order(holds, limit))
	require.Error(t, check.Exclusion(holds, limit-1), "it was used up at times")
	require.Greater(t, len(holds), 50)
	t.Logf("%d holds", len(holds))
	time.Sleep(time.Minute)
	clean(t, srv)
}

// The limit node is missing, and the context ends while it is being created with the limit.
func TestSetLimit_ContextEndsDuringTheCreate_IsUnknown(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, _ *conn.Client) {
		_, err := srv.Create("/app", nil, zktest.Persistent)
		require.NoError(t, err)
		s := newSemaphore(t, a, 2, semaphore.WithLimitNode("/app/limit"))
		srv.Intercept(zktest.Match{Op: zktest.OpMulti, Path: "^/app/limit$"}, zktest.HoldReply(time.Second))
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		err = s.SetLimit(ctx, 5)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.True(t, srv.Exists("/app/limit"), "it was applied")
		require.ErrorIs(t, err, zkrecipes.ErrUnknownOutcome)
	})
}
