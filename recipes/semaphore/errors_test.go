package semaphore_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/semaphore"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Wherever the caller waits, the error names the place. All holders together are the first place.
func TestErrors_NameTheSemaphoreTheHolderAndThePlace(t *testing.T) {
	for layout, opts := range map[string][]semaphore.Option{"Curator's": nil, "kazoo's": {semaphore.WithKazoo()}} {
		t.Run(layout, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := zktest.Run(t, zktest.InMemory())
				ends := make(map[string]chan zkrecipes.AcquireEnd)
				of := func(label string) *semaphore.Semaphore {
					ends[label] = make(chan zkrecipes.AcquireEnd, 1)
					return newSemaphore(t, bubble.Dial(t, srv, label, traced(ends[label])), 2, opts...)
				}
				held := acquire(t, of("a"), 2)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				var waiting []*bubble.Attempt
				labels := []string{"b", "c", "d"}
				for _, label := range labels {
					s := of(label)
					waiting = append(waiting, bubble.Start(ctx, func(ctx context.Context) (*zkrecipes.Hold, error) {
						return s.Acquire(ctx, 1)
					}))
					time.Sleep(time.Second)
				}
				_, err := of("e").TryAcquire(t.Context(), 1)
				var busy *zkrecipes.BusyError
				require.ErrorAs(t, err, &busy)
				require.Equal(t, path, busy.Path)
				require.Equal(t, "a", busy.Holder.Name)
				require.Equal(t, 2, (<-ends["e"]).Position)
				for i, w := range waiting {
					var gaveUp *zkrecipes.WaitError
					require.ErrorAs(t, w.Failed(t, time.Minute), &gaveUp)
					require.Equal(t, path, gaveUp.Path)
					require.Equal(t, 2+i, gaveUp.Position)
					require.Equal(t, "a", gaveUp.Holder.Name)
					require.Equal(t, held.Token(), gaveUp.Holder.Token)
					require.GreaterOrEqual(t, gaveUp.Queue, gaveUp.Position)
					require.Equal(t, gaveUp.Position, (<-ends[labels[i]]).Position)
				}
			})
		})
	}
}

// traced sends the outcome of each acquisition to ends.
func traced(ends chan<- zkrecipes.AcquireEnd) conn.Option {
	return conn.WithTracer(&zkrecipes.Tracer{AcquireEnd: func(_ context.Context, a zkrecipes.AcquireEnd) { ends <- a }})
}

// A caller that is first at the door gives up while its leases are being created, or have just been.
func TestErrors_NoAnswerAboutItsLeases(t *testing.T) {
	create := func(r zktest.Request) bool { return r.Op == zktest.OpMulti || strings.HasPrefix(r.Path, leases+"/") }
	list := func(r zktest.Request) bool { return r.Op == zktest.OpGetChildren2 && r.Path == leases }
	for name, c := range map[string]struct {
		limit, place int
		where        func(zktest.Request) bool
		skip         int
		fault        zktest.Action
	}{
		"not created, enough are left":  {2, 1, create, 0, zktest.Delay(time.Hour)},
		"not created, too few are left": {1, 2, create, 0, zktest.Delay(time.Hour)},
		"created, too few are left":     {1, 2, create, 0, zktest.HoldReply(time.Hour)},
		"not listed, enough are left":   {2, 1, list, 1, zktest.HoldReply(time.Hour)},
		"not listed, too few are left":  {1, 2, list, 1, zktest.HoldReply(time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			pair(t, func(t *testing.T, srv *zktest.Server, a, _ *conn.Client) {
				acquire(t, newSemaphore(t, a, c.limit), 1)
				synctest.Wait()
				ends := make(chan zkrecipes.AcquireEnd, 1)
				s := newSemaphore(t, bubble.Dial(t, srv, "c", traced(ends)), c.limit)
				srv.Intercept(zktest.Match{From: zktest.Label("c"), Where: c.where, Skip: c.skip}, c.fault)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, err := s.Acquire(ctx, 1)
				var gaveUp *zkrecipes.WaitError
				require.ErrorAs(t, err, &gaveUp)
				require.Equal(t, []int{c.place, c.place}, []int{gaveUp.Position, gaveUp.Queue}, gaveUp)
				require.Equal(t, c.place, (<-ends).Position)
			})
		})
	}
}

// The holder has left, but the session of the waiter is not proven in time.
func TestErrors_NotProven(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, b *conn.Client) {
		h := acquire(t, newSemaphore(t, b, 1), 1)
		ctx, cancel := context.WithCancel(t.Context())
		waiter := bubble.Start(ctx, func(ctx context.Context) (*zkrecipes.Hold, error) {
			return newSemaphore(t, a, 1).Acquire(ctx, 1)
		})
		time.Sleep(2 * bubble.Timeout) // the proof has lapsed
		waiter.Waits(t)
		srv.Intercept(zktest.Match{From: zktest.Label("a"), Times: -1, Where: func(r zktest.Request) bool {
			return r.Op == zktest.OpSync || r.Op == zktest.OpMulti
		}}, zktest.Fail(zktest.CodeThrottled))
		require.NoError(t, h.Release(t.Context()))
		waiter.Waits(t)
		cancel()
		var gaveUp *zkrecipes.WaitError
		require.ErrorAs(t, waiter.Failed(t, time.Second), &gaveUp)
		require.Equal(t, []int{1, 1}, []int{gaveUp.Position, gaveUp.Queue}, gaveUp)
	})
}

// If enough leases are left, the door counts rather than the holders of the other leases.
func TestErrors_BehindADeadClientAtTheDoor(t *testing.T) {
	node := []semaphore.Option{semaphore.WithLimitNode("/limit")} // holds 3
	for name, c := range map[string]struct {
		limit        int
		opts         []semaphore.Option
		n            int
		inTheWay     string // the parent
		place, queue int
	}{
		"enough are left":             {3, nil, 2, locks, 2, 2},
		"too few are left":            {3, nil, 3, leases, 3, 1},
		"limit node, enough are left": {1, node, 2, locks, 2, 2},
		"limit node, too few":         {9, node, 3, leases, 3, 1},
	} {
		t.Run(name, func(t *testing.T) {
			pair(t, func(t *testing.T, srv *zktest.Server, a, _ *conn.Client) {
				_, err := srv.Create("/limit", []byte{0, 0, 0, 3}, zktest.Persistent)
				require.NoError(t, err)
				acquire(t, newSemaphore(t, a, 3), 1)
				synctest.Wait()
				foreign(t, srv, locks+"/lock-")
				ends := make(chan zkrecipes.AcquireEnd, 1)
				s := newSemaphore(t, bubble.Dial(t, srv, "c", traced(ends)), c.limit, c.opts...)

				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				_, err = s.Acquire(ctx, c.n)
				var gaveUp *zkrecipes.WaitError
				require.ErrorAs(t, err, &gaveUp)
				require.Contains(t, gaveUp.Holder.Path, c.inTheWay+"/")
				require.Equal(t, []int{c.place, c.place}, []int{gaveUp.Position, gaveUp.Queue})
				require.Equal(t, c.place, (<-ends).Position)

				_, err = s.TryAcquire(t.Context(), c.n)
				var busy *zkrecipes.BusyError
				require.ErrorAs(t, err, &busy)
				require.Contains(t, busy.Holder.Path, c.inTheWay+"/")
				require.Equal(t, c.queue, busy.Queue)
				require.Equal(t, 2, (<-ends).Position)
			})
		})
	}
}

// If no lease is known to block the caller, the error names the first at the door.
func TestErrors_NoLeaseIsKnownToBeInTheWay(t *testing.T) {
	for name, arrange := range map[string]func(t *testing.T, srv *zktest.Server, held *zkrecipes.Hold){
		"the limit cannot be read": func(_ *testing.T, srv *zktest.Server, _ *zkrecipes.Hold) {
			srv.Intercept(zktest.Match{Op: zktest.OpGetData, Path: "^/limit$", Times: -1}, zktest.Fail(zktest.CodeNoAuth))
		},
		"the limit is 0, no lease is out": func(t *testing.T, srv *zktest.Server, held *zkrecipes.Hold) {
			t.Helper()
			require.NoError(t, srv.Set("/limit", []byte{0, 0, 0, 0}))
			release(t, held)
		},
	} {
		t.Run(name, func(t *testing.T) {
			pair(t, func(t *testing.T, srv *zktest.Server, a, b *conn.Client) {
				arrange(t, srv, acquire(t, newSemaphore(t, a, 1, semaphore.WithLimitNode("/limit")), 1))
				synctest.Wait()
				first := foreign(t, srv, locks+"/lock-")
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				_, err := newSemaphore(t, b, 1, semaphore.WithLimitNode("/limit")).Acquire(ctx, 1)
				var gaveUp *zkrecipes.WaitError
				require.ErrorAs(t, err, &gaveUp)
				require.Equal(t, first, gaveUp.Holder.Path)
			})
		})
	}
}

// No option allows another recipe to share the door.
func TestErrors_ForeignContenderAtTheDoor(t *testing.T) {
	for _, name := range []string{"_c_x-latch-", "x__lock__"} {
		pair(t, func(t *testing.T, _ *zktest.Server, a, b *conn.Client) {
			s := newSemaphore(t, a, 2)
			release(t, acquire(t, s, 1))
			_, err := b.Create(t.Context(), locks+"/"+name, nil, zk.FlagEphemeral|zk.FlagSequence)
			require.NoError(t, err)
			_, err = s.Acquire(t.Context(), 1)
			require.ErrorIs(t, err, zkrecipes.ErrForeignContender)
			require.ErrorContains(t, err, "is not named lock-: have one of the two use another path")
		})
	}
}

// The path in the error is that of the semaphore.
func TestErrors_ClientClosed(t *testing.T) {
	pair(t, func(t *testing.T, _ *zktest.Server, a, _ *conn.Client) {
		s := newSemaphore(t, a, 2)
		require.NoError(t, a.Close())
		_, err := s.Acquire(t.Context(), 1)
		require.EqualError(t, err, path+": client closed")
	})
}

// A tracer may derive a context from the caller's, which is therefore checked first.
func TestAcquire_NilContext_IsAnErrorEvenWithATracer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		c := bubble.Dial(t, zktest.Run(t, zktest.InMemory()), "a", conn.WithTracer(&zkrecipes.Tracer{
			AcquireStart: func(ctx context.Context, _ zkrecipes.AcquireStart) context.Context {
				return context.WithValue(ctx, key{}, 1)
			},
		}))
		for _, s := range []*semaphore.Semaphore{newSemaphore(t, c, 2), newSemaphore(t, c, 2, semaphore.WithKazoo())} {
			for _, acquire := range []func(context.Context, int) (*zkrecipes.Hold, error){s.Acquire, s.TryAcquire} {
				_, err := acquire(nil, 1)
				require.ErrorContains(t, err, "context is nil")
			}
		}
	})
}
