package session

import (
	"slices"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes"
)

// Age knows how old the answer to a read is at any moment, and whether the client will be notified of the next change.
// It serves views that are shown long after they were read: each gets its freshness when it is shown. It is safe for
// concurrent use.
type Age struct {
	session *session
	down    <-chan struct{} // closed when the connection that was up at the beginning is lost
	watches []*Watch

	mu   sync.Mutex
	asOf time.Time
}

// NewAge is called before the request is sent. If there is no connection at that time, or a different one when the
// answer arrives, the answer is never current and has to be requested again.
func (s *session) NewAge() *Age {
	return &Age{session: s, asOf: time.Now(), down: s.Disconnected()}
}

// Watch adds a watch that the read has set; w may be nil. It is called before the age is shared.
func (a *Age) Watch(w *Watch) {
	if w != nil {
		a.watches = append(a.watches, w)
	}
}

// Freshness returns the freshness of a view that is shown now.
func (a *Age) Freshness() zkrecipes.Freshness {
	return zkrecipes.Freshness{Current: a.Current(), AsOf: a.AsOf()}
}

// Current reports whether the request's connection is still up, and a server has answered within the session timeout.
// It checks the clock: a process that was frozen for longer than the timeout finds out with the first check, and so
// does one that waits longer than that for a large reply. A caller that waits uses LookAgain.
func (a *Age) Current() bool {
	select {
	case <-a.down:
		return false
	default:
		return a.session.Hears()
	}
}

// HasChanged reports whether a watch has fired, so that what was read may have changed.
func (a *Age) HasChanged() bool { return slices.ContainsFunc(a.watches, (*Watch).HasFired) }

// LookAgain returns the time after which a waiting caller has to check Current again even though nothing wakes it: the
// passing of time alone can change Current, and so can an answer to any request after that.
func (a *Age) LookAgain() time.Duration { return a.session.LookAgain() }

// Disconnected returns a channel that is closed when the request's connection is lost.
func (a *Age) Disconnected() <-chan struct{} { return a.down }

// AsOf returns the time of the latest request that is known to agree with what was read. The server sends an event
// before the answer to a later request, so if none of the watches has fired when checked after the latest answer was
// received, that answer had seen no change. Answers on another connection prove nothing.
func (a *Age) AsOf() time.Time {
	asOf := a.session.LastContactOn(a.down)
	if a.HasChanged() {
		asOf = time.Time{}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.watches) > 0 && asOf.After(a.asOf) {
		a.asOf = asOf
	}
	return a.asOf
}
