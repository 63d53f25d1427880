package session_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/testkit/trial"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// A server withholds an event, and uses up the watch, if the client may not read the node at that moment.
func TestWatch_SpentInSilence_IsSetAgainByTheNextCaller(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		trial.Create(t, srv, "/a", "")
		s := trial.Live(t, trial.Dial(t, srv))
		_, _, first, err := s.GetW(t.Context(), "/a")
		require.NoError(t, err)
		require.Equal(t, 1, srv.LoseWatch(trial.Ours, "/a"))
		_, _, second, err := s.GetW(t.Context(), "/a")
		require.NoError(t, err)
		require.NoError(t, srv.Set("/a", nil))
		synctest.Wait()
		require.True(t, second.HasFired())
		require.True(t, first.HasFired(), "it is the same")
	})
}

// The read of the first caller is in flight for an hour.
func TestWatch_SecondCaller_ReturnsWithItsContext(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		trial.Create(t, srv, "/a", "")
		s := trial.Live(t, trial.Dial(t, srv))
		srv.Intercept(zktest.Match{Op: zktest.OpGetData, Times: -1}, zktest.Ignore())
		for range 2 {
			go func() { _, _, _, _ = s.GetW(t.Context(), "/a") }()
			synctest.Wait()
		}
		_, _, _, err := s.GetW(trial.Within(t, time.Second), "/a")
		require.ErrorIs(t, err, trial.ErrTooLong)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.Zero(t, trial.After(func() { _, _, _, err = s.GetW(ctx, "/a") }))
		require.ErrorIs(t, err, context.Canceled)
	})
}

// A read with a watch fails after another caller has set the watch on the same path.
func TestWatch_SettingFails_LeavesWhatOthersHaveSet(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		trial.Create(t, srv, "/a", "")
		s := trial.Live(t, trial.Dial(t, srv))
		for _, overtaken := range []bool{true, false} {
			ctx, cancel := context.WithCancel(t.Context())
			failed := make(chan error)
			// It is about to ask again.
			srv.Intercept(zktest.Match{Op: zktest.OpGetData, Path: "^/a$"}, zktest.Fail(zktest.CodeThrottled))
			go func() {
				_, _, _, err := s.GetW(ctx, "/a")
				failed <- err
			}()
			synctest.Wait()
			// The one the failing caller claimed has fired, and the next is a new one.
			if overtaken {
				require.Equal(t, 1, srv.SendEvent(trial.Ours, zktest.NodeDataChanged, "/a"))
				synctest.Wait()
			}
			_, _, w, err := s.GetW(t.Context(), "/a")
			require.NoError(t, err)
			cancel()
			require.ErrorIs(t, <-failed, context.Canceled)
			require.False(t, w.HasFired())
			require.NoError(t, srv.Set("/a", nil))
			synctest.Wait()
			require.True(t, w.HasFired(), "overtaken: %v", overtaken)
		}
	})
}

// Watches that were never set are not kept.
func TestWatch_MissingNodes_AreForgotten(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		s := trial.Live(t, trial.Dial(t, srv))
		for _, path := range []string{"/a", "/b", "/c"} {
			_, _, _, err := s.GetW(t.Context(), path)
			require.ErrorIs(t, err, zk.ErrNoNode)
		}
		require.Zero(t, s.WatchesKept())
		require.Zero(t, trial.Watches(srv))
	})
}

// A read is served after a removal, and its watch is fired by the answer to that removal, which arrives first. When its
// caller dropped it, the watch stayed on the server.
func TestUnwatch_FiredByAnEarlierRemoval_IsRemoved(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		trial.Create(t, srv, "/a", "")
		s := trial.Live(t, trial.Dial(t, srv))
		_, _, first, err := s.GetW(t.Context(), "/a")
		require.NoError(t, err)
		srv.SetLatency(time.Millisecond)
		s.Unwatch(first)
		_, _, second, err := s.GetW(t.Context(), "/a")
		require.NoError(t, err)
		require.True(t, second.HasFired())
		require.Equal(t, 1, trial.Watches(srv))
		s.Unwatch(second)
		time.Sleep(time.Second)
		require.Zero(t, trial.Watches(srv))
	})
}

// A caller reads again, drops what it had, and what it had fires meanwhile. That removed the watch of the second read, so
// the caller read three times more often than the node changed.
func TestUnwatch_OldWatchFiresDuringTheNextRead_RemovesNothing(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		trial.Create(t, srv, "/a", "")
		s := trial.Live(t, trial.Dial(t, srv))
		read := func() *session.Watch {
			_, _, w, err := s.GetW(t.Context(), "/a")
			require.NoError(t, err)
			return w
		}
		first := read()
		srv.Intercept(zktest.Match{Op: zktest.OpGetData}, zktest.Before(func(zktest.Request) {
			require.NoError(t, srv.Set("/a", nil))
		}))
		removals := srv.Intercept(zktest.Match{Op: zktest.OpRemoveWatches, Times: -1}, zktest.Proceed())
		second := read()
		s.Unwatch(first)
		require.True(t, second.HasFired())
		third := read()
		s.Unwatch(second)
		require.False(t, third.HasFired())
		require.Zero(t, removals.Hits())
		require.Equal(t, 1, trial.Watches(srv))
		s.Unwatch(third)
		require.Zero(t, trial.Watches(srv))
	})
}

// The watch of a read fires before the server serves the read. When its caller dropped it, the watch stayed on the
// server.
func TestUnwatch_FiredBeforeItsRead_IsRemoved(t *testing.T) {
	for name, fire := range map[string]func(t *testing.T, srv *zktest.Server, s *session.Session){
		"by a new connection": func(t *testing.T, srv *zktest.Server, _ *session.Session) {
			t.Helper()
			trial.CutOff(srv, trial.Ours)
			time.AfterFunc(time.Second, func() { srv.Accept(trial.Ours) })
		},
		"by a change": func(t *testing.T, srv *zktest.Server, s *session.Session) {
			t.Helper()
			_, _, _, err := s.GetW(t.Context(), "/a")
			require.NoError(t, err)
			srv.Intercept(zktest.Match{Op: zktest.OpGetData}, zktest.Before(func(zktest.Request) {
				require.NoError(t, srv.Set("/a", nil))
			}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			trial.Run(t, func(t *testing.T, srv *zktest.Server) {
				trial.Create(t, srv, "/a", "")
				s := trial.Live(t, trial.Dial(t, srv))
				fire(t, srv, s)
				_, _, w, err := s.GetW(t.Context(), "/a")
				require.NoError(t, err)
				require.True(t, w.HasFired())
				require.Equal(t, 1, trial.Watches(srv))
				s.Unwatch(w)
				require.Zero(t, trial.Watches(srv))
			})
		})
	}
}
