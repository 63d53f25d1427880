package session_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/trial"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// TestWithMaxInFlight: no more requests than that are in flight, in the order of the calls, and each is sent when one
// before it was answered.
func TestWithMaxInFlight(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c := trial.Dial(t, srv, conn.WithMaxInFlight(3))
		s, err := c.Session(t.Context())
		require.NoError(t, err)
		srv.SetLatency(time.Second)
		var all sync.WaitGroup
		begin := time.Now()
		calls := []func(ctx context.Context) error{
			func(ctx context.Context) error { _, _, err := c.Get(ctx, "/"); return err },
			func(ctx context.Context) error { _, _, err := c.Exists(ctx, "/a"); return err },
			func(ctx context.Context) error { _, err := c.Children(ctx, "/"); return err },
			func(ctx context.Context) error { _, _, err := c.ACL(ctx, "/"); return err },
			func(ctx context.Context) error { return c.Sync(ctx, "/") },
			func(ctx context.Context) error { return c.CreateAll(ctx, "/all", nil) },
			func(ctx context.Context) error { _, err := c.Create(ctx, "/one", nil, conn.Persistent); return err },
			func(ctx context.Context) error {
				_, err := c.CreateProtected(ctx, "/one", nil, conn.Ephemeral)
				return err
			},
			func(ctx context.Context) error { _, err := c.Set(ctx, "/", nil, -1); return err },
			func(ctx context.Context) error { _, err := c.SetACL(ctx, "/", zk.WorldACL(zk.PermAll), -1); return err },
			func(ctx context.Context) error { _, err := c.Multi(ctx, zkrecipes.OpCheck("/", -1)); return err },
			func(ctx context.Context) error { _, _, _, err := s.GetW(ctx, "/"); return err },
			func(ctx context.Context) error { _, _, _, err := s.ExistsW(ctx, "/b"); return err },
			func(ctx context.Context) error { _, _, err := s.ChildrenW(ctx, "/"); return err },
			func(ctx context.Context) error { _, err := s.Create(ctx, "/two", nil, conn.Persistent); return err },
			func(ctx context.Context) error { _, err := s.Multi(ctx, zkrecipes.OpCheck("/", -1)); return err },
		}
		for i, call := range calls {
			all.Go(func() {
				require.NoError(t, call(t.Context()))
				require.Equal(t, time.Duration(i/3+1)*time.Second, time.Since(begin), "call %d", i)
			})
			synctest.Wait() // it waits its turn
		}
		all.Wait()
	})
}

// TestWithMaxInFlight_CallerGone: the server still has its request, so the next call waits. Once the server has
// answered, or the connection is gone, the slot is free.
func TestWithMaxInFlight_CallerGone(t *testing.T) {
	for _, cut := range []bool{false, true} {
		trial.Run(t, func(t *testing.T, srv *zktest.Server) {
			trial.Create(t, srv, "/a", "1")
			c := trial.Dial(t, srv, conn.WithMaxInFlight(2))
			answer := make(chan struct{})
			held := srv.Intercept(zktest.Match{Op: zktest.OpGetData, Path: "^/a$", Times: 2}, zktest.HoldReplyUntil(answer))
			for range 2 {
				_, _, err := c.Get(trial.Within(t, time.Second), "/a")
				require.ErrorIs(t, err, trial.ErrTooLong)
			}
			require.Equal(t, 2, held.Hits())
			more := srv.Intercept(zktest.Match{From: trial.Ours, Path: "^/a$", Times: -1}, zktest.Proceed())
			for name, call := range map[string]func(context.Context) error{
				"read":  func(ctx context.Context) error { _, _, err := c.Get(ctx, "/a"); return err },
				"write": func(ctx context.Context) error { _, err := c.Set(ctx, "/a", nil, -1); return err },
				"all":   func(ctx context.Context) error { return c.DeleteAll(ctx, "/a") },
			} {
				err := call(trial.Within(t, time.Second))
				require.ErrorIs(t, err, trial.ErrTooLong, name)
				require.NotErrorIs(t, err, zkrecipes.ErrUnknownOutcome, name)
				require.ErrorContains(t, err, "waiting for one of 2 requests in flight: see WithMaxInFlight", name)
			}
			require.Zero(t, more.Hits(), "nothing was sent")
			if cut {
				srv.Cut(trial.Ours)
			}
			close(answer)
			for range 5 {
				_, _, err := c.Get(trial.Within(t, time.Second), "/a")
				require.NoError(t, err)
			}
		})
	}
}

// TestWithMaxInFlight_Refused: a call whose request is not sent after all keeps no slot.
func TestWithMaxInFlight_Refused(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c := trial.Dial(t, srv, conn.WithMaxInFlight(1), conn.WithMaxRequestSize(4<<10))
		full := error(nil)
		for i := 0; full == nil; i++ {
			_, full = c.Create(t.Context(), fmt.Sprint("/a-long-name-so-that-few-fit-", i), nil, conn.Ephemeral)
		}
		require.ErrorIs(t, full, zkrecipes.ErrSessionFull)
		_, err := c.Create(t.Context(), "/big", make([]byte, 5<<10), conn.Persistent)
		require.ErrorIs(t, err, zkrecipes.ErrTooLarge)
		_, _, err = c.Get(t.Context(), "/")
		require.NoError(t, err)
	})
}

// TestWithMaxInFlight_SessionOver: a call that waits for a slot learns of the end. A read continues in the next
// session.
func TestWithMaxInFlight_SessionOver(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c := trial.Dial(t, srv, conn.WithMaxInFlight(1))
		s, err := c.Session(t.Context())
		require.NoError(t, err)
		srv.Intercept(zktest.Match{Op: zktest.OpGetData}, zktest.Ignore())
		errs := make(chan error, 3)
		go func() { _, _, err := c.Get(t.Context(), "/"); errs <- err }()
		synctest.Wait()
		go func() { _, _, err := c.Exists(t.Context(), "/"); errs <- err }()
		create := make(chan error)
		go func() { _, err := s.Create(t.Context(), "/a", nil, conn.Persistent); create <- err }()
		synctest.Wait()
		srv.Expire(s.ID())
		err = <-create
		require.ErrorIs(t, err, s.Err())
		require.NotErrorIs(t, err, zkrecipes.ErrUnknownOutcome)
		require.NoError(t, errors.Join(<-errs, <-errs))

		srv.Intercept(zktest.Match{Op: zktest.OpGetData, Times: -1}, zktest.Ignore())
		for range 2 {
			go func() { _, _, err := c.Get(t.Context(), "/"); errs <- err }()
		}
		synctest.Wait()
		require.NoError(t, c.Close())
		require.ErrorIs(t, <-errs, zkrecipes.ErrClosed)
		require.ErrorIs(t, <-errs, zkrecipes.ErrClosed)
	})
}

// TestWithMaxInFlight_DelaysNoHold: a hundred calls wait for the only slot. Meanwhile a lock is acquired, stays proven,
// is written under, and is released, each as fast as without them, and the next caller gets it.
func TestWithMaxInFlight_DelaysNoHold(t *testing.T) {
	const roundTrip = time.Second / 2
	took := map[bool][]time.Duration{}
	for _, busy := range []bool{false, true} {
		trial.Run(t, func(t *testing.T, srv *zktest.Server) {
			trial.Create(t, srv, "/lock", "")
			trial.Create(t, srv, "/a", "1")
			c := trial.Dial(t, srv, conn.WithMaxInFlight(1))
			m, err := mutex.New(c, "/lock")
			require.NoError(t, err)
			other, err := mutex.New(trial.Dial(t, srv), "/lock")
			require.NoError(t, err)
			srv.SetLatency(roundTrip)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var calls sync.WaitGroup
			if busy {
				for range 100 {
					calls.Go(func() {
						for ctx.Err() == nil {
							_, _, _ = c.Get(ctx, "/a")
						}
					})
				}
				synctest.Wait()
			}
			measure := func(f func() error) {
				begin := time.Now()
				require.NoError(t, f())
				took[busy] = append(took[busy], time.Since(begin))
			}
			var h, next *zkrecipes.Hold
			measure(func() (err error) { h, err = m.Lock(ctx); return err })
			time.Sleep(10 * trial.Timeout)
			require.NoError(t, h.Err())
			require.Greater(t, time.Until(h.ValidUntil()), trial.Timeout*2/5)
			measure(func() error { _, err := h.Txn(ctx, zkrecipes.OpSet("/a", []byte("2"), -1)); return err })
			waiting := make(chan error)
			go func() { var err error; next, err = other.Lock(ctx); waiting <- err }()
			time.Sleep(5 * time.Second)
			measure(func() error { return h.Release(ctx) })
			measure(func() error { return <-waiting })
			require.NoError(t, next.Release(ctx))
			cancel()
			calls.Wait()
		})
	}
	require.Equal(t, took[false], took[true])
}

// TestWithMaxInFlight_Pings: a session without holds pings as often as an idle one.
func TestWithMaxInFlight_Pings(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c := trial.Dial(t, srv, conn.WithMaxInFlight(1))
		srv.SetLatency(time.Second / 2)
		pings := trial.Requests(srv, zktest.OpPing)
		ctx, cancel := context.WithTimeout(t.Context(), 10*trial.Timeout)
		defer cancel()
		var calls sync.WaitGroup
		for range 50 {
			calls.Go(func() {
				for ctx.Err() == nil {
					_, _, _ = c.Get(ctx, "/")
				}
			})
		}
		calls.Wait()
		require.InDelta(t, 30, len(pings.All()), 1)
	})
}
