package shard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/client"
	"github.com/zkrecipes/zkrecipes/internal/pause"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// These are the times of a worker.
const (
	firstPause = 100 * time.Millisecond // after a call of the function that ended by itself
	lastPause  = 30 * time.Second       // it doubles up to this
	steady     = time.Minute            // a call of the function that lasted this long was a success
	brief      = time.Second            // a hold that was lost this soon is followed by its own pause
	firstDelay = 50 * time.Millisecond  // that pause
	// lastDelay is the most to which firstDelay doubles. It is far below a session timeout, because the shard has no
	// owner in the meantime.
	lastDelay = 500 * time.Millisecond
	refusal   = 5 * time.Minute  // how long a member does not get a shard back that it gave away
	patience  = time.Second      // how long a function that stops holds up the next one
	complaint = 10 * time.Second // a function that takes this long to stop is logged
)

// worker works on one shard, from when the plan gives it to this member until the plan or the member takes it away.
type worker struct {
	stop    context.CancelCauseFunc
	stopped bool          // guarded by member.mu
	done    chan struct{} // closed once it has ended
}

// start starts the worker of a shard, unless there is one. It is called with mu held.
func (m *member) start(shard string) {
	last := m.at[shard]
	if m.stopped || last != nil && !last.stopped {
		return
	}
	ctx, stop := context.WithCancelCause(m.ctx)
	w := &worker{stop: stop, done: make(chan struct{})}
	m.at[shard] = w
	m.workers.Go(func() {
		defer m.ended(shard, w)
		if last != nil {
			<-last.done
		}
		m.work(ctx, shard)
	})
}

func (m *member) ended(shard string, w *worker) {
	close(w.done) // its context has ended, or the client is closed and that of the member ends
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.at[shard] == w {
		delete(m.at, shard)
	}
	m.broadcast()
}

// handOver stops the workers whose shards have moved, one after another, so that as much as possible is served in the
// meantime. A slow one does not hold up the next.
func (m *member) handOver() {
	for {
		var w *worker
		if m.await(m.ctx, func() bool { w = m.nextMoved(); return w != nil }) != nil {
			return
		}
		w.stop(ErrMoved)
		select {
		case <-w.done:
		case <-time.After(patience):
		case <-m.ctx.Done():
			return
		}
	}
}

// nextMoved returns the next worker to stop, or nil. It is called with mu held.
func (m *member) nextMoved() *worker {
	for len(m.moved) > 0 {
		w := m.at[m.moved[0]]
		m.moved = m.moved[1:]
		if w != nil && !w.stopped {
			w.stopped = true
			return w
		}
	}
	return nil
}

// knock waits until a worker may contend for its lock: the current plan must be known and assign the shard to this
// member, and the session must be proven. After an outage the shard may have moved, and contending would be pointless.
//
// Errors: the cause of ctx; ErrClosed.
func (m *member) knock(ctx context.Context, shard string) error {
	may := func() bool { return m.current && m.mine[shard] }
	for {
		if err := m.await(ctx, may); err != nil {
			return err
		}
		proven, err := m.takeTurn(ctx)
		switch {
		case ctx.Err() != nil, errors.Is(err, zkrecipes.ErrClosed):
			return err
		case err != nil:
			_ = session.Sleep(ctx, brief) // the servers refuse the credentials; await checks ctx
			continue
		}
		m.mu.Lock()
		ok := proven && may()
		m.mu.Unlock()
		if ok {
			return context.Cause(ctx)
		}
	}
}

// takeTurn admits one worker after another, and reports whether the session is proven. A member with many shards must
// not flood the server, so takeTurn now and then waits for an answer, which arrives after the answers to earlier
// workers.
func (m *member) takeTurn(ctx context.Context) (proven bool, err error) {
	select {
	case m.gate <- struct{}{}:
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	defer func() { <-m.gate }()
	s, err := (*client.Client)(m.client).Await(ctx)
	if err != nil {
		return false, err
	}
	if m.passed++; m.passed%session.MostInFlight == 0 {
		_ = s.Sync(ctx, m.path) // it only takes time
	}
	err = s.Prove(ctx)
	return err == nil, context.Cause(ctx)
}

// errGaveUp reports that the function has failed too often.
var errGaveUp = errors.New("failed too often")

// trials are the calls of the function for one shard, and the holds that were lost soon. A loss is not a failure.
// trials are copied for a call that may not count.
type trials struct {
	failures int           // in a row
	pause    pause.Growing // after a call
	delay    pause.Growing // after a loss
}

func newTrials() *trials {
	return &trials{pause: *pause.New(firstPause, lastPause, 2), delay: *pause.New(firstDelay, lastDelay, 2)}
}

// lasted records how long a call has lasted, whatever ended it.
func (t *trials) lasted(d time.Duration) {
	if d >= steady {
		t.pause.Reset()
		t.failures = 0
	}
}

// ended records how a call has ended by itself.
func (t *trials) ended(err error) {
	t.failures++
	if err == nil {
		t.failures = 0
	}
}

// lost waits after a hold that was lost soon, so that holds that are deleted again and again cost few requests.
func (t *trials) lost(ctx context.Context, after time.Duration) {
	if after >= brief {
		t.delay.Reset()
		return
	}
	_ = session.Sleep(ctx, t.delay.NextBackOff()) // the caller checks ctx
}

// work acquires the lock of the shard and calls the function under it, until the shard is taken away.
func (m *member) work(ctx context.Context, shard string) {
	t, told := newTrials(), &traced{member: m, shard: shard, now: StateNone}
	told.become(StateWaiting, 0, nil)
	defer func() { told.become(StateNone, 0, context.Cause(ctx)) }()
	lock, err := m.lock(shard)
	if err != nil {
		m.log.Error("shard: the plan has an invalid shard, skipping it",
			"path", m.plan.Path(), "shard", shard, "error", err)
		<-ctx.Done()
		return
	}
	for m.knock(ctx, shard) == nil {
		began := time.Now()
		err := lock.Do(ctx, func(ctx context.Context, h *zkrecipes.Hold) error {
			told.become(StateOwned, h.Token(), nil)
			return m.tend(ctx, shard, h, t)
		})
		if ctx.Err() == nil {
			told.become(StateWaiting, 0, err)
		}
		switch {
		case ctx.Err() != nil:
			return
		case err == nil: // the function has released its hold
			t.ended(nil)
		case errors.Is(err, errGaveUp):
		case errors.Is(err, zkrecipes.ErrLost), errors.Is(err, zkrecipes.ErrAuthFailed): // the lock is not to blame
			t.lost(ctx, time.Since(began))
			continue
		default:
			t.ended(err)
			m.log.Warn("shard: cannot acquire the lock of a shard",
				"path", m.path, "shard", shard, "failures", t.failures, "error", err)
		}
		if t.failures >= m.giveUp {
			m.refuse(shard, err)
			t.failures = 0
		}
		_ = session.Sleep(ctx, t.pause.NextBackOff()) // the loop checks ctx
	}
}

// tend calls the function under a hold until ctx ends. ctx also ends with the hold.
//
// Errors: errGaveUp.
func (m *member) tend(ctx context.Context, shard string, h *zkrecipes.Hold, t *trials) error {
	returned := make(chan struct{})
	defer m.bound(ctx, shard, h, returned)()
	defer close(returned)
	for {
		m.mu.Lock()
		generation := m.generation
		m.mu.Unlock()
		began := time.Now()
		err := m.serve(ctx, &Shard{Hold: h, Name: shard, Generation: generation})
		t.lasted(time.Since(began))
		if ctx.Err() != nil {
			return nil
		}
		// A function may learn of the loss of its hold before ctx does, from a fence. What it returned therefore counts
		// only if the hold outlives the pause, or if the server confirms that it is held.
		next := *t
		next.ended(err)
		if err != nil {
			m.log.Warn("shard: the function of a shard failed",
				"path", m.path, "shard", shard, "failures", next.failures, "error", err)
		}
		if next.failures >= m.giveUp {
			if lost := h.Check(ctx); ctx.Err() != nil || errors.Is(lost, zkrecipes.ErrLost) {
				return nil
			}
			*t = next
			return fmt.Errorf("%w: %w", errGaveUp, err)
		}
		if session.Sleep(ctx, next.pause.NextBackOff()) != nil {
			return nil
		}
		*t = next
	}
}

// bound watches over a function whose context has ended. It releases the hold at the limit, if there is one. It returns
// a function that waits until that is over.
func (m *member) bound(ctx context.Context, shard string, h *zkrecipes.Hold, returned <-chan struct{}) (wait func()) {
	over := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(over)
		var limit <-chan time.Time
		if m.drainLimit > 0 {
			limit = time.After(m.drainLimit)
		}
		late := time.After(complaint)
		for {
			select {
			case <-returned:
				return
			case <-late:
				m.log.Warn("shard: a function is still running although its context is done",
					"path", m.path, "shard", shard, "for", complaint)
			case <-limit:
				m.log.Warn("shard: a function is still running although its context is done, releasing its lock",
					"path", m.path, "shard", shard, "for", m.drainLimit)
				_ = h.Release(ctx) // ctx has ended; the removal continues
			}
		}
	})
	return func() {
		if !stop() {
			<-over
		}
	}
}

// refuse gives a shard away for a while.
func (m *member) refuse(shard string, why error) {
	m.log.Error("shard: giving a shard away because its function or its lock keeps failing here",
		"path", m.path, "shard", shard, "id", m.id, "for", refusal, "error", why)
	m.mu.Lock()
	defer m.mu.Unlock()
	i, refused := slices.BinarySearch(m.presence.Refuses, shard)
	if refused {
		return
	}
	m.say(func(p *presence) { p.Refuses = slices.Insert(p.Refuses, i, shard) })
	m.background.Go(func() {
		if session.Sleep(m.ctx, refusal) != nil {
			return
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		m.say(func(p *presence) {
			p.Refuses = slices.DeleteFunc(p.Refuses, func(other string) bool { return other == shard })
		})
	})
}
