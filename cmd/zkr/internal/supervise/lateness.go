package supervise

import (
	"log/slog"
	"sync"
	"time"
)

// lateness reports when zkr itself did not run for so long that a kill may have been late. The programs of a runner
// share one, so that a gap is reported once; a gap is reported again only if more than the limit of it is new. The
// delay is zkr's own, so the report names no shard.
type lateness struct {
	events   *events
	mu       sync.Mutex
	from, to time.Time // of the gap that was reported last
}

// look reports the time from the last check of a program to now, if it exceeds the limit.
func (l *lateness) look(last, now time.Time, limit time.Duration) {
	gap := now.Sub(last)
	if last.IsZero() || gap <= limit || !l.news(last, now, limit) {
		return
	}
	l.events.say(slog.LevelWarn, "late", fields{"seconds": gap.Seconds()},
		"zkr itself did not run for %v: it was stopped, or the machine is overloaded", gap.Round(time.Millisecond))
}

// news reports whether more than the limit of a gap lies outside the gap that zkr reported last.
func (l *lateness) news(last, now time.Time, limit time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if max(l.from.Sub(last), 0)+max(now.Sub(l.to), 0) <= limit {
		return false
	}
	l.from, l.to = last, now
	return true
}
