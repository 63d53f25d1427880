package supervise

import (
	"log/slog"
	"sync"
	"time"
)

// lateness tells when zkr itself did not run for so long that a kill may have come late. All programs of a runner have one, and a
// time in which none of them was looked at is told once.
type lateness struct {
	events *events
	mu     sync.Mutex
	told   time.Time
}

// look tells of the time from the last look at a program to now, if it is longer than the limit.
func (l *lateness) look(last, now time.Time, limit time.Duration) {
	gap := now.Sub(last)
	if last.IsZero() || gap <= limit || !l.first(last, now) {
		return
	}
	l.events.say(slog.LevelWarn, "late", fields{"seconds": gap.Seconds()},
		"zkr itself did not run for %v: it was stopped, or the machine is overloaded", gap.Round(time.Millisecond))
}

// first reports whether nothing has been told since the last look.
func (l *lateness) first(last, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.told.After(last) {
		return false
	}
	l.told = now
	return true
}
