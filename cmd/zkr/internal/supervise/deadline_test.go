package supervise

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/conn"
)

// walk looks at a deadline repeatedly, as a running process does.
type walk struct {
	*deadline
	start time.Time
	at    time.Duration
}

func newWalk(t *testing.T, timeout, grace, lead time.Duration) *walk {
	t.Helper()
	d, err := newDeadline(timeout, grace, lead)
	require.NoError(t, err)
	return &walk{d, time.Now(), 0}
}

// to returns the verdict at a given time for a hold that is proven until another.
func (w *walk) to(at, until time.Duration) (v verdict) {
	for w.at = min(w.at+100*time.Millisecond, at); ; w.at = min(w.at+100*time.Millisecond, at) {
		if v = w.jump(w.at, until); w.at == at {
			return v
		}
	}
}

// jump simulates a process that does not run in the meantime.
func (w *walk) jump(at, until time.Duration) verdict {
	w.at = at
	return w.look(w.start.Add(at), at, w.start.Add(until))
}

func TestDeadline_StopsThenKills(t *testing.T) {
	w := newWalk(t, 15*time.Second, 3*time.Second, time.Second)
	const until = 10 * time.Second
	assert.Equal(t, goodTime, w.to(0, until))
	assert.Equal(t, goodTime, w.to(5999*time.Millisecond, until))
	assert.Equal(t, timeToStop, w.to(6*time.Second, until))
	assert.Equal(t, timeToStop, w.to(8999*time.Millisecond, until))
	assert.Equal(t, timeToKill, w.to(9*time.Second, until))
	assert.Equal(t, timeToKill, w.jump(time.Hour, until))
	assert.Equal(t, goodTime, w.jump(time.Hour, 2*time.Hour), "an answer moves the deadline on")
}

// TestDeadline_WaitsForAnAnswerAfterAPause: after a pause of 6 s, this process used to stop a program whose session the
// servers had not expired.
func TestDeadline_WaitsForAnAnswerAfterAPause(t *testing.T) {
	const timeout, until = 16 * time.Second, 9 * time.Second
	begin := func() *walk {
		w := newWalk(t, timeout, 4*time.Second, 400*time.Millisecond)
		require.Equal(t, goodTime, w.to(time.Second, until))
		return w
	}
	t.Run("no answer", func(t *testing.T) {
		w := begin()
		assert.Equal(t, goodTime, w.jump(6*time.Second, until))
		assert.Equal(t, goodTime, w.to(6900*time.Millisecond, until))
		assert.Equal(t, timeToStop, w.to(7*time.Second, until), "a sixteenth of the timeout is over")
		assert.Equal(t, "pause of zkr", w.cause(w.start.Add(w.at)))
		assert.Equal(t, timeToKill, w.to(8600*time.Millisecond, until))
	})
	t.Run("an answer, and a proof in time", func(t *testing.T) {
		w := begin()
		assert.Equal(t, goodTime, w.jump(6*time.Second, until))
		assert.Equal(t, goodTime, w.to(10*time.Second, 11*time.Second))
		assert.Equal(t, goodTime, w.to(11*time.Second, 20*time.Second))
		assert.Equal(t, timeToStop, w.to(15700*time.Millisecond, 20*time.Second),
			"half of the timeout after the pause, all is as before")
	})
	t.Run("an answer, and no proof", func(t *testing.T) {
		w := begin()
		assert.Equal(t, goodTime, w.jump(6*time.Second, until))
		assert.Equal(t, goodTime, w.to(10*time.Second, 11*time.Second))
		assert.Equal(t, timeToStop, w.to(10100*time.Millisecond, 11*time.Second), "an eighth of the grace is left")
		assert.Equal(t, timeToKill, w.to(10600*time.Millisecond, 11*time.Second))
	})
	t.Run("a pause to near the deadline", func(t *testing.T) {
		w := begin()
		assert.Equal(t, timeToStop, w.jump(8200*time.Millisecond, until))
		assert.Equal(t, timeToKill, begin().jump(8600*time.Millisecond, until))
	})
}

// TestDeadline_KeepsAGraceThatWasAskedFor: even after a pause, since the program may need the grace, and with --on-loss
// term it gets nothing else.
func TestDeadline_KeepsAGraceThatWasAskedFor(t *testing.T) {
	const timeout, grace, until = 16 * time.Second, 4 * time.Second, 9 * time.Second
	for name, c := range map[string]struct {
		options Options
		want    verdict
	}{
		"default": {Options{Grace: -1, Lead: -1, OnLoss: "kill"}, goodTime},
		"typed":   {Options{Grace: grace, Lead: -1, OnLoss: "kill"}, timeToStop},
		"term":    {Options{Grace: -1, Lead: -1, OnLoss: "term"}, timeToStop},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := c.options.deadline(timeout)
			require.NoError(t, err)
			w := &walk{d, time.Now(), 0}
			require.Equal(t, goodTime, w.to(time.Second, until))
			assert.Equal(t, c.want, w.jump(6*time.Second, until))
		})
	}
}

// TestDeadline_AnAnswerAfterASuspendProvesContactsFromBeforeIt: the clock of the hold stood still for 5 s, that of the
// servers did not.
func TestDeadline_AnAnswerAfterASuspendProvesContactsFromBeforeIt(t *testing.T) {
	d := newWalk(t, 15*time.Second, 3*time.Second, time.Second)
	now := time.Now()
	d.look(now, time.Hour, now.Add(10*time.Second))
	boot := time.Hour + 5*time.Second
	d.look(now, boot, now.Add(13*time.Second))
	assert.Equal(t, 8*time.Second, d.left(now, boot))
	d.look(now, boot, now.Add(15*time.Second))
	assert.Equal(t, 15*time.Second, d.left(now, boot), "the contact is from after the suspend")
}

// TestDeadline_IsNotFreshAfterASuspend: a program started now would be stopped at once.
func TestDeadline_IsNotFreshAfterASuspend(t *testing.T) {
	d := newWalk(t, 15*time.Second, 3*time.Second, time.Second)
	now := time.Now()
	until := now.Add(10 * time.Second)
	d.look(now, time.Hour, until)
	assert.True(t, d.fresh(now, time.Hour))
	d.look(now, time.Hour+5*time.Second, until)
	assert.False(t, d.fresh(now, time.Hour+5*time.Second))
}

func TestDeadline_CountsTheTimeOfASuspendedMachine(t *testing.T) {
	d := newWalk(t, 15*time.Second, 3*time.Second, time.Second)
	now := time.Now()
	until := now.Add(10 * time.Second)
	assert.Equal(t, goodTime, d.look(now, time.Hour, until))
	assert.Equal(t, timeToKill, d.look(now, time.Hour+9*time.Second, until), "the clock of the deadline stood for 9 s")
}

func TestDeadline_RefusesAGraceThatCannotBeKept(t *testing.T) {
	_, err := newDeadline(40*time.Second, 30*time.Second, 650*time.Millisecond)
	require.EqualError(t, err,
		"a grace of 30s and a kill lead of 650ms add up to 30.65s, but a session of 40s leaves only 18s: "+
			"while servers answer, its deadline is at least 0.45 × 40s ahead; shorten --grace, or request 1m10s with "+
			"--session-timeout "+
			"(servers grant at most 20 of their ticks)")
	for _, timeout := range []time.Duration{
		200 * time.Millisecond, time.Second, 4 * time.Second, 15 * time.Second,
		time.Hour,
	} {
		_, err := newDeadline(timeout, timeout/4, defaultLead(timeout))
		require.NoError(t, err, "the defaults suit a session of %v", timeout)
		_, err = newDeadline(enoughFor(timeout, time.Second), timeout, time.Second)
		require.NoError(t, err, "what the message proposes is enough")
	}
}

func TestDeadline_IsStuckWhenNoAnswerMovesIt(t *testing.T) {
	d := newWalk(t, 15*time.Second, time.Second, time.Second)
	now := time.Now()
	d.look(now, 0, now.Add(9*time.Second))
	d.look(now.Add(3*time.Second), 0, now.Add(9*time.Second))
	assert.Equal(t, 3*time.Second, d.stuck(now.Add(3*time.Second)))
	d.look(now.Add(4*time.Second), 0, now.Add(10*time.Second))
	assert.Zero(t, d.stuck(now.Add(4*time.Second)))
}

// TestSupervision_SuspectsADeadlineThatIsClose: while all is well, the deadline is constant for half a timeout after a
// grant, and at least 0.45 of the timeout is left.
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
	}{
		{4500 * time.Millisecond, false},
		{3900 * time.Millisecond, true},
		{3500 * time.Millisecond, true},
		{7 * time.Second, false},
	} {
		s.suspect(now, now.Add(look.left))
		assert.Equal(t, look.suspected, s.suspected, "%v left", look.left)
	}
}
