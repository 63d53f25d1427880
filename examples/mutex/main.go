// Command mutex lets several workers take turns on one resource. Each worker has its own connection. The program
// prints one line per event.
//
//	go run ./examples/mutex
//	go run ./examples/mutex -servers localhost:2181
//
// The resource rejects a token if it has already seen a newer one. With -servers, start the program in two terminals,
// and interrupt, kill or stop one of them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/examples/internal/demo"
	"github.com/zkrecipes/zkrecipes/fence"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
)

type config struct {
	ensemble demo.Ensemble
	path     string
	id       string
	workers  int
	rounds   int
	hold     time.Duration
}

func main() { demo.Main("mutex", run) }

func parse(args []string, out io.Writer) (*config, error) {
	c := &config{}
	flags := flag.NewFlagSet("mutex", flag.ContinueOnError)
	c.ensemble.Flags(flags)
	flags.StringVar(&c.path, "path", "/examples/mutex", "znode of the mutex")
	flags.StringVar(&c.id, "id", fmt.Sprintf("%s/%d", demo.Host(), os.Getpid()), "name of this process (needs -servers)")
	flags.IntVar(&c.workers, "workers", 3, "how many workers take turns")
	flags.IntVar(&c.rounds, "rounds", 3, "how many turns each takes")
	flags.DurationVar(&c.hold, "hold", 300*time.Millisecond, "how long a turn takes")
	if err := c.ensemble.Parse(flags, args, out, "id"); err != nil {
		return nil, err
	}
	if c.workers < 1 || c.rounds < 1 || c.hold < 0 {
		return nil, fmt.Errorf("flags -workers %d -rounds %d -hold %v: want 1 or more, 1 or more, 0 or more", c.workers,
			c.rounds, c.hold)
	}
	return c, nil
}

func run(ctx context.Context, args []string, out io.Writer) error {
	c, err := parse(args, out)
	if err != nil {
		return err
	}
	if err := c.ensemble.Start(); err != nil {
		return err
	}
	defer c.ensemble.Close()
	journal, shared := c.ensemble.Journal(out), &resource{gate: fence.New(fence.NewMemory())}
	journal.Explain(fmt.Sprintf(legend, c.workers, c.rounds))
	errs := make([]error, c.workers)
	var wg sync.WaitGroup
	for i := range c.workers {
		wg.Go(func() {
			w := worker{config: c, id: c.name(i + 1), journal: journal, resource: shared}
			if err := w.run(ctx); err != nil {
				errs[i] = fmt.Errorf("%s: %w", w.id, err)
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return nil // interrupted
	}
	return errors.Join(errs...)
}

const legend = `%d workers take turns on one number in this process, each %d times. They share a lock in ZooKeeper.
A line is: time since the start, worker, what it does. The token grows with every turn.
No two workers are between locked and released at the same time.
`

// name returns the name of a worker.
func (c *config) name(i int) string {
	if c.ensemble.External() {
		return fmt.Sprintf("%s/%d", c.id, i)
	}
	return fmt.Sprintf("worker-%d", i)
}

type worker struct {
	*config
	id       string
	journal  *demo.Journal
	resource *resource
}

func (w *worker) run(ctx context.Context) error {
	client, err := w.ensemble.Dial(ctx, w.id)
	if err != nil {
		return err
	}
	defer client.Close()
	m, err := mutex.New(client, w.path)
	if err != nil {
		return err
	}
	for range w.rounds {
		w.journal.Event(w.id, "waiting")
		err := m.Do(ctx, w.turn)
		switch {
		case ctx.Err() != nil:
			w.journal.Event(w.id, "stopped", "reason", "interrupt")
			return nil
		case errors.Is(err, zkrecipes.ErrLost), errors.Is(err, fence.ErrStale):
			w.journal.Event(w.id, "lost", "reason", err)
		case err != nil:
			return err
		}
	}
	return nil
}

// turn reads the resource, works, and writes the resource, presenting its token both times. It prints its last line
// before the release, and thus before the next worker's first line.
func (w *worker) turn(ctx context.Context, h *zkrecipes.Hold) error {
	w.journal.Event(w.id, "locked", "token", h.Token())
	value, err := w.resource.read(ctx, h.Token())
	if err != nil {
		return err
	}
	select {
	case <-time.After(w.hold):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := w.resource.write(ctx, h.Token(), value+1); err != nil {
		return err
	}
	w.journal.Event(w.id, "wrote", "token", h.Token(), "value", value+1)
	w.journal.Event(w.id, "released", "token", h.Token())
	return nil
}

// resource is a number. The check of the token and the access are one step, under the mutex.
type resource struct {
	mu    sync.Mutex
	gate  *fence.Gate
	value int
}

func (r *resource) read(ctx context.Context, t zkrecipes.Token) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.value, r.gate.Admit(ctx, "number", t)
}

func (r *resource) write(ctx context.Context, t zkrecipes.Token, value int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.gate.Admit(ctx, "number", t); err != nil {
		return err
	}
	r.value = value
	return nil
}
