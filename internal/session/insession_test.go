package session_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/testkit/trial"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/client"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// TestInSession: only the end of a session leads to the next one. All of these functions fail in a session that has
// ended.
func TestInSession(t *testing.T) {
	refused := &session.OpError{Op: "get", Path: "/n", Err: zk.ErrNoNode}
	for name, tt := range map[string]struct {
		fail  func(s *session.Session, c *client.Client, cancel func()) error
		calls int
		is    error // nil if the next session is tried, and succeeds
	}{
		"a read without an answer": {fail: func(s *session.Session, _ *client.Client, _ func()) error {
			_, _, err := s.Get(context.Background(), "/n")
			return err
		}, calls: 2},
		"what the server has answered": {
			fail:  func(*session.Session, *client.Client, func()) error { return refused },
			calls: 1, is: zk.ErrNoNode,
		},
		"a write in doubt": {fail: func(s *session.Session, _ *client.Client, _ func()) error {
			return errors.Join(zkrecipes.ErrUnknownOutcome, s.Err())
		}, calls: 1, is: zkrecipes.ErrUnknownOutcome},
		"client closed": {fail: func(s *session.Session, c *client.Client, _ func()) error {
			_ = c.Close() // never fails
			return s.Err()
		}, calls: 1, is: zkrecipes.ErrClosed},
		"caller gone": {fail: func(s *session.Session, _ *client.Client, cancel func()) error {
			cancel()
			return s.Err()
		}, calls: 1, is: context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			trial.Run(t, func(t *testing.T, srv *zktest.Server) {
				c := trial.Inner(trial.Dial(t, srv))
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var sessions []int64
				err := c.InSession(ctx, "get", "/n", func(s *session.Session) error {
					if sessions = append(sessions, s.ID()); len(sessions) > 1 {
						return nil
					}
					srv.Expire(s.ID())
					<-s.Done()
					return tt.fail(s, c, cancel)
				})
				require.Len(t, sessions, tt.calls)
				if tt.is == nil {
					require.NoError(t, err)
					require.NotEqual(t, sessions[0], sessions[1])
					return
				}
				require.ErrorIs(t, err, tt.is)
				if tt.is != zkrecipes.ErrUnknownOutcome { //nolint:errorlint // the case of the table
					require.NotErrorIs(t, err, zkrecipes.ErrLost)
					require.ErrorContains(t, err, "get /n: ")
				}
			})
		})
	}
}

// TestAwaitChange: each reason to stop waiting.
func TestAwaitChange(t *testing.T) {
	for name, tt := range map[string]struct {
		happens func(srv *zktest.Server, s *session.Session, change chan struct{}, cancel func())
		told    bool
		is      error
	}{
		"change": {happens: func(_ *zktest.Server, _ *session.Session, change chan struct{}, _ func()) {
			close(change)
		}, told: true},
		"nothing": {happens: func(*zktest.Server, *session.Session, chan struct{}, func()) {}},
		"session over": {happens: func(srv *zktest.Server, s *session.Session, _ chan struct{}, _ func()) {
			srv.Expire(s.ID())
		}, is: zkrecipes.ErrLost},
		"caller gone": {
			happens: func(_ *zktest.Server, _ *session.Session, _ chan struct{}, cancel func()) { cancel() },
			is:      context.Canceled,
		},
	} {
		t.Run(name, func(t *testing.T) {
			trial.Run(t, func(t *testing.T, srv *zktest.Server) {
				s := trial.Live(t, trial.Dial(t, srv))
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				change := make(chan struct{})
				began := time.Now()
				go func() {
					time.Sleep(time.Second)
					tt.happens(srv, s, change, cancel)
				}()
				told, err := s.AwaitChange(ctx, 3*time.Second, nil, nil, change)
				require.Equal(t, tt.told, told)
				require.ErrorIs(t, err, tt.is)
				if tt.is == nil && !tt.told {
					require.Equal(t, 3*time.Second, time.Since(began))
				}
			})
		})
	}
}

// TestAwaitChange_NoChangeIsLeftOut: each of three is noticed, and a fourth is refused.
func TestAwaitChange_NoChangeIsLeftOut(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		s := trial.Live(t, trial.Dial(t, srv))
		changed := make(chan struct{})
		close(changed)
		for i := range 3 {
			changes := make([]<-chan struct{}, i+1)
			changes[i] = changed
			told, err := s.AwaitChange(t.Context(), time.Second, changes...)
			require.True(t, told)
			require.NoError(t, err)
		}
		require.Panics(t, func() {
			_, _ = s.AwaitChange(t.Context(), time.Second, make([]<-chan struct{}, 4)...)
		})
	})
}

// TestRecheckAfter_ManyWait: they read again at a rate that does not grow with their number. A lost event is noticed
// nevertheless.
func TestRecheckAfter_ManyWait(t *testing.T) {
	const waiting, most = 10_000, 200
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		s := trial.Live(t, trial.Dial(t, srv))
		trial.Create(t, srv, "/n", "")
		ctx, cancel := context.WithCancel(t.Context())
		var gone atomic.Int64
		var all sync.WaitGroup
		for range waiting {
			all.Go(func() {
				for {
					_, _, w, err := s.GetW(ctx, "/n")
					if errors.Is(err, zk.ErrNoNode) {
						gone.Add(1)
					}
					if err != nil {
						return
					}
					if _, err := s.AwaitChange(ctx, s.RecheckAfter(), w.Fired()); err != nil {
						return
					}
				}
			})
		}
		time.Sleep(5 * trial.Timeout) // each has read again once, and has therefore seen how many wait
		reads := srv.Intercept(zktest.Match{Op: zktest.OpGetData, Times: -1}, zktest.Proceed())
		time.Sleep(3 * time.Minute)
		require.Less(t, reads.Hits(), 180*most)
		require.Greater(t, reads.Hits(), 180*most*2/3)
		require.Equal(t, 1, srv.LoseWatch(trial.Ours, "/n"))
		require.NoError(t, srv.Delete("/n"))
		time.Sleep(3 * waiting / 2 / most * time.Second)
		require.EqualValues(t, waiting, gone.Load())
		few := s.RecheckAfter()
		require.True(t, 2*trial.Timeout <= few && few <= 3*trial.Timeout, few)
		cancel()
		all.Wait()
	})
}

// TestInFlight: each number is used once, and not too many at a time.
func TestInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 3*session.MostInFlight - 1
		var running, most, calls atomic.Int64
		var each [n]atomic.Int64
		began := time.Now()
		session.InFlight(n, func(i int) {
			calls.Add(1)
			each[i].Add(1)
			if now := running.Add(1); now > most.Load() {
				most.Store(now)
			}
			time.Sleep(time.Second)
			running.Add(-1)
		})
		require.Equal(t, 3*time.Second, time.Since(began))
		require.LessOrEqual(t, most.Load(), int64(session.MostInFlight))
		require.Equal(t, int64(n), calls.Load())
		for i := range each {
			require.Equal(t, int64(1), each[i].Load())
		}
		session.InFlight(0, func(int) { t.Error("called") })
	})
}
