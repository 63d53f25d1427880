package client_test

import (
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/testkit/trial"

	"github.com/cenkalti/backoff/v4"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func TestStatus_ThroughAnOutage(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		board := trial.NewSwitchboard(srv.DialAs(trial.Label))
		start := time.Now()
		c := trial.Dial(t, srv, conn.WithDialer(board.Dial))
		s := trial.Live(t, c)
		synctest.Wait()
		require.Equal(t, conn.Status{
			State: zkrecipes.Connected, Since: start, Server: srv.Addr(), Session: s.ID(), Timeout: trial.Timeout,
			ValidUntil: s.ValidUntil(),
			LastAnswer: start,
		}, c.Status())

		stop, ok := s.OnLoss(false, func(*zkrecipes.LostError) func() { return nil })
		require.True(t, ok)
		srv.SetLatency(20 * time.Millisecond)
		require.NoError(t, c.Sync(t.Context(), "/"))
		require.Equal(t, 20*time.Millisecond, c.Status().RoundTrip)
		require.Equal(t, time.Now(), c.Status().LastAnswer)
		require.Equal(t, 1, c.Status().Holds)
		stop()
		require.Zero(t, c.Status().Holds)

		time.Sleep(time.Minute)
		heard := c.Status().LastAnswer
		board.Connect(trial.Refuse)
		srv.Cut(trial.Ours)
		synctest.Wait()
		cut, st := time.Now(), c.Status()
		require.Equal(t, zkrecipes.Suspended, st.State)
		require.Equal(t, cut, st.Since)
		require.Empty(t, st.Server)
		require.Equal(t, s.ID(), st.Session)
		require.EqualError(t, st.LastError, "connect to "+srv.Addr()+": connection refused")
		require.ErrorIs(t, st.LastError, syscall.ECONNREFUSED)
		require.Equal(t, cut, st.LastErrorAt)

		<-s.Done()
		synctest.Wait()
		st = c.Status()
		require.Equal(t, zkrecipes.Lost, st.State)
		require.Zero(t, st.Session)
		require.Zero(t, st.Timeout)
		require.Zero(t, st.ValidUntil)
		require.Equal(t, heard, st.LastAnswer)
		time.Sleep(time.Minute)
		require.Equal(t, heard, c.Status().LastAnswer, "also when the next session has begun to connect")

		board.Connect(srv.DialAs(trial.Label))
		next := trial.Live(t, c)
		synctest.Wait()
		st = c.Status()
		require.Equal(t, next.ID(), st.Session)
		require.Equal(t, zkrecipes.Connected, st.State)
		require.Error(t, st.LastError, "stays")

		require.NoError(t, c.Close())
		require.Equal(t, zkrecipes.Closed, c.Status().State)
		require.NotErrorIs(t, c.Status().LastError, zkrecipes.ErrClosed, "which is no failure")
	})
}

func TestStatus_ConnectionEnds_NamesServerAndCause(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c := trial.Dial(t, srv)
		srv.Cut(trial.Ours)
		time.Sleep(time.Second)
		require.Equal(t, zkrecipes.Connected, c.Status().State)
		require.ErrorContains(t, c.Status().LastError, "connection to "+srv.Addr()+": ")
		srv.Expire(srv.SessionOf(trial.Label))
		time.Sleep(time.Second)
		var lost *zkrecipes.LostError
		require.ErrorAs(t, c.Status().LastError, &lost)
		require.Equal(t, zkrecipes.LossExpired, lost.Reason)
	})
}

// An event is not an answer: it does not show how long the server takes.
func TestStatus_Event_IsNoAnswer(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		trial.Create(t, srv, "/a", "")
		c := trial.Dial(t, srv)
		_, _, w, err := trial.Live(t, c).GetW(t.Context(), "/a")
		require.NoError(t, err)
		before := c.Status()
		time.Sleep(time.Second)
		require.NoError(t, srv.Set("/a", nil))
		require.True(t, trial.Fired(w))
		require.Equal(t, before, c.Status())
	})
}

// A session that has just ended belongs to the state until the state changes.
func TestStatus_WhileTheSessionEnds_StateAndSessionAgree(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c := trial.Dial(t, srv)
		s := trial.Live(t, c)
		var during conn.Status
		_, ok := s.OnLoss(false, func(*zkrecipes.LostError) func() {
			during = c.Status()
			return nil
		})
		require.True(t, ok)
		s.Expired(nil)
		require.Equal(t, zkrecipes.Connected, during.State)
		require.Equal(t, s.ID(), during.Session)
		require.Zero(t, during.Holds)
	})
}

// One session follows another while the status is read.
func TestStatus_WhileSessionsFollowEachOther_StateAndSessionAgree(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		changes := &trial.Log[zkrecipes.StateChange]{}
		c := trial.Dial(t, srv, conn.WithBackOff(func() conn.BackOff { return &backoff.ZeroBackOff{} }),
			conn.WithTracer(&zkrecipes.Tracer{State: changes.Add}))
		read := &trial.Log[conn.Status]{}
		for range 1000 {
			s := trial.Live(t, c)
			time.Sleep(time.Millisecond) // the next session comes up later, which tells the two apart
			var readers sync.WaitGroup
			for range 2 {
				readers.Go(func() {
					for range 50 {
						read.Add(c.Status())
					}
				})
			}
			s.Expired(nil)
			readers.Wait()
		}
		ids := map[time.Time]int64{}
		for _, change := range changes.Values() {
			if change.To == zkrecipes.Connected {
				ids[change.At] = change.Session
			}
		}
		for _, st := range read.Values() {
			if st.State == zkrecipes.Connected {
				require.Equal(t, ids[st.Since], st.Session)
			} else {
				require.Zero(t, st.Session)
			}
		}
	})
}
