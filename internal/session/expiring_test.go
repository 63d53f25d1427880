package session_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// held keeps the session proven, as a hold does.
func held(t *testing.T, s *session.Session) {
	t.Helper()
	release := s.Retain()
	stop, ok := s.OnLoss(false, func(*zkrecipes.LostError) func() { return nil })
	require.True(t, ok)
	t.Cleanup(func() { stop(); release() })
}

func onExpiring(s *session.Session, lead time.Duration) (warnings *log[time.Duration], stop func()) {
	l := &log[time.Duration]{}
	return l, s.OnExpiring(lead, func() { l.add(time.Until(s.ValidUntil())) })
}

// While the server answers, the deadline moves on and there is no warning. When it stops, each warning comes to the
// millisecond, and before the loss.
func TestOnExpiring_ServerFallsSilent_WarnsInTime(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		s := live(t, dial(t, srv))
		held(t, s)
		losses := onLoss(t, s, false)
		long, _ := onExpiring(s, 3*time.Second)
		short, _ := onExpiring(s, time.Second)
		stopped, stop := onExpiring(s, time.Second)
		time.Sleep(time.Hour)
		require.Empty(t, long.all())
		stop()
		srv.Stall(ours, zktest.Both)
		srv.Refuse(ours)
		<-s.Done()
		require.Equal(t, []time.Duration{3 * time.Second}, long.values())
		require.Equal(t, []time.Duration{time.Second}, short.values())
		require.Len(t, losses.all(), 1)
		require.Empty(t, stopped.all())
		srv.Heal(ours)
	})
}

// A resumption that is not answered moves the deadline back, past what the heartbeat has planned.
func TestOnExpiring_DeadlineMovesBack_WarnsAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		s := live(t, dial(t, srv, conn.WithLeastTimeout(time.Second)))
		held(t, s)
		long, _ := onExpiring(s, 2*time.Second)
		short, _ := onExpiring(s, 500*time.Millisecond)
		time.Sleep(time.Minute + time.Millisecond)
		srv.Intercept(zktest.Match{Op: zktest.OpConnect}, zktest.HoldReply(600*time.Millisecond))
		cut := time.Now()
		srv.Cut(ours)
		time.Sleep(2 * time.Second)
		require.Len(t, long.all(), 1)
		require.Equal(t, cut, long.all()[0].at)
		require.Equal(t, 950*time.Millisecond, long.all()[0].what, "the least timeout, less the margin")
		require.Equal(t, []time.Duration{500 * time.Millisecond}, short.values())
		require.NoError(t, s.Err())
		again, _ := onExpiring(s, 2*time.Second)
		time.Sleep(time.Minute)
		require.Empty(t, again.all(), "answered: the deadline has moved on")
	})
}

func TestOnExpiring_DueAlready_WarnsAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		s := live(t, dial(t, srv))
		held(t, s)
		warned, _ := onExpiring(s, time.Hour)
		synctest.Wait()
		require.Len(t, warned.all(), 1)
	})
}

// The figures in the documentation of Hold.Expiring: how far ahead the deadline is in good health, whenever the grant is.
func TestOnExpiring_GoodHealth_AQuarterIsNeverWarnedOf(t *testing.T) {
	for name, tt := range map[string]struct {
		opts  []conn.Option
		young time.Duration // how long after a grant the deadline may be nearer
	}{
		"tick unknown": {nil, 0},
		"tick known":   {[]conn.Option{conn.WithTickTime(2 * time.Second)}, 0},
		"many ticks":   {[]conn.Option{conn.WithTickTime(500 * time.Millisecond)}, timeout / 6},
		"countless":    {[]conn.Option{conn.WithTickTime(50 * time.Millisecond)}, timeout / 6},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, srv *zktest.Server) {
				s := live(t, dial(t, srv, tt.opts...))
				least := timeout
				for idle := range 100 {
					time.Sleep(time.Duration(idle) * 137 * time.Millisecond)
					require.NoError(t, s.Prove(t.Context()))
					release := s.Retain()
					stop, ok := s.OnLoss(false, func(*zkrecipes.LostError) func() { return nil })
					require.True(t, ok)
					time.Sleep(tt.young)
					for range 1500 {
						least = min(least, time.Until(s.ValidUntil()))
						time.Sleep(10 * time.Millisecond)
					}
					stop()
					release()
				}
				require.Greater(t, least, timeout/4)
			})
		})
	}
}
