package znode

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// List returns the contenders in the order of the queue, as new as this call. Those that leave while they are read are
// left out; a queue without a parent is empty.
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
	var wg sync.WaitGroup
	turns := make(chan struct{}, 64) // in flight at once: enough to fill the pipe
	for i, c := range contenders {
		wg.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			path := q.path + "/" + c.Name
			data, stat, err := q.client.Get(ctx, path)
			readings[i] = reading{participant(path, data, stat), err}
		})
	}
	wg.Wait()
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

func (q *Queue) contenders(ctx context.Context) ([]Contender, error) {
	if err := q.client.Sync(ctx, q.path); err != nil {
		return nil, err
	}
	children, err := q.client.Children(ctx, q.path)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	queue, foreign := arrange(children, q.kinds)
	q.reportForeign(foreign)
	return queue, nil
}

// Head returns the contender at the head of the queue, and a watch that fires when that may have changed. Without one
// it returns false, and the watch fires when one may have come.
//
// It watches the head alone, so that those who join behind it wake nobody; and without a head the children, or, where
// the parent is missing, its creation.
func (q *Queue) Head(ctx context.Context, s *session.Session) (zkrecipes.Participant, bool, *session.Watch, error) {
	for {
		children, err := s.Children(ctx, q.path)
		if errors.Is(err, zk.ErrNoNode) {
			exists, _, w, err := s.ExistsW(ctx, q.path)
			if err == nil && exists {
				continue
			}
			return zkrecipes.Participant{}, false, w, err
		}
		if err != nil {
			return zkrecipes.Participant{}, false, nil, err
		}
		queue, foreign := arrange(children, q.kinds)
		q.reportForeign(foreign)
		if len(queue) == 0 {
			var w *session.Watch
			children, w, err = s.ChildrenW(ctx, q.path)
			if errors.Is(err, zk.ErrNoNode) {
				continue
			}
			if queue, _ = arrange(children, q.kinds); err != nil || len(queue) == 0 {
				return zkrecipes.Participant{}, false, w, err
			}
		}
		path := q.path + "/" + queue[0].Name
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

// peek lists the queue as this server has it, with a watch on the children, or, where the parent is missing, on its
// creation.
func (q *Queue) peek(ctx context.Context, s *session.Session) (*listing, *session.Watch, error) {
	for {
		names, w, err := s.ChildrenW(ctx, q.path)
		if errors.Is(err, zk.ErrNoNode) {
			var exists bool
			if exists, _, w, err = s.ExistsW(ctx, q.path); err == nil && exists {
				continue
			}
		}
		if err != nil {
			return nil, nil, err
		}
		queue, foreign := arrange(names, q.kinds)
		q.reportForeign(foreign)
		return &listing{queue: queue}, w, nil
	}
}

// Revoke asks the holder to let go. Nobody there is no error.
//
// Source: Curator's Revoker.
func (q *Queue) Revoke(ctx context.Context) error {
	contenders, err := q.contenders(ctx)
	if err != nil || len(contenders) == 0 {
		return err
	}
	_, err = q.client.Set(ctx, q.path+"/"+contenders[0].Name, []byte(revokeRequest), -1)
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	return err
}
