package supervise

import (
	"log/slog"
	"sync"
	"time"
)

// lateness tells when zkr itself did not run for so long that a kill may have come late. The programs of a runner share one: what is
// told of one of them is not told again of the others, but for what has come since.
type lateness struct {
	events *events
	mu     sync.Mutex
	told   time.Time
}

// look tells of the time from the last look at a program to now, if it is longer than the limit.
func (l *lateness) look(last, now time.Time, limit time.Duration) {
	gap := now.Sub(last)
	if last.IsZero() || gap <= limit || !l.news(now, limit) {
		return
	}
	l.events.say(slog.LevelWarn, "late", fields{"seconds": gap.Seconds()},
		"zkr itself did not run for %v: it was stopped, or the machine is overloaded", gap.Round(time.Millisecond))
}

// news reports whether more than the limit has passed since something was told.
func (l *lateness) news(now time.Time, limit time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.told) <= limit {
		return false
	}
	l.told = now
	return true
}
