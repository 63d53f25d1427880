package znode

import (
	"context"
	"errors"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// Head returns the contender at the head of the queue, and a watch that fires when the head may have changed. If the
// queue is empty it returns false, and the watch fires when there may be a contender.
//
// It watches only the head, so that contenders that join behind it fire nothing. Without a head it watches the
// children, or, if the parent is missing, its creation.
//
// The caller keeps known from one call to the next. Head reads the first contender of the last list or, if that is
// gone, the next one. It lists again only if both are gone.
//
// Why that contender is at the head at the time it is read:
//
//  1. All contenders that were ahead of it in the list are gone: this session has read that, and never sees an older
//     state.
//  2. Those that came later are behind it, because the server gives larger numbers to later contenders of one parent.
//  3. The parent is the same, because the contender was created before the list was read: no later transaction created
//     it.
//
// A node that is created by hand with a lower number is not noticed while the head exists.
func (q *Queue) Head(
	ctx context.Context, s *session.Session, known *Line,
) (zkrecipes.Participant, bool, *session.Watch, error) {
	h, err := q.readHead(ctx, s, known)
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

// Line is the front of a queue as one session has listed it. It must not be used concurrently.
type Line struct {
	session int64
	// Of the first contenders in order, without those that were at the head and are gone.
	names []string
	zxid  int64 // of the latest transaction that had changed the children
}

// mostKnown is the most contenders that a new Line has, because a Line stays in memory for as long as the head is
// observed.
const mostKnown = 100

// tries is how many contenders are read one after another before the queue is listed again.
const tries = 2

func (q *Queue) readHead(ctx context.Context, s *session.Session, known *Line) (head, error) {
	if known.session != s.ID() {
		*known = Line{session: s.ID()}
	}
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
		default: // another node with this name
			s.Unwatch(w)
			known.names = nil
		}
	}
}

// listHead lists the queue. If it is empty, the returned watch fires when there may be a contender.
func (q *Queue) listHead(ctx context.Context, s *session.Session, known *Line) (*session.Watch, error) {
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

// take records a list. It reports whether there are contenders.
func (l *Line) take(q *Queue, children []string, parent zk.Stat) bool {
	queue := q.Arrange(children)
	l.names, l.zxid = nil, parent.Pzxid
	for _, c := range queue[:min(len(queue), mostKnown)] {
		l.names = append(l.names, strings.Clone(c.Name)) // a clone, since the name would keep the whole list in memory
	}
	return len(queue) > 0
}
