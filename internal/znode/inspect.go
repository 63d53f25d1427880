package znode

import (
	"context"
	"errors"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// List returns the contenders in the order of the queue, as new as this call. Contenders that leave while they are read are
// left out. A queue without a parent is empty.
func (q *Queue) List(ctx context.Context) ([]zkrecipes.Participant, error) {
	contenders, err := q.contenders(ctx)
	if err != nil {
		return nil, err
	}
	type reading struct {
		zkrecipes.Participant
		err error
	}
	readings := make([]reading, len(contenders))
	session.InFlight(len(contenders), func(i int) {
		path := q.Child(contenders[i].Name)
		data, stat, err := q.Client().Get(ctx, path)
		readings[i] = reading{participant(path, data, stat), err}
	})
	var list []zkrecipes.Participant
	for _, r := range readings {
		switch {
		case r.err == nil:
			list = append(list, r.Participant)
		case !errors.Is(r.err, zk.ErrNoNode):
			return nil, r.err
		}
	}
	return list, nil
}

// Parse returns what the path of a contender says of it.
func (q *Queue) Parse(path string) Contender {
	c, _ := parse(path[strings.LastIndexByte(path, '/')+1:], q.kinds)
	return c
}

// Arrange returns the contenders among children, in the order of the queue.
func (q *Queue) Arrange(children []string) []Contender {
	queue, _ := arrange(children, q.kinds)
	return queue
}

func (q *Queue) contenders(ctx context.Context) ([]Contender, error) {
	if err := q.Client().Sync(ctx, q.Path()); err != nil {
		return nil, err
	}
	children, err := q.Client().Children(ctx, q.Path())
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return q.Arrange(children), nil
}

// Head returns the contender at the head of the queue, and a watch that fires when the head may have changed. If the queue
// is empty it returns false, and the watch fires when a contender may have come.
//
// It watches the head alone, so that contenders that join behind it fire nothing. Without a head it watches the children,
// or, if the parent is missing, its creation.
func (q *Queue) Head(ctx context.Context, s *session.Session) (zkrecipes.Participant, bool, *session.Watch, error) {
	for {
		children, err := s.Children(ctx, q.Path())
		if errors.Is(err, zk.ErrNoNode) {
			exists, _, w, err := s.ExistsW(ctx, q.Path())
			if err == nil && exists {
				s.Release(w)
				continue
			}
			return zkrecipes.Participant{}, false, w, err
		}
		if err != nil {
			return zkrecipes.Participant{}, false, nil, err
		}
		queue := q.Arrange(children)
		if len(queue) == 0 {
			var w *session.Watch
			children, w, err = s.ChildrenW(ctx, q.Path())
			if errors.Is(err, zk.ErrNoNode) {
				continue
			}
			if queue = q.Arrange(children); err != nil || len(queue) == 0 {
				return zkrecipes.Participant{}, false, w, err
			}
			s.Release(w)
		}
		path := q.Child(queue[0].Name)
		data, stat, w, err := s.GetW(ctx, path)
		if errors.Is(err, zk.ErrNoNode) {
			continue // gone in between
		}
		if err != nil {
			return zkrecipes.Participant{}, false, nil, err
		}
		return participant(path, data, stat), true, w, nil
	}
}
