package znode

import (
	"sync/atomic"
	"time"

	"github.com/zkrecipes/zkrecipes"
)

// sections records whether the sections of a queue are so short that saving a round trip per hand-over is worth three
// more requests. The waiters of one session find this out by waiting. Both ways of waiting are safe, so a wrong
// estimate only costs requests or time.
type sections struct{ short atomic.Bool }

// shortSection is the longest section that counts as short, as a multiple of the time it takes to create a contender.
// Creating one takes a round trip, and so does each of the two steps of a lazy hand-over, so an eager one saves an
// eighth or more.
const shortSection = 8

// looksEarly reports whether a waiter that joins now should look early.
func (s *sections) looksEarly(when zkrecipes.HandOver) bool {
	return when == zkrecipes.HandOverEager || when == zkrecipes.HandOverAuto && s.short.Load()
}

// wait is one wait behind several contenders. Behind one, there is nothing to choose.
type wait struct {
	begun time.Time
	ahead int // contenders then
}

// granted records a wait, which may be nil, that has ended with the grant.
func (s *sections) granted(w *wait, creation time.Duration) {
	if w != nil {
		s.short.Store(time.Since(w.begun) <= time.Duration(w.ahead*shortSection)*creation)
	}
}
