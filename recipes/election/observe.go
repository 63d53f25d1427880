package election

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/znode"
)

// Leadership is a view: which candidate leads, or that there is none.
type Leadership struct {
	// Leader is the candidate at the head of the queue.
	Leader zkrecipes.Participant
	// None says that there is no candidate; Leader is then empty.
	None bool
	// Current says that the client is connected and will be told of the next change. If it is false, the leader may have
	// changed since AsOf.
	Current bool
	// AsOf is the local time of the newest request whose answer agrees with this view.
	AsOf time.Time
}

// same reports whether a caller that was told of l need not be told of now.
func (l Leadership) same(now Leadership) bool {
	return l.Leader == now.Leader && l.None == now.None && l.Current == now.Current
}

// Leader returns the leader, as new as this call: the candidate at the head of the line, which leads, or is about to
// find out that it does.
//
// Errors: ErrNoLeader if there is no candidate; the cause of ctx; ErrClosed; otherwise what the server said.
func (e *Election) Leader(ctx context.Context) (zkrecipes.Participant, error) {
	if err := e.queue.Client().Sync(ctx, e.queue.Path()); err != nil {
		return zkrecipes.Participant{}, err
	}
	for {
		s, err := e.queue.Client().Session(ctx)
		if err != nil {
			return zkrecipes.Participant{}, err
		}
		leader, found, _, err := e.queue.Head(ctx, s)
		switch {
		case err == nil && found:
			return leader, nil
		case err == nil:
			return zkrecipes.Participant{}, fmt.Errorf("%s: %w", e.queue.Path(), zkrecipes.ErrNoLeader)
		case ctx.Err() != nil || s.Err() == nil || errors.Is(s.Err(), zkrecipes.ErrClosed):
			return zkrecipes.Participant{}, err
		}
	}
}

// Observe tells who leads now, then every change, also of what a leader proclaims. Between two leaders it always tells
// that there is none, since leadership is never handed over without a moment in between.
//
// When the connection is lost, Observe tells the last view again at once, with Current false. When the client is
// connected again, Observe reads again and tells a current view. A current view is the view of one server, which may be
// behind its leader: [Election.Leader] asks for the newest.
//
// It ends, without an error, when ctx does or the caller stops; with one, the last it tells, when it cannot go on.
func (e *Election) Observe(ctx context.Context) iter.Seq2[Leadership, error] {
	return func(yield func(Leadership, error) bool) {
		o := &observer{queue: e.queue, yield: yield}
		for {
			s, err := e.queue.Client().Session(ctx)
			if err == nil {
				err = o.observe(ctx, s)
			}
			switch {
			case ctx.Err() != nil || errors.Is(err, errStopped):
				return
			case s != nil && s.Err() != nil && !errors.Is(s.Err(), zkrecipes.ErrClosed):
				// The next session goes on.
			default:
				yield(Leadership{None: true}, err)
				return
			}
		}
	}
}

var errStopped = errors.New("the caller has stopped")

// observer is one loop over an election.
type observer struct {
	queue *znode.Queue
	yield func(Leadership, error) bool
	told  *Leadership    // nil at first
	watch *session.Watch // fires at the first change after the newest reading
}

// tell passes a view on unless it says nothing new. It returns errStopped if the caller wants no more.
func (o *observer) tell(now Leadership) error {
	if o.told != nil && o.told.same(now) {
		return nil
	}
	between := o.told != nil && !o.told.None && !now.None && o.told.Leader.Token != now.Leader.Token
	if between && !o.yield(Leadership{None: true, Current: now.Current, AsOf: now.AsOf}, nil) {
		return errStopped
	}
	o.told = &now
	if !o.yield(now, nil) {
		return errStopped
	}
	return nil
}

// outdated tells that the last view is no longer current.
func (o *observer) outdated(s *session.Session) error {
	if o.told == nil || !o.told.Current {
		return nil
	}
	view := *o.told
	view.Current = false
	// The server sends an event before the answer to a later request. So if the watch has not fired after the look at what was
	// answered last, that answer had seen no change.
	if heard := s.Heard(); heard.After(view.AsOf) && !o.watch.HasFired() {
		view.AsOf = heard
	}
	return o.tell(view)
}

// observe observes within one session.
func (o *observer) observe(ctx context.Context, s *session.Session) error {
	for {
		view, w, err := o.read(ctx, s)
		if err == nil {
			o.watch = w
			err = o.tell(view)
		}
		if s.Err() != nil && ctx.Err() == nil && !errors.Is(err, errStopped) {
			err = errors.Join(err, o.outdated(s))
		}
		if err != nil {
			return err
		}
		timeout := s.Timeout()
		recheck := time.NewTimer(2*timeout + rand.N(timeout)) // an event may be lost
		select {
		case <-w.Fired(): // also if the connection was away since the read, and is back
		case <-recheck.C:
		case <-s.Disconnected():
			err = o.outdated(s)
		case <-s.Done():
			err = errors.Join(s.Err(), o.outdated(s))
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		recheck.Stop()
		if err != nil {
			return err
		}
	}
}

// read reads who leads. If the connection is lost meanwhile, it tells that the last view is outdated, and reads on.
func (o *observer) read(ctx context.Context, s *session.Session) (Leadership, *session.Watch, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		view Leadership
		w    *session.Watch
		err  error
	)
	done := make(chan struct{})
	head := func(context.Context) {
		defer close(done)
		asOf := time.Now()
		var found bool
		view.Leader, found, w, err = o.queue.Head(ctx, s)
		view.None, view.Current, view.AsOf = !found, true, asOf
	}
	if !s.Go(head) {
		head(ctx) // the client is closed, so this fails at once
	}
	var stopped error
	select {
	case <-done:
	case <-s.Disconnected():
		if stopped = o.outdated(s); stopped != nil {
			cancel()
		}
		<-done
	}
	return view, w, errors.Join(stopped, err)
}
