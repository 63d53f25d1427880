package znode

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/client"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// Head returns the contender at the head of the queue, and a watch that fires when the head may have changed. If the queue
// is empty it returns false, and the watch fires when a contender may have come.
//
// It watches the head alone, so that contenders that join behind it fire nothing. Without a head it watches the children,
// or, if the parent is missing, its creation.
func (q *Queue) Head(ctx context.Context, s *session.Session) (zkrecipes.Participant, bool, *session.Watch, error) {
	h, err := q.readHead(ctx, s, new(line))
	return h.in(q), h.name != "", h.watch, err
}

// head is what was read of the contender at the head of a queue.
type head struct {
	name  string // empty if there is none
	data  []byte
	stat  zk.Stat
	watch *session.Watch
}

func (h head) in(q *Queue) zkrecipes.Participant {
	if h.name == "" {
		return zkrecipes.Participant{}
	}
	return participant(q.Child(h.name), h.data, h.stat)
}

// line is a queue as one session has listed it.
type line struct {
	names []string // of the contenders in their order, without those that were at the head and have gone
	zxid  int64    // of the newest transaction that had changed the children
}

// tries is how many contenders are read one after the other before the queue is listed again.
const tries = 2

// readHead is Head for a caller that knows the queue from its last list. It reads the first of that list or, if that has gone, the
// next. Only if both have gone it lists again.
//
// Why that contender is at the head, as it is read:
//
//  1. Whoever stood ahead of it in the list has gone: this session has read that, and never sees an older state.
//  2. Who came later stands behind it, because the server gives larger numbers to later contenders of one parent.
//  3. The parent is the same, because the contender was made before the list was read: no transaction after that made it.
//
// A node that is made by hand with a lower number is not seen while the head stands.
func (q *Queue) readHead(ctx context.Context, s *session.Session, known *line) (head, error) {
	listed := false
	for left := tries; ; left-- {
		if left == 0 || len(known.names) == 0 {
			w, err := q.listHead(ctx, s, known)
			if err != nil || len(known.names) == 0 {
				return head{watch: w}, err
			}
			listed, left = true, tries
		}
		name := known.names[0]
		data, stat, w, err := s.GetW(ctx, q.Child(name))
		switch {
		case errors.Is(err, zk.ErrNoNode):
			known.names = known.names[1:]
		case err != nil:
			return head{}, err
		case listed || stat.Czxid <= known.zxid:
			return head{name, data, stat, w}, nil
		default: // another node of this name
			s.Unwatch(w)
			known.names = nil
		}
	}
}

// listHead lists the queue. If it is empty, a watch fires when a contender may have come.
func (q *Queue) listHead(ctx context.Context, s *session.Session, known *line) (*session.Watch, error) {
	for {
		children, stat, err := s.ChildrenStat(ctx, q.Path())
		if errors.Is(err, zk.ErrNoNode) {
			exists, _, w, err := s.ExistsW(ctx, q.Path())
			if err == nil && exists {
				s.Unwatch(w)
				continue
			}
			return w, err
		}
		if err != nil || known.take(q, children, stat) {
			return nil, err
		}
		children, stat, w, err := s.ChildrenStatW(ctx, q.Path())
		if errors.Is(err, zk.ErrNoNode) {
			continue
		}
		if err == nil && known.take(q, children, stat) {
			s.Unwatch(w)
			return nil, nil //nolint:nilnil // the head is watched instead
		}
		return w, err
	}
}

// take notes a list. It reports whether there are contenders.
func (l *line) take(q *Queue, children []string, parent zk.Stat) bool {
	l.names, l.zxid = nil, parent.Pzxid
	for _, c := range q.Arrange(children) {
		l.names = append(l.names, c.Name)
	}
	return len(l.names) > 0
}

// Observer follows the head of a queue. Those of one client share their readings.
type Observer struct {
	queue  *Queue
	shared *observers
}

// observers are all that follow the head of one queue through one client.
type observers struct {
	mu     sync.Mutex
	count  int
	newest *headReader // of the newest session; nil if none was used since the first came
}

// Observe returns an observer, which is stopped when it is not needed any more.
func (q *Queue) Observe() *Observer {
	of := fmt.Sprint(q.Path(), q.kinds) // a sub has another path, which errors name
	shared := client.Shared[observers](q.Client(), q.Path(), of)
	shared.mu.Lock()
	defer shared.mu.Unlock()
	shared.count++
	return &Observer{q, shared}
}

// Stop forgets the queue if no other observer is left. It is called once.
func (o *Observer) Stop() {
	o.shared.mu.Lock()
	defer o.shared.mu.Unlock()
	o.shared.count--
	if o.shared.count == 0 {
		o.shared.newest = nil
	}
}

// Head is [Queue.Head], with a reading that may be shared with other observers.
func (o *Observer) Head(ctx context.Context, s *session.Session) (zkrecipes.Participant, bool, *session.Watch, error) {
	h, err := o.in(s).read(ctx)
	h.data = bytes.Clone(h.data) // callers may change theirs
	return h.in(o.queue), h.name != "", h.watch, err
}

// in returns the reader for s.
func (o *Observer) in(s *session.Session) *headReader {
	o.shared.mu.Lock()
	defer o.shared.mu.Unlock()
	if o.shared.newest == nil || o.shared.newest.session.ID() != s.ID() {
		o.shared.newest = &headReader{queue: o.queue, session: s}
	}
	return o.shared.newest
}

// headReader reads the head of one queue in one session, for all that observe it.
type headReader struct {
	queue    *Queue
	session  *session.Session
	line     line // belongs to the reading on its way
	readings turns[headReading]
}

type headReading struct {
	done    chan struct{}
	callers int  // guarded by headReader.readings.mu, as is over
	over    bool // the callers have been counted
	head    head
	err     error
}

// read returns a reading that begins after this call.
func (r *headReader) read(ctx context.Context) (head, error) {
	reading, begins := r.readings.join(
		func() *headReading { return &headReading{done: make(chan struct{})} },
		func(joined *headReading) { joined.callers++ })
	if begins {
		r.session.Go(func(ctx context.Context) { r.run(ctx, reading) }) // if the client is closed, callers see the end of the session
	}
	fail := func(err error) error { return &session.OpError{Op: "watch", Path: r.queue.Path(), Err: err} }
	select {
	case <-reading.done:
		if ended := r.session.Err(); ended != nil && reading.err != nil {
			return head{}, fail(ended) // the reading may have failed by its context, which ends with the session
		}
		return reading.head, reading.err
	case <-ctx.Done():
		r.leave(reading)
		return head{}, fail(r.session.ExplainUnanswered(context.Cause(ctx)))
	case <-r.session.Done():
		return head{}, fail(r.session.Err())
	}
}

// leave takes a caller off a reading that it does not wait for.
func (r *headReader) leave(reading *headReading) {
	r.readings.mu.Lock()
	counted := reading.over
	reading.callers--
	r.readings.mu.Unlock()
	if counted {
		r.session.Unwatch(reading.head.watch)
	}
}

// isWanted reports whether a caller waits for a reading. Nobody joins one that is on its way.
func (r *headReader) isWanted(reading *headReading) bool {
	r.readings.mu.Lock()
	defer r.readings.mu.Unlock()
	return reading.callers > 0
}

// run does the reading that is on its way, and then the next ones.
func (r *headReader) run(ctx context.Context, reading *headReading) {
	for reading != nil {
		if r.isWanted(reading) {
			reading.head, reading.err = r.queue.readHead(ctx, r.session, &r.line)
		}
		abandoned := false
		next := r.readings.end(func(reading *headReading) {
			r.session.Share(reading.head.watch, max(0, reading.callers-1))
			abandoned = reading.callers == 0
			reading.over = true
			close(reading.done)
		})
		if abandoned {
			r.session.Unwatch(reading.head.watch)
		}
		reading = next
	}
}
