// Command config keeps a configuration in ZooKeeper. Readers follow it without a lock and receive each change, while an
// editor changes it under a lock. The program prints one line per event.
//
//	go run ./examples/config
//	go run ./examples/config -servers localhost:2181
//
// One transaction both checks the editor's hold and writes, so an editor that has lost the lock without noticing cannot
// change anything. At the end of the program one such editor tries. With -servers, start the program in two terminals:
// each sees the edits of both.
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
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/examples/internal/demo"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
	"github.com/zkrecipes/zkrecipes/recipes/value"
	"github.com/zkrecipes/zkrecipes/zktest"
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
	flags := flag.NewFlagSet("config", flag.ContinueOnError)
	c.ensemble.Flags(flags)
	flags.StringVar(&c.path, "path", "/examples/config",
		"znode of the configuration; the lock is at this path with \"-lock\" added")
	flags.StringVar(&c.id, "id", fmt.Sprintf("%s/%d", demo.Host(), os.Getpid()), "name of this process (needs -servers)")
	flags.IntVar(&c.readers, "readers", 3, "how many readers there are")
	flags.IntVar(&c.rounds, "rounds", 3, "how often the editor edits")
	flags.DurationVar(&c.pause, "pause", 200*time.Millisecond, "how long editing takes")
	if err := c.ensemble.Parse(flags, args, out, "id"); err != nil {
		return nil, err
	}
	if c.readers < 0 || c.rounds < 1 || c.pause < 0 {
		return nil, fmt.Errorf("flags -readers %d -rounds %d -pause %v: want 0 or more, 1 or more, 0 or more", c.readers,
			c.rounds, c.pause)
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
	if err := c.play(ctx, journal); err != nil && ctx.Err() == nil {
		return err
	}
	return nil // finished or interrupted
}

const legend = `An editor and %d readers share a configuration in ZooKeeper. Readers follow it, and the editor writes under a lock.
A line is: time since the start, who, what it does. The token belongs to the hold of the lock.
A reader that is cut off knows that its configuration is outdated. At the end the editor writes with a hold that it has released.
`

// play runs the editor, and the readers until they have seen its last edit.
func (c *config) play(ctx context.Context, journal *demo.Journal) error {
	following, stop := context.WithCancel(ctx)
	defer stop()
	sights, edited := make(chan sight), make(chan int64, 1)
	errs := make([]error, c.readers+1)
	var wg sync.WaitGroup
	start := func(i int, id string, work func(*user, context.Context) error) {
		wg.Go(func() {
			u := user{config: c, journal: journal, id: id, sights: sights, edited: edited}
			if errs[i] = u.run(following, work); errs[i] != nil {
				stop()
			}
		})
	}
	for i := range c.readers {
		start(i, c.reader(i+1), (*user).follow)
	}
	start(c.readers, c.name("editor"), (*user).edit)
	var last int64
	seen := map[string]int64{}
	for following.Err() == nil {
		select {
		case s := <-sights:
			seen[s.reader] = s.mzxid
		case last = <-edited:
		case <-following.Done():
		}
		if last > 0 && c.allSaw(seen, last) {
			stop()
		}
	}
	wg.Wait()
	return demo.Failures(errs)
}

// allSaw reports whether every reader has seen the transaction last or a later one.
func (c *config) allSaw(seen map[string]int64, last int64) bool {
	for i := range c.readers {
		if seen[c.reader(i+1)] < last {
			return false
		}
	}
	return true
}

// sight is the transaction that wrote the configuration that a reader has printed.
type sight struct {
	reader string
	mzxid  int64
}

// name returns the name of a user.
func (c *config) name(role string) string {
	if c.ensemble.External() {
		return c.id + "/" + role
	}
	return role
}

func (c *config) reader(i int) string { return c.name(fmt.Sprintf("reader-%d", i)) }

// settings is the configuration.
type settings struct {
	Color int
	By    string // the editor
}

// user is a reader or the editor, with its own connection.
type user struct {
	*config
	id       string
	journal  *demo.Journal
	client   *conn.Client
	settings *value.Value[settings]
	sights   chan<- sight
	edited   chan<- int64 // receives the transaction of the last edit
}

func (u *user) run(ctx context.Context, work func(*user, context.Context) error) (err error) {
	if u.client, err = u.ensemble.Dial(ctx, u.id); err != nil {
		return unlessStopped(ctx, err)
	}
	defer u.client.Close()
	if u.settings, err = value.New(u.client, u.path, value.JSON[settings]()); err != nil {
		return err
	}
	return unlessStopped(ctx, work(u, ctx))
}

// unlessStopped drops the error of a user whose context is done.
func unlessStopped(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		err = nil
	}
	return err
}

// follow prints the configuration and each change to it, until ctx is done. It takes no lock.
func (u *user) follow(ctx context.Context) error {
	var seen value.Version
	for view, err := range u.settings.Watch(ctx) {
		switch {
		case err != nil:
			return err
		case !view.Current: // the connection is lost, and the configuration may change unseen
			u.journal.Event(u.id, "outdated", "color", view.Value.Color)
			continue
		case view.Err != nil:
			u.journal.Event(u.id, "invalid", "reason", view.Err)
		case !view.Version.Exists():
			u.journal.Event(u.id, "sees", "color", "none")
		case view.Version == seen:
			u.journal.Event(u.id, "current", "color", view.Value.Color)
		default:
			u.journal.Event(u.id, "sees", "color", view.Value.Color, "by", view.Value.By)
		}
		seen = view.Version
		select {
		case u.sights <- sight{u.id, seen.Mzxid}:
		case <-ctx.Done():
		}
	}
	return nil
}

func (u *user) edit(ctx context.Context) error {
	m, err := mutex.New(u.client, u.path+"-lock")
	if err != nil {
		return err
	}
	var stale *zkrecipes.Hold
	var last int64
	for round := range u.rounds {
		u.disturb(round)
		err := m.Do(ctx, func(ctx context.Context, h *zkrecipes.Hold) error {
			stale = h
			s, _, err := u.settings.Get(ctx)
			if err != nil {
				return err
			}
			u.journal.Event(u.id, "editing", "token", h.Token(), "color", s.Color)
			if err := u.sleep(ctx); err != nil {
				return err
			}
			wrote, err := u.write(ctx, h, s.Color+1)
			last = max(last, wrote.Mzxid)
			return err
		})
		if err := u.unlessLost(err); err != nil {
			return err
		}
		if err := u.sleep(ctx); err != nil {
			return err
		}
	}
	// This simulates an editor that was frozen while it held the lock, and writes too late.
	if _, err := u.write(ctx, stale, -1); !errors.Is(err, zkrecipes.ErrFenced) {
		return fmt.Errorf("the write of a stale editor was not refused: %w", err)
	}
	u.journal.Event(u.id, "fenced", "token", stale.Token())
	if err := u.sleep(ctx); err != nil { // time in which readers would see a write
		return err
	}
	u.edited <- last
	return nil
}

// write changes the configuration if h is still held when the leader of the ensemble applies it.
func (u *user) write(ctx context.Context, h *zkrecipes.Hold, color int) (value.Version, error) {
	version, err := u.settings.SetHeld(ctx, h, settings{Color: color, By: u.id})
	if err == nil {
		u.journal.Event(u.id, "wrote", "token", h.Token(), "color", color)
	}
	return version, err
}

// disturb cuts off the last reader during the second edit, if the server is in this process.
func (u *user) disturb(round int) {
	server, last := u.ensemble.Own(), u.reader(u.readers)
	if server == nil || u.readers == 0 {
		return
	}
	switch round {
	case 1:
		u.journal.Say(last + " is cut off from the network")
		server.Refuse(zktest.Label(last))
		server.Cut(zktest.Label(last))
	case 2:
		u.journal.Say(last + " is back on the network: it sees the newest configuration")
		server.Accept(zktest.Label(last))
	}
}

// unlessLost prints a loss and drops it, because the next round may succeed.
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
