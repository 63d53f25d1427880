package lifetime_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/testkit/trial"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func onExpiring(s *session.Session, lead time.Duration) (warnings *trial.Log[time.Duration], stop func()) {
	l := &trial.Log[time.Duration]{}
	return l, s.OnExpiring(lead, func() { l.Add(time.Until(s.ValidUntil())) })
}

// While the server answers, the deadline advances and there is no warning. When it stops, each warning comes on time to
// the millisecond, and before the loss.
func TestOnExpiring_ServerFallsSilent_WarnsInTime(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		s := trial.Live(t, trial.Dial(t, srv))
		trial.Held(t, s)
		losses := trial.OnLoss(t, s, false)
		long, _ := onExpiring(s, 3*time.Second)
		short, _ := onExpiring(s, time.Second)
		stopped, stop := onExpiring(s, time.Second)
		time.Sleep(time.Hour)
		require.Empty(t, long.All())
		stop()
		srv.Stall(trial.Ours, zktest.Both)
		srv.Refuse(trial.Ours)
		<-s.Done()
		require.Equal(t, []time.Duration{3 * time.Second}, long.Values())
		require.Equal(t, []time.Duration{time.Second}, short.Values())
		require.Len(t, losses.All(), 1)
		require.Empty(t, stopped.All())
		srv.Heal(trial.Ours)
	})
}

// An unanswered resumption moves the deadline back to before the heartbeat's next planned step.
func TestOnExpiring_DeadlineMovesBack_WarnsAtOnce(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		s := trial.Live(t, trial.Dial(t, srv, conn.WithLeastTimeout(time.Second)))
		trial.Held(t, s)
		long, _ := onExpiring(s, 2*time.Second)
		short, _ := onExpiring(s, 500*time.Millisecond)
		time.Sleep(time.Minute + time.Millisecond)
		srv.Intercept(zktest.Match{Op: zktest.OpConnect}, zktest.HoldReply(600*time.Millisecond))
		cut := time.Now()
		srv.Cut(trial.Ours)
		time.Sleep(2 * time.Second)
		require.Len(t, long.All(), 1)
		require.Equal(t, cut, long.All()[0].At)
		require.Equal(t, 950*time.Millisecond, long.All()[0].What, "the least timeout, less the margin")
		require.Equal(t, []time.Duration{500 * time.Millisecond}, short.Values())
		require.NoError(t, s.Err())
		again, _ := onExpiring(s, 2*time.Second)
		time.Sleep(time.Minute)
		require.Empty(t, again.All(), "answered: the deadline has moved on")
	})
}

func TestOnExpiring_DueAlready_WarnsAtOnce(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		s := trial.Live(t, trial.Dial(t, srv))
		trial.Held(t, s)
		warned, _ := onExpiring(s, time.Hour)
		synctest.Wait()
		require.Len(t, warned.All(), 1)
	})
}

// These are the figures in the documentation of Hold.Expiring: how far ahead the deadline is in good health, whenever
// the grant is.
func TestOnExpiring_GoodHealth_AQuarterIsNeverWarnedOf(t *testing.T) {
	for name, tt := range map[string]struct {
		opts  []conn.Option
		young time.Duration // how long after a grant the deadline may be closer
	}{
		"tick unknown": {nil, 0},
		"tick known":   {[]conn.Option{conn.WithTickTime(2 * time.Second)}, 0},
		"many ticks":   {[]conn.Option{conn.WithTickTime(500 * time.Millisecond)}, trial.Timeout / 6},
		"countless":    {[]conn.Option{conn.WithTickTime(50 * time.Millisecond)}, trial.Timeout / 6},
	} {
		t.Run(name, func(t *testing.T) {
			trial.Run(t, func(t *testing.T, srv *zktest.Server) {
				s := trial.Live(t, trial.Dial(t, srv, tt.opts...))
				least := trial.Timeout
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
				require.Greater(t, least, trial.Timeout/4)
			})
		})
	}
}

// TestOnExpiring_AskedBetweenTwoHeartbeats_WarnsInTime: the heartbeat wakes for a warning that is due before its next
// planned step.
func TestOnExpiring_AskedBetweenTwoHeartbeats_WarnsInTime(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		s := trial.Live(t, trial.Dial(t, srv))
		trial.Held(t, s)
		time.Sleep(time.Minute)
		srv.Stall(trial.Ours, zktest.Both)
		for range 8 {
			time.Sleep(s.Timeout() / 20)
			due := time.Now().Add(100 * time.Millisecond)
			warnings, stop := onExpiring(s, s.ValidUntil().Sub(due))
			time.Sleep(101 * time.Millisecond)
			require.Len(t, warnings.All(), 1)
			require.Equal(t, due, warnings.All()[0].At)
			stop()
		}
		srv.Heal(trial.Ours)
	})
}
