package conn

import "github.com/zkrecipes/zkrecipes/internal/session"

// Watch fires once, at the first change after the read that it came with, or without a change when the connection was
// away in the meantime: whoever waits for it reads again and decides by what it reads.
//
// Watches are shared: within a session there is at most one per path and kind, whatever number of callers wait for it,
// and one that nobody waits for any more is kept for the next.
type Watch session.Watch

// Fired is closed when the watch has fired. That of no watch, nil, never is.
func (w *Watch) Fired() <-chan struct{} { return (*session.Watch)(w).Fired() }
