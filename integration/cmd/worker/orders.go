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

// orders is the newest order given.
type orders struct {
	mu      sync.Mutex
	current order
	changed chan struct{} // closed, and replaced, by every order
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

func (o *orders) is(want order) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.current == want
}

// released returns a channel that is closed when a section is over: after d, or, if it is stuck, with the order to hold.
func (o *orders) released(ctx context.Context, stuck bool, d time.Duration) <-chan struct{} {
	over := make(chan struct{})
	go func() {
		defer close(over)
		if stuck {
			o.await(ctx, func(now order) bool { return now != hold })
		} else {
			pause(ctx, d)
		}
	}()
	return over
}

// rested returns once there is no order to rest.
func (o *orders) rested(ctx context.Context) {
	o.await(ctx, func(now order) bool { return now != rest })
}

func (o *orders) await(ctx context.Context, ok func(order) bool) {
	for {
		o.mu.Lock()
		now, changed := o.current, o.changed
		o.mu.Unlock()
		if ok(now) {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}
