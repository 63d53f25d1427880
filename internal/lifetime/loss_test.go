package lifetime

import (
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/liveness"
)

// lapsed returns a session whose proof ran out unnoticed, as in a process that was frozen. Servers still answer.
func lapsed() (l *Lifetime, until time.Time) {
	l = &Lifetime{
		client: &alone{why: errCut}, opts: &Config{}, ensemble: &Ensemble{},
		callbacks: map[*lossCallback]struct{}{}, wake: make(chan struct{}, 1), up: make(chan struct{}),
	}
	now := time.Now()
	l.upkeep.Connected(now.Add(-2*time.Hour), now.Add(-2*time.Hour), time.Hour)
	l.upkeep.Answered(now, now, liveness.AnyServer)
	return l, l.upkeep.ValidUntil()
}

// A hold on a session that is not proven alive is refused. The heartbeat makes that rare: only a process that was
// frozen has a connection and no proof.
func TestOnLoss_ProofRunOut_IsRefused(t *testing.T) {
	t.Parallel()
	l, _ := lapsed()
	_, ok := l.OnLoss(false, func(*zkrecipes.LostError) func() { t.Error("told, although refused"); return nil })
	require.False(t, ok)
	l.upkeep.Connected(time.Now(), time.Now(), time.Hour)
	l.answered(time.Now(), time.Now(), liveness.Quorum)
	stop, ok := l.OnLoss(false, func(*zkrecipes.LostError) func() { return nil })
	require.True(t, ok)
	stop()
}

// The clock, an answer that arrives too late, and a resumption end the holds, with the deadline as the time of the
// loss.
func TestOnLoss_ProofRunsOut_IsTold(t *testing.T) {
	t.Parallel()
	for name, look := range map[string]func(*Lifetime, time.Time){
		"clock": func(l *Lifetime, now time.Time) { l.heartbeat(now) },
		"late answer": func(l *Lifetime, now time.Time) {
			later := now.Add(time.Hour / 2) // long enough after the answer in lapsed to confirm it
			l.answered(later, later, liveness.Quorum)
			require.True(t, l.ValidUntil().After(now))
		},
		"resumption": func(l *Lifetime, now time.Time) { l.takeTimeout(now, time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, until := lapsed()
			var told []*zkrecipes.LostError
			l.callbacks[&lossCallback{f: func(e *zkrecipes.LostError) func() {
				told = append(told, e)
				require.Equal(t, until, l.ValidUntil(), "a hold that is used now must see that its deadline has passed")
				return nil
			}}] = struct{}{}
			look(l, time.Now())
			require.Len(t, told, 1)
			require.Equal(t, zkrecipes.LossDeadline, told[0].Reason)
			require.Equal(t, until, told[0].At)
			require.ErrorIs(t, told[0], errCut, "what was in the way")
		})
	}
}

// onWrite is called when something is logged.
type onWrite func()

func (f onWrite) Write(text []byte) (int, error) {
	f()
	return len(text), nil
}

// A connection is lost before a sync is sent, and the next one comes up before the sync has failed. The barrier that
// goes out with the sync is then still due.
func TestSendSync_WhileConnecting_BarrierStaysDue(t *testing.T) {
	t.Parallel()
	l, _ := lapsed()
	now := time.Now()
	l.upkeep.Connected(now, now, time.Hour) // resumes the session
	l.callbacks[&lossCallback{}] = struct{}{}
	raw, peer := net.Pipe()
	t.Cleanup(func() { _ = peer.Close() })
	l.connection = connectionOf(t, l, raw)
	var due bool
	comeUp := sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		close(l.up)
		due = l.wantsResumptionProof()
	})
	failed := slog.NewTextHandler(onWrite(comeUp), &slog.HandlerOptions{Level: slog.LevelDebug})
	l.opts.Log = slog.New(failed)
	l.sendSync(t.Context())
	require.True(t, due)
}
