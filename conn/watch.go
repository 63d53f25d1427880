package conn

import "github.com/zkrecipes/zkrecipes/internal/session"

// Watch fires once: at the first change after the read that it came with, or without a change after the connection was lost.
// So a waiter reads again when it fires, and decides by what it reads.
//
// Watches are shared: a session has at most one for each path and kind, for any number of callers. A watch without waiters
// is kept for the next caller.
type Watch session.Watch

// Fired is closed when the watch has fired. For a nil watch it is never closed.
func (w *Watch) Fired() <-chan struct{} { return (*session.Watch)(w).Fired() }
