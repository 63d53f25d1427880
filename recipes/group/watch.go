package group

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/recipe"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// WatchOption configures [Group.Watch].
type WatchOption func(*watcher) error

// WithPayloads makes Watch include the members' data and follow changes to it. By default views have no data.
func WithPayloads() WatchOption {
	return func(w *watcher) error {
		w.payloads = true
		return nil
	}
}

// WithSettle debounces Watch: a change is reported once the group has been stable for the quiet duration, or once most
// has elapsed since the first unreported change. By default Watch reports every change immediately. Use WithSettle, for
// example, to get a single view when many members start together. As soon as there is an unreported change, Watch
// yields the last view again with Current set to false.
//
// WithSettle also saves reads, because the list of members is read at most four times per quiet period. As a result, a
// change may be reported up to a quarter of that period later. If members change faster than they are read, the view
// that Watch finally yields is not current.
func WithSettle(quiet, most time.Duration) WatchOption {
	return func(w *watcher) error {
		if quiet <= 0 || most < quiet {
			return fmt.Errorf("settle %v, at most %v: want more than 0, and at most as long as the second", quiet, most)
		}
		w.quiet, w.most = quiet, most
		return nil
	}
}

// Watch yields the current members, then a view after every change. If the caller is slow, it gets the latest view, and
// intermediate ones are skipped. If the connection is lost, no server answers, or a change takes long to read, Watch
// yields the last view again with Current set to false; see the package documentation. Even a current view reflects one
// server, which may lag behind its leader, so if you need the latest state, use [Group.Members].
//
// Iteration ends as described under "Conventions" in package [zkrecipes].
func (g *Group) Watch(ctx context.Context, opts ...WatchOption) iter.Seq2[View, error] {
	return func(yield func(View, error) bool) {
		w := &watcher{group: g, changed: make(chan struct{})}
		if err := recipe.Apply(w, opts); err != nil {
			yield(View{}, fmt.Errorf("group: %w", err))
			return
		}
		if ctx == nil {
			yield(View{}, fmt.Errorf("group: watch: %w", session.ErrNoContext))
			return
		}
		following, cancel := context.WithCancel(ctx)
		done := make(chan struct{})
		if !g.client.Go(func(client context.Context) {
			defer close(done)
			defer context.AfterFunc(client, cancel)()
			w.follow(following)
		}) {
			cancel()
			yield(View{}, &session.OpError{Op: "watch", Path: g.path, Err: zkrecipes.ErrClosed})
			return
		}
		defer func() { // even if yield panics
			cancel()
			<-done
		}()
		w.tell(ctx, yield)
	}
}

// watcher reads the group on a goroutine of the client, and yields the latest view on the caller's goroutine.
type watcher struct {
	group       *Group
	payloads    bool
	quiet, most time.Duration

	mu      sync.Mutex
	newest  *reading
	putOff  bool          // the members have changed since, and have not been read yet
	late    bool          // it was already due when it was read, or the next one takes long
	last    time.Time     // when the members last changed
	first   time.Time     // when they first changed after the last view that was yielded; zero if they have not
	err     error         // why there will be nothing newer
	changed chan struct{} // closed, and replaced, when one of the above changes
}

// follow reads in one session after another. ctx also ends with the client. If it ends because the caller stops, no one
// is left to notify.
func (w *watcher) follow(ctx context.Context) {
	err := w.group.client.InSessions(ctx, "watch", w.group.path,
		func(s *session.Session) error { return w.observe(ctx, s) })
	if ctx.Err() != nil { // the session has ended at the same moment, and either may have been seen first
		err = &session.OpError{Op: "watch", Path: w.group.path, Err: zkrecipes.ErrClosed}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = err
	w.broadcast()
}

// observe reads repeatedly within one session.
func (w *watcher) observe(ctx context.Context, s *session.Session) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	dirty := make(chan struct{}, 1)
	r := &reader{group: w.group, session: s, watching: true, payloads: w.payloads}
	defer func() { s.Unwatch(r.list) }()
	if w.payloads {
		r.arrived = func(e *entry) {
			s.Go(func(ended context.Context) {
				select {
				case <-e.watch.Fired():
					select {
					case dirty <- struct{}{}:
					default:
					}
				case <-ended.Done():
				case <-ctx.Done():
				}
			})
		}
	}
	var changed time.Time // when it was last read because of a change
	for {
		last := w.newest
		outdating := time.AfterFunc(s.Timeout()/8, func() { w.outdate(last, true) })
		now, err := r.read(ctx) // may never return, if members come and go faster than they are read
		slow := !outdating.Stop()
		if err != nil {
			return err
		}
		w.note(&now, (w.quiet > 0 || slow) && now.age.HasChanged()) // if it has, the group is reread, now or later
		isChange, err := awaitChange(ctx, r, dirty)
		if err == nil && isChange {
			err = w.spare(ctx, s, &now, changed.Add(w.quiet/settlingReads))
			changed = time.Now()
		}
		if err != nil {
			return err
		}
	}
}

// awaitChange waits until the members have to be reread, because they have changed or an event may have been lost.
func awaitChange(ctx context.Context, r *reader, dirty <-chan struct{}) (isChange bool, err error) {
	recheck := time.Now().Add(r.session.RecheckAfter())
	for {
		// The list's watch also fires if the connection was lost and restored since the read.
		told, err := r.session.AwaitChange(ctx, time.Until(recheck), r.list.Fired(), dirty)
		switch {
		case err != nil:
			return false, err
		case !told:
			r.doubt()
			return false, nil
		case r.list.HasFired() || r.memberChanged(): // otherwise the member was read since
			return true, nil
		}
	}
}

// settlingReads is how often the members are read per quiet period, at most.
const settlingReads = 4

// spare postpones the next read until a given time, for as long as the connection of the last read is up.
func (w *watcher) spare(ctx context.Context, s *session.Session, last *reading, until time.Time) error {
	if w.quiet == 0 {
		return nil
	}
	w.outdate(last, false)
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-last.age.Disconnected():
		return nil
	case <-s.Done():
		return s.Err()
	case <-ctx.Done():
		return s.Explain(context.Cause(ctx))
	}
}

// outdate records that a view is outdated, unless there is a newer one. If it is late, it is nevertheless yielded once
// it is due.
func (w *watcher) outdate(last *reading, late bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.newest == last {
		w.putOff, w.late = true, w.late || late
		w.broadcast()
	}
}

// note makes a view the newest. It may already be outdated.
func (w *watcher) note(now *reading, outdated bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.newest == nil || !w.newest.view.same(now.view) {
		w.last = time.Now()
		if w.first.IsZero() {
			w.first = w.last
		}
	}
	w.newest, w.putOff, w.late = now, outdated, !time.Now().Before(w.due())
	w.broadcast()
}

// broadcast wakes the caller of Watch. It is called with mu held.
func (w *watcher) broadcast() {
	close(w.changed)
	w.changed = make(chan struct{})
}

// tell yields views to the caller until ctx ends or the caller breaks.
func (w *watcher) tell(ctx context.Context, yield func(View, error) bool) {
	var t told
	for {
		now := w.state()
		switch {
		case ctx.Err() != nil:
			return
		case now.err != nil:
			yield(View{}, now.err)
			return
		}
		if view, ok := w.next(&t, now); ok {
			if !yield(view, nil) {
				return
			}
			continue
		}
		t.wait(ctx, now)
	}
}

// told is the last view that was yielded.
type told struct {
	reading *reading // nil at first
	current bool
	skipped *reading // the view that was skipped since; nil if none was
}

// state is what the watcher knows at a given moment.
type state struct {
	newest       *reading
	putOff, late bool
	err          error
	changed      <-chan struct{}
	due          time.Time
}

func (w *watcher) state() state {
	w.mu.Lock()
	defer w.mu.Unlock()
	return state{w.newest, w.putOff, w.late, w.err, w.changed, w.due()}
}

// next returns the next view to yield, if there is one. There are three kinds:
//
//   - Other members, once they are due. They are not current if they may have changed since they were read.
//   - The members that the caller knows, which are current again.
//   - The last view again, no longer current, because the connection is lost, other members are due, or they take long
//     to read.
func (w *watcher) next(t *told, now state) (View, bool) {
	if now.newest == nil {
		return View{}, false
	}
	view := now.newest.now()
	known, connected := !t.isNew(now), view.Current
	view.Current = connected && !now.putOff
	// next waits for a postponed read, so that its view has a chance to be current. However, the members may change
	// again each time before this goroutine runs, so a view that is late is yielded as it is.
	ready := connected && time.Until(now.due) <= 0 && (!now.putOff || now.late)
	switch {
	case !known && ready && view.Current && t.skips(now.newest):
	case !known && ready, known && view.Current && !t.current:
		w.yielded(now.newest)
		*t = told{reading: now.newest, current: view.Current}
		return view, true
	case t.current && (!known || !view.Current):
		t.current = false
		view = t.reading.now()
		view.Current = false
		return view, true
	case connected && known:
		t.reading = now.newest // it may be from a later connection
		w.yielded(now.newest)  // the change has been undone
	}
	return View{}, false
}

// isNew reports whether the newest view has other members, or other data, than the caller knows.
func (t *told) isNew(now state) bool {
	return t.reading == nil || t.reading != now.newest && !t.reading.view.same(now.newest.view)
}

// skips reports whether the caller skips a view that has changed since it was read, because the next one usually
// arrives within a moment. That one is not skipped as well, because members may change faster than they are read.
func (t *told) skips(newest *reading) bool {
	if t.skipped == nil && newest.age.HasChanged() {
		t.skipped = newest
	}
	return t.skipped == newest
}

// wait waits until there may be a view to yield.
func (t *told) wait(ctx context.Context, now state) {
	var down <-chan struct{}
	var quiet, look <-chan time.Time
	if now.newest != nil {
		look = time.After(now.newest.age.LookAgain())
		if t.current {
			down = now.newest.age.Disconnected()
		}
		if wait := time.Until(now.due); wait > 0 && t.isNew(now) {
			quiet = time.After(wait)
		}
	}
	select {
	case <-now.changed:
	case <-down:
	case <-quiet:
	case <-look:
	case <-ctx.Done():
	}
}

// due returns when the newest view becomes due. It is called with mu held.
func (w *watcher) due() time.Time {
	soonest, latest := w.last.Add(w.quiet), w.first.Add(w.most)
	if latest.Before(soonest) {
		return latest
	}
	return soonest
}

// yielded records that a view is being yielded.
func (w *watcher) yielded(told *reading) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.first = time.Time{}
	if !w.newest.view.same(told.view) { // it has changed again in the meantime
		w.first = w.last
	}
}
