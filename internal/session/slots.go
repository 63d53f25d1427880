package session

import (
	"context"
	"fmt"
	"sync"
)

// slots bounds how many requests of calls marked by Bounded are in flight. Even a call that has already returned gives
// its slot back only when its request is answered or the connection is gone: until then the server has the request.
//
// Requests that the library sends for itself take no slot, so pings, syncs, and the grants and releases of recipes
// never wait behind a program's requests. They do not carry a marked context, because only the calls of package conn
// create one.
type slots chan struct{}

type bounded struct{}

// Bounded returns the context for a call whose requests take slots. Without a bound, it returns ctx.
func (c *Config) Bounded(ctx context.Context) context.Context {
	if c.MaxInFlight == 0 || ctx == nil {
		return ctx
	}
	return context.WithValue(ctx, bounded{}, true)
}

// Bounded is [Config.Bounded].
func (s *Session) Bounded(ctx context.Context) context.Context { return s.opts.Bounded(ctx) }

// take waits for a slot. It reports whether the call has taken one, which is false if it needs none. Errors: the
// session's own, or the cause of ctx.
func (t slots) take(ctx context.Context, s *session) (taken bool, err error) {
	if t == nil || ctx.Value(bounded{}) == nil {
		return false, nil
	}
	select {
	case t <- struct{}{}:
		return true, nil
	case <-s.Done():
		return false, s.Err()
	case <-ctx.Done():
		line := fmt.Errorf("waiting for one of %d requests in flight: see WithMaxInFlight", cap(t))
		return false, WithReason(context.Cause(ctx), line)
	}
}

// giveBack never blocks, since the slot was taken.
func (t slots) giveBack() { <-t }

// MostInFlight bounds the requests in flight for one read of many nodes. It is enough to fill the pipe.
const MostInFlight = 64

// InFlight calls f with each number below n, each on its own goroutine and at most MostInFlight at a time, and waits
// for all of them. f must honor a context, so that each wait ends.
func InFlight(n int, f func(i int)) {
	slots := make(chan struct{}, MostInFlight)
	var all sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			f(i)
		})
	}
	all.Wait()
}
