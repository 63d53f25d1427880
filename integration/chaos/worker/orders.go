package main

import (
	"bufio"
	"context"
	"io"
	"sync"
	"time"
)

type order string

const (
	work order = "work"
	hold order = "hold"
	rest order = "rest"
)

// orders is the newest order.
type orders struct {
	mu      sync.Mutex
	current order
	changed chan struct{} // closed and replaced by every order
}

// listen reads orders until the input ends, then calls stop.
func listen(in io.Reader, stop func()) *orders {
	o := &orders{current: work, changed: make(chan struct{})}
	go func() {
		for lines := bufio.NewScanner(in); lines.Scan(); {
			o.mu.Lock()
			o.current = order(lines.Text())
			close(o.changed)
			o.changed = make(chan struct{})
			o.mu.Unlock()
		}
		stop()
	}()
	return o
}

// holding returns a channel that the next order closes, if the newest order is "hold". Otherwise it returns nil.
func (o *orders) holding() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.current != hold {
		return nil
	}
	return o.changed
}

// released returns a channel that is closed when a section is over: after d or, if stuck, with the next order.
func released(ctx context.Context, stuck <-chan struct{}, d time.Duration) <-chan struct{} {
	over := make(chan struct{})
	go func() {
		defer close(over)
		if stuck == nil {
			pause(ctx, d)
			return
		}
		select {
		case <-stuck:
		case <-ctx.Done():
		}
	}()
	return over
}

// rested returns once the newest order is not "rest".
func (o *orders) rested(ctx context.Context) {
	for {
		o.mu.Lock()
		now, changed := o.current, o.changed
		o.mu.Unlock()
		if now != rest {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// untilRest returns a context that ends when the newest order is "rest".
func (o *orders) untilRest(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		for {
			o.mu.Lock()
			now, changed := o.current, o.changed
			o.mu.Unlock()
			if now == rest {
				cancel()
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	}()
	return ctx, cancel
}
