// Package awake measures time without that in which the machine has stood still, for limits in tests. A host may stop a virtual machine
// for seconds, and a busy machine may not run a process for a while. Neither is a delay of what is measured.
package awake

import (
	"sync"
	"time"
)

// beat is how often the process looks whether it runs. A look that is late by as much is no pause.
const beat = 10 * time.Millisecond

var (
	mu     sync.Mutex
	pauses []pause
)

// pause is a time in which this process did not run.
type pause struct{ from, to time.Time }

func init() {
	go func() { // to the end of the process
		last := time.Now()
		for range time.NewTicker(beat).C {
			now := time.Now()
			note(last, now)
			last = now
		}
	}()
}

// note notes a pause if two looks are too far apart.
func note(last, now time.Time) {
	if now.Sub(last) > 2*beat {
		mu.Lock()
		defer mu.Unlock()
		pauses = append(pauses, pause{last.Add(beat), now})
	}
}

// Between returns how long this process ran between two moments. A pause that has just ended may not have been noted yet, so Between
// takes some beats.
func Between(from, to time.Time) time.Duration {
	time.Sleep(2 * beat)
	mu.Lock()
	defer mu.Unlock()
	d := to.Sub(from)
	for _, p := range pauses {
		begin, end := p.from, p.to
		if begin.Before(from) {
			begin = from
		}
		if end.After(to) {
			end = to
		}
		d -= max(end.Sub(begin), 0)
	}
	return d
}

// Since returns how long this process has run since a moment.
func Since(from time.Time) time.Duration { return Between(from, time.Now()) }
