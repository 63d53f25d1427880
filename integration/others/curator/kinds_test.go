package curator_test

import (
	"context"
	"testing"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/recipes/election"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
	"github.com/zkrecipes/zkrecipes/recipes/rwlock"
	"github.com/zkrecipes/zkrecipes/recipes/semaphore"
)

// A kind is a recipe that Curator and this library have in common.
type kind struct {
	name     string // as the peer names it
	worker   string // as cmd/worker names it; "-" if it has none
	arg      string // the node of the limit; "-" for none
	limit    int
	sections int // of each of the four clients
	open     func(t *testing.T, c *conn.Client, path, arg string) side
}

// A side is our half of a kind.
type side struct {
	take func(ctx context.Context) (*zkrecipes.Hold, error)
	who  func(ctx context.Context) ([]zkrecipes.Participant, error)
}

var kinds = []kind{
	{"latch", "election", "-", 1, 400, elections(election.Latch)},
	{"selector", "-", "-", 1, 400, elections(election.Selector)},
	{"mutex", "mutex", "-", 1, 800, openMutex},
	{"semaphore-mutex", "semaphore", "-", 1, 300, openSemaphore},
	{"semaphore", "-", "/curator/limit", 3, 400, openSemaphore},
	{"write", "rwlock", "-", 1, 200, openWriter},
}

func openMutex(t *testing.T, c *conn.Client, path, _ string) side {
	t.Helper()
	m, err := mutex.New(c, path)
	must(t, err)
	return side{m.Lock, m.Queue}
}

func openSemaphore(t *testing.T, c *conn.Client, path, limitNode string) side {
	t.Helper()
	var opts []semaphore.Option
	if limitNode != "-" {
		opts = append(opts, semaphore.WithLimitNode(limitNode))
	}
	s, err := semaphore.New(c, path, 1, opts...)
	must(t, err)
	return side{func(ctx context.Context) (*zkrecipes.Hold, error) { return s.Acquire(ctx, 1) }, s.Queue}
}

func openWriter(t *testing.T, c *conn.Client, path, _ string) side {
	t.Helper()
	l, err := rwlock.New(c, path)
	must(t, err)
	return side{l.Lock, queueOf(l)}
}

func openReader(t *testing.T, c *conn.Client, path, _ string) side {
	t.Helper()
	l, err := rwlock.New(c, path)
	must(t, err)
	return side{l.RLock, queueOf(l)}
}

func queueOf(l *rwlock.RWLock) func(context.Context) ([]zkrecipes.Participant, error) {
	return func(ctx context.Context) ([]zkrecipes.Participant, error) {
		queue, err := l.Queue(ctx)
		list := make([]zkrecipes.Participant, len(queue))
		for i, c := range queue {
			list[i] = c.Participant
		}
		return list, err
	}
}

func elections(layout election.Layout) func(*testing.T, *conn.Client, string, string) side {
	return func(t *testing.T, c *conn.Client, path, _ string) side {
		t.Helper()
		e, err := election.New(c, path, election.WithLayout(layout))
		must(t, err)
		return side{
			func(ctx context.Context) (*zkrecipes.Hold, error) {
				term, err := e.Campaign(ctx)
				if err != nil {
					return nil, err
				}
				return term.Hold, nil
			},
			e.Queue,
		}
	}
}
