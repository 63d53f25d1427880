package supervise

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/conn"
)

func TestDeadline_StopsThenKills(t *testing.T) {
	d, err := newDeadline(15*time.Second, 3*time.Second, time.Second)
	require.NoError(t, err)
	start := time.Now()
	until := start.Add(10 * time.Second)
	at := func(after time.Duration) verdict { return d.look(start.Add(after), after, until) }
	assert.Equal(t, goodTime, at(0))
	assert.Equal(t, goodTime, at(5999*time.Millisecond))
	assert.Equal(t, timeToStop, at(6*time.Second))
	assert.Equal(t, timeToStop, at(8999*time.Millisecond))
	assert.Equal(t, timeToKill, at(9*time.Second))
	assert.Equal(t, timeToKill, at(time.Hour))
	until = until.Add(time.Hour)
	assert.Equal(t, goodTime, at(9*time.Second), "an answer moves the deadline on")
}

func TestDeadline_CountsTheTimeOfASuspendedMachine(t *testing.T) {
	d, err := newDeadline(15*time.Second, 3*time.Second, time.Second)
	require.NoError(t, err)
	now := time.Now()
	until := now.Add(10 * time.Second)
	assert.Equal(t, goodTime, d.look(now, time.Hour, until))
	assert.Equal(t, timeToKill, d.look(now, time.Hour+9*time.Second, until), "the clock of the deadline stood for 9 s")
}

func TestDeadline_RefusesAGraceThatCannotBeKept(t *testing.T) {
	_, err := newDeadline(40*time.Second, 30*time.Second, 650*time.Millisecond)
	require.EqualError(t, err, "a grace of 30s and a kill lead of 650ms are 30.65s, but a session of 40s leaves only 18s: "+
		"its deadline is at least 0.45 × 40s ahead while servers answer; shorten --grace, or ask for 1m10s with --session-timeout "+
		"(servers grant at most 20 of their ticks)")
	for _, timeout := range []time.Duration{200 * time.Millisecond, time.Second, 4 * time.Second, 15 * time.Second, time.Hour} {
		_, err := newDeadline(timeout, timeout/4, defaultLead(timeout))
		require.NoError(t, err, "the defaults suit a session of %v", timeout)
		_, err = newDeadline(enoughFor(timeout, time.Second), timeout, time.Second)
		require.NoError(t, err, "what the message proposes is enough")
	}
}

func TestDeadline_IsStuckWhenNoAnswerMovesIt(t *testing.T) {
	d, err := newDeadline(15*time.Second, time.Second, time.Second)
	require.NoError(t, err)
	now := time.Now()
	d.look(now, 0, now.Add(9*time.Second))
	d.look(now.Add(3*time.Second), 0, now.Add(9*time.Second))
	assert.Equal(t, 3*time.Second, d.stuck(now.Add(3*time.Second)))
	d.look(now.Add(4*time.Second), 0, now.Add(10*time.Second))
	assert.Zero(t, d.stuck(now.Add(4*time.Second)))
}

// In health the deadline stands for half a timeout after a grant, and the least that is left is 0.45 of the timeout.
func TestSupervision_SuspectsADeadlineThatIsClose(t *testing.T) {
	e, err := newEvents(slog.New(slog.DiscardHandler), -1)
	require.NoError(t, err)
	t.Cleanup(e.close)
	now, timeout := time.Now(), 10*time.Second
	s := &supervision{
		events: e, timeout: timeout, deadline: &deadline{moved: now.Add(-timeout / 2)},
		target: &Target{Paths: []string{"/p"}}, status: func() conn.Status { return conn.Status{} },
	}
	for _, look := range []struct {
		left      time.Duration
		suspected bool
	}{{4500 * time.Millisecond, false}, {3900 * time.Millisecond, true}, {3500 * time.Millisecond, true}, {7 * time.Second, false}} {
		s.suspect(now, now.Add(look.left))
		assert.Equal(t, look.suspected, s.suspected, "%v left", look.left)
	}
}
