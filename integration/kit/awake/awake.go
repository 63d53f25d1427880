// Package awake measures time, excluding periods in which this process did not run, for limits in tests. A host may stop
// a virtual machine for seconds, and a busy machine may have other processes to run. That must not count as a delay in
// what is measured.
package awake

import (
	"sync"
	"time"
)

// beat is how often the process checks that it runs. If a check is late by more than two beats, it did not.
const beat = 10 * time.Millisecond

var (
	mu     sync.Mutex
	pauses []pause
)

// pause is a time in which this process did not run.
type pause struct{ from, to time.Time }

func init() {
	go func() { // until the process ends
		last := time.Now()
		for range time.NewTicker(beat).C {
			now := time.Now()
			note(last, now)
			last = now
		}
	}()
}

// note records a pause if two checks are too far apart.
func note(last, now time.Time) {
	if now.Sub(last) > 3*beat {
		mu.Lock()
		defer mu.Unlock()
		pauses = append(pauses, pause{last.Add(beat), now})
	}
}

// Between returns how long this process ran between two moments.
func Between(from, to time.Time) time.Duration {
	d := to.Sub(from)
	for _, p := range between(from, to) {
		d -= p.to.Sub(p.from)
	}
	return d
}

// between returns the parts of pauses that lie between two moments. It waits a few beats, because a pause that has just
// ended may not have been recorded yet.
func between(from, to time.Time) (parts []pause) {
	time.Sleep(2 * beat)
	mu.Lock()
	defer mu.Unlock()
	for _, p := range pauses {
		if p.from.Before(from) {
			p.from = from
		}
		if p.to.After(to) {
			p.to = to
		}
		if p.from.Before(p.to) {
			parts = append(parts, p)
		}
	}
	return parts
}

// Longest returns the longest time between two moments in which this process did not run.
func Longest(from, to time.Time) (longest time.Duration) {
	for _, p := range between(from, to) {
		longest = max(longest, p.to.Sub(p.from))
	}
	return longest
}

// Since returns how long this process has run since a moment.
func Since(from time.Time) time.Duration { return Between(from, time.Now()) }
