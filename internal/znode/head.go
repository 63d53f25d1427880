package znode

import (
	"bytes"
	"context"
	"errors"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
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

// line is the front of a queue as one session has listed it.
type line struct {
	names []string // of the first contenders in their order, without those that were at the head and have gone
	zxid  int64    // of the newest transaction that had changed the children
}

// mostKnown is how many contenders a line has when it is new: it stays in memory as long as the queue is used.
const mostKnown = 100

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
	queue := q.Arrange(children)
	l.names, l.zxid = nil, parent.Pzxid
	for _, c := range queue[:min(len(queue), mostKnown)] {
		l.names = append(l.names, strings.Clone(c.Name)) // which would keep the whole list
	}
	return len(queue) > 0
}

// SharedHead is [Queue.Head] with a reading that other callers of the session may share. Each drops its own share of the watch.
func (q *Queue) SharedHead(ctx context.Context, s *session.Session) (zkrecipes.Participant, bool, *session.Watch, error) {
	h, err := q.sharedIn(s).head(ctx, s, q.Path())
	h.data = bytes.Clone(h.data) // callers may change theirs
	return h.in(q), h.name != "", h.watch, err
}

// headReading is one reading of the head of a queue.
type headReading struct {
	done    chan struct{}
	callers int  // guarded by sharedQueue.heads.mu, as is over
	over    bool // the callers have been counted
	head    head
	err     error
}

// head returns a reading of the head that begins after this call. The path is for errors.
func (sq *sharedQueue) head(ctx context.Context, s *session.Session, path string) (head, error) {
	reading, begins := sq.heads.join(
		func() *headReading { return &headReading{done: make(chan struct{})} },
		func(joined *headReading) { joined.callers++ })
	if begins {
		sq.session.Go(func(ctx context.Context) { sq.readHeads(ctx, reading) }) // if the client is closed, callers see the end of the session
	}
	fail := func(err error) error { return &session.OpError{Op: "watch", Path: path, Err: err} }
	select {
	case <-reading.done:
		if ended := s.Err(); ended != nil && reading.err != nil {
			return head{}, fail(ended) // the reading may have failed by its context, which ends with the session
		}
		return reading.head, namedFor(s, sq.session, reading.err)
	case <-ctx.Done():
		sq.leaveHead(reading)
		return head{}, fail(s.ExplainUnanswered(context.Cause(ctx)))
	case <-s.Done():
		return head{}, fail(s.Err())
	}
}

// leaveHead takes a caller off a reading that it does not wait for.
func (sq *sharedQueue) leaveHead(reading *headReading) {
	sq.heads.mu.Lock()
	counted := reading.over
	reading.callers--
	sq.heads.mu.Unlock()
	if counted {
		sq.session.Unwatch(reading.head.watch)
	}
}

// isWanted reports whether a caller waits for a reading. Nobody joins one that is on its way.
func (sq *sharedQueue) isWanted(reading *headReading) bool {
	sq.heads.mu.Lock()
	defer sq.heads.mu.Unlock()
	return reading.callers > 0
}

// readHeads does the reading that is on its way, and then the next ones.
func (sq *sharedQueue) readHeads(ctx context.Context, reading *headReading) {
	for reading != nil {
		if sq.isWanted(reading) {
			reading.head, reading.err = sq.queue.readHead(ctx, sq.session, &sq.line)
		}
		abandoned := false
		next := sq.heads.end(func(reading *headReading) {
			sq.session.Share(reading.head.watch, max(0, reading.callers-1))
			abandoned = reading.callers == 0
			reading.over = true
			close(reading.done)
		})
		if abandoned {
			sq.session.Unwatch(reading.head.watch)
		}
		reading = next
	}
}
