package bubble

import "context"

// Lasting is a context that lives as long as the program. It counts the functions that wait for its end, so that a test sees
// what stays behind on it.
type Lasting struct {
	context.Context
	done    chan struct{}
	waiting int
}

// Last returns a context with the values of ctx that does not end.
func Last(ctx context.Context) *Lasting {
	return &Lasting{Context: context.WithoutCancel(ctx), done: make(chan struct{})}
}

// Done returns a channel that is never closed.
func (l *Lasting) Done() <-chan struct{} { return l.done }

// AfterFunc is called by the package context for each function that must run at the end.
func (l *Lasting) AfterFunc(func()) (stop func() bool) {
	l.waiting++
	return func() bool {
		l.waiting--
		return true
	}
}

// Waiting returns how many functions wait for the end.
func (l *Lasting) Waiting() int { return l.waiting }
