// Command config keeps a configuration in ZooKeeper. Readers read it under the read lock. An editor changes it under the
// write lock. The program prints one line per event.
//
//	go run ./examples/config
//	go run ./examples/config -servers localhost:2181
//
// The editor's hold guards its write, in one transaction. So an editor that lost the lock without knowing it changes
// nothing. At the end one such editor tries.
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

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/examples/internal/demo"
	"github.com/zkrecipes/zkrecipes/recipes/rwlock"
)

type config struct {
	ensemble demo.Ensemble
	path     string
	id       string
	readers  int
	rounds   int
	pause    time.Duration
}

func main() { demo.Main("config", run) }

func parse(args []string, out io.Writer) (*config, error) {
	c := &config{}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	flags := flag.NewFlagSet("config", flag.ContinueOnError)
	c.ensemble.Flags(flags)
	flags.StringVar(&c.path, "path", "/examples/config", "znode of the configuration; the lock is at this path with \"-lock\" added")
	flags.StringVar(&c.id, "id", fmt.Sprintf("%s/%d", host, os.Getpid()), "name of this process (needs -servers)")
	flags.IntVar(&c.readers, "readers", 3, "how many readers there are")
	flags.IntVar(&c.rounds, "rounds", 3, "how often each reads, and the editor edits")
	flags.DurationVar(&c.pause, "pause", 200*time.Millisecond, "how long reading and editing take")
	if err := demo.Parse(flags, args, out); err != nil {
		return nil, err
	}
	if err := c.ensemble.Check(flags, "id"); err != nil {
		return nil, err
	}
	if c.readers < 0 || c.rounds < 1 || c.pause < 0 {
		return nil, fmt.Errorf("flags -readers %d -rounds %d -pause %v: want 0 or more, 1 or more, 0 or more", c.readers, c.rounds, c.pause)
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
	journal := c.ensemble.Journal(out)
	journal.Explain(fmt.Sprintf(legend, c.readers))
	errs := make([]error, c.readers+1)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			u := user{config: c, journal: journal, id: fmt.Sprintf("reader-%d", i)}
			work := u.read
			if i == 0 {
				u.id, work = "editor", u.edit
			}
			if c.ensemble.External() {
				u.id = c.id + "/" + u.id
			}
			errs[i] = u.run(ctx, work)
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return nil // interrupted
	}
	return demo.Failures(errs)
}

const legend = `An editor and %d readers share a configuration in ZooKeeper, under a read-write lock.
A line is: time since the start, who, what it does. The token belongs to the hold of the lock.
Between editing and wrote, no reader reads. At the end the editor tries a write with a hold that it has released.
`

// user is a reader or the editor, with a connection of its own.
type user struct {
	*config
	id      string
	journal *demo.Journal
	client  *conn.Client
	lock    *rwlock.RWLock
}

func (u *user) run(ctx context.Context, work func(context.Context) error) (err error) {
	if u.client, err = u.ensemble.Dial(ctx, u.id); err != nil {
		return err
	}
	defer func() { _ = u.client.Close() }() // never fails
	if u.lock, err = rwlock.New(u.client, u.path+"-lock"); err != nil {
		return err
	}
	err = work(ctx)
	if ctx.Err() != nil {
		u.journal.Event(u.id, "stopped", "reason", "interrupt")
		return nil
	}
	return err
}

func (u *user) read(ctx context.Context) error {
	for range u.rounds {
		err := u.lock.RDo(ctx, func(ctx context.Context, h *zkrecipes.Hold) error {
			data, stat, err := u.client.Get(ctx, u.path)
			if errors.Is(err, zk.ErrNoNode) {
				u.journal.Event(u.id, "read", "token", h.Token(), "config", "none")
				return u.sleep(ctx)
			}
			if err != nil {
				return err
			}
			u.journal.Event(u.id, "read", "token", h.Token(), "config", string(data), "version", stat.Version)
			return u.sleep(ctx)
		})
		if err := u.unlessLost(err); err != nil {
			return err
		}
	}
	return nil
}

// seed creates the configuration if there is none. The lock is held, so its parents exist.
func (u *user) seed(ctx context.Context) error {
	_, err := u.client.Create(ctx, u.path, []byte("color=0"), 0)
	if errors.Is(err, zk.ErrNodeExists) {
		return nil
	}
	return err
}

func (u *user) edit(ctx context.Context) error {
	var stale *zkrecipes.Hold
	for round := range u.rounds {
		err := u.lock.Do(ctx, func(ctx context.Context, h *zkrecipes.Hold) error {
			stale = h
			u.journal.Event(u.id, "editing", "token", h.Token())
			if err := u.seed(ctx); err != nil {
				return err
			}
			if err := u.sleep(ctx); err != nil {
				return err
			}
			return u.write(ctx, h, fmt.Sprintf("color=%d", round+1))
		})
		if err := u.unlessLost(err); err != nil {
			return err
		}
	}
	// This is what happens to an editor that was frozen while it held the lock, and writes too late.
	if err := u.write(ctx, stale, "color=stale"); !errors.Is(err, zkrecipes.ErrFenced) {
		return fmt.Errorf("the write of a stale editor was not refused: %w", err)
	}
	u.journal.Event(u.id, "fenced", "token", stale.Token())
	return nil
}

// write changes the configuration if h is still held when the leader of the ensemble applies it.
func (u *user) write(ctx context.Context, h *zkrecipes.Hold, text string) error {
	_, err := h.Txn(ctx, &zk.SetDataRequest{Path: u.path, Data: []byte(text), Version: -1})
	if err == nil {
		u.journal.Event(u.id, "wrote", "token", h.Token(), "config", text)
	}
	return err
}

// unlessLost prints a loss and drops it: the next round may succeed.
func (u *user) unlessLost(err error) error {
	if errors.Is(err, zkrecipes.ErrLost) || errors.Is(err, zkrecipes.ErrFenced) {
		u.journal.Event(u.id, "lost", "reason", err)
		return nil
	}
	return err
}

func (u *user) sleep(ctx context.Context) error {
	select {
	case <-time.After(u.pause):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
