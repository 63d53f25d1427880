package znode

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// Head returns the contender at the head of the queue, and a watch that fires when the head may have changed. If the queue
// is empty it returns false, and the watch fires when a contender may have come.
//
// It watches only the head, so that contenders that join behind it fire nothing. Without a head it watches the
// children, or, if the parent is missing, its creation.
//
// The caller keeps known from one call to the next. Head reads the first of the last list or, if that has gone, the next. Only if both
// have gone it lists again.
//
// Why that contender is at the head, as it is read:
//
//  1. Whoever stood ahead of it in the list has gone: this session has read that, and never sees an older state.
//  2. Who came later stands behind it, because the server gives larger numbers to later contenders of one parent.
//  3. The parent is the same, because the contender was made before the list was read: no transaction after that made it.
//
// A node that is made by hand with a lower number is not seen while the head stands.
func (q *Queue) Head(ctx context.Context, s *session.Session, known *Line) (zkrecipes.Participant, bool, *session.Watch, error) {
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

// Line is the front of a queue as one session has listed it. It is for one caller at a time.
type Line struct {
	session int64
	names   []string // of the first contenders in their order, without those that were at the head and have gone
	zxid    int64    // of the newest transaction that had changed the children
}

// mostKnown is how many contenders a Line has when it is new: it stays in memory as long as the head is observed.
const mostKnown = 100

// tries is how many contenders are read one after the other before the queue is listed again.
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
		default: // another node of this name
			s.Unwatch(w)
			known.names = nil
		}
	}
}

// listHead lists the queue. If it is empty, a watch fires when a contender may have come.
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

// take notes a list. It reports whether there are contenders.
func (l *Line) take(q *Queue, children []string, parent zk.Stat) bool {
	queue := q.Arrange(children)
	l.names, l.zxid = nil, parent.Pzxid
	for _, c := range queue[:min(len(queue), mostKnown)] {
		l.names = append(l.names, c.Name)
	}
	return len(queue) > 0
}
