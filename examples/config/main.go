// Command config keeps a configuration in ZooKeeper: readers read it under the read lock, an editor changes it under the
// write lock. It prints one line per event.
//
//	go run ./examples/config
//	go run ./examples/config -servers localhost:2181
//
// The editor's write is guarded by its hold, in one transaction: an editor that has lost the lock without knowing it
// changes nothing. At the end one tries.
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

func parse(args []string) (*config, error) {
	c := &config{}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	flags := flag.NewFlagSet("config", flag.ContinueOnError)
	c.ensemble.Flags(flags)
	flags.StringVar(&c.path, "path", "/examples-config", "znode of the configuration; the lock is at the path with -lock after it")
	flags.StringVar(&c.id, "id", fmt.Sprintf("%s/%d", host, os.Getpid()), "name of this process")
	flags.IntVar(&c.readers, "readers", 3, "how many readers there are")
	flags.IntVar(&c.rounds, "rounds", 3, "how often each reads, and the editor edits")
	flags.DurationVar(&c.pause, "pause", 200*time.Millisecond, "how long reading and editing take")
	if err := demo.Parse(flags, args); err != nil {
		return nil, err
	}
	if c.readers < 0 || c.rounds < 1 || c.pause < 0 {
		return nil, fmt.Errorf("flags -readers %d -rounds %d -pause %v: want 0 or more, 1 or more, 0 or more", c.readers, c.rounds, c.pause)
	}
	return c, nil
}

func run(ctx context.Context, args []string, out io.Writer) error {
	c, err := parse(args)
	if err != nil {
		return err
	}
	if err := c.ensemble.Start(); err != nil {
		return err
	}
	defer c.ensemble.Close()
	journal := demo.NewJournal(out)
	errs := make([]error, c.readers+1)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			u := user{config: c, journal: journal, id: fmt.Sprintf("%s/reader-%d", c.id, i)}
			work := u.read
			if i == 0 {
				u.id, work = c.id+"/editor", u.edit
			}
			errs[i] = u.run(ctx, work)
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return nil // interrupted
	}
	return errors.Join(errs...)
}

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

// seed makes the configuration if there is none yet. The lock is held, and so has made the parents.
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
	// What would happen to an editor that was frozen while it held, and comes back too late.
	if err := u.write(ctx, stale, "color=stale"); !errors.Is(err, zkrecipes.ErrFenced) {
		return fmt.Errorf("a stale editor was let through: %w", err)
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

// unlessLost journals a loss, after which the next round may go well.
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
