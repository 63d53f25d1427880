package znode

import (
	"context"
	"errors"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/layout"
)

// List returns the contenders in queue order. The answer is at least as recent as the call, but omits contenders that
// leave while they are being read. A queue without a parent is empty.
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

// First returns the contender at the head of the queue, at least as recent as the client's last read; zero if there is
// none. Unlike [Queue.Head], it leaves no watch. If the first contenders of a list are gone, it lists again.
func (q *Queue) First(ctx context.Context) (zkrecipes.Participant, error) {
	for {
		children, err := q.Client().Children(ctx, q.Path())
		queue := q.Arrange(children)
		switch {
		case errors.Is(err, zk.ErrNoNode), err == nil && len(queue) == 0:
			return zkrecipes.Participant{}, nil
		case err != nil:
			return zkrecipes.Participant{}, err
		}
		for _, c := range queue[:min(len(queue), tries)] {
			path := q.Child(c.Name)
			data, stat, err := q.Client().Get(ctx, path)
			switch {
			case err == nil:
				return participant(path, data, stat), nil
			case !errors.Is(err, zk.ErrNoNode):
				return zkrecipes.Participant{}, err
			}
		}
	}
}

// Parse returns the contender that the name in path describes.
func (q *Queue) Parse(path string) Contender {
	c, _ := layout.Parse(path[strings.LastIndexByte(path, '/')+1:], q.kinds...)
	return c
}

// Arrange returns the contenders among children in queue order.
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
