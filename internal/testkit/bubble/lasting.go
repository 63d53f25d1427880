package bubble

import "context"

// Lasting is a context that never ends. It counts the functions that wait for its end, so that a test can see what was
// left registered on it.
type Lasting struct {
	context.Context
	done    chan struct{}
	waiting int
}

// Last returns a context that has the values of ctx and never ends.
func Last(ctx context.Context) *Lasting {
	return &Lasting{Context: context.WithoutCancel(ctx), done: make(chan struct{})}
}

// Done returns a channel that is never closed.
func (l *Lasting) Done() <-chan struct{} { return l.done }

// AfterFunc is called by package context for each function that waits for the end.
func (l *Lasting) AfterFunc(func()) (stop func() bool) {
	l.waiting++
	return func() bool {
		l.waiting--
		return true
	}
}

// Waiting returns how many functions are waiting for the end.
func (l *Lasting) Waiting() int { return l.waiting }
