// Command leader stands for election, prints one line per event, and hands over when it is interrupted.
//
//	go run ./examples/leader
//	go run ./examples/leader -servers localhost:2181
//
// Without servers it starts one in the process, and plays a story with three candidates. With servers, start it in
// three terminals: one leads. Stop, kill or disconnect that one, and another does.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/examples/internal/demo"
	"github.com/zkrecipes/zkrecipes/recipes/election"
)

type config struct {
	servers        string
	path           string
	id             string
	sessionTimeout time.Duration
	connectTimeout time.Duration
	resignAfter    time.Duration
	follow         bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "leader:", err)
		stop()
		os.Exit(1) //nolint:gocritic // stop was called
	}
}

func parse(args []string) (config, error) {
	c := config{}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	flags := flag.NewFlagSet("leader", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // one clear line says it better
	flags.StringVar(&c.servers, "servers", "", "ZooKeeper to use, host:port[,host:port...][/chroot]; none plays a story in this process")
	flags.StringVar(&c.path, "path", "/qconf/backup/zk_local", "znode of the election")
	flags.StringVar(&c.id, "id", fmt.Sprintf("%s/%d", host, os.Getpid()), "name of this candidate")
	flags.DurationVar(&c.sessionTimeout, "session-timeout", 10*time.Second, "how long a dead leader is waited for")
	flags.DurationVar(&c.connectTimeout, "connect-timeout", 10*time.Second, "how long to try to reach a server at the start")
	flags.DurationVar(&c.resignAfter, "resign-after", 0, "give leadership up after this long and stand again; 0 is never")
	flags.BoolVar(&c.follow, "follow", false, "only tell who leads")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		flags.SetOutput(os.Stderr)
		flags.PrintDefaults()
		return c, errors.New("see the flags above")
	case err != nil:
		return c, err
	case flags.NArg() > 0:
		return c, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case c.servers == "" && given(flags, "servers"):
		return c, errors.New("flag -servers is empty: want host:port of a ZooKeeper, such as localhost:2181")
	case conn.ValidatePath(c.path) != nil:
		return c, fmt.Errorf("flag -path: %w", conn.ValidatePath(c.path))
	case c.resignAfter < 0:
		return c, fmt.Errorf("flag -resign-after %v: want 0 or more", c.resignAfter)
	}
	return c, nil
}

// given reports whether the flag was on the command line.
func given(flags *flag.FlagSet, name string) (found bool) {
	flags.Visit(func(f *flag.Flag) { found = found || f.Name == name })
	return found
}

func run(ctx context.Context, args []string, out io.Writer) error {
	cfg, err := parse(args)
	if err != nil {
		return err
	}
	if cfg.servers == "" {
		return tell(ctx, cfg.path, out)
	}
	dialing, cancel := context.WithTimeoutCause(ctx, cfg.connectTimeout,
		fmt.Errorf("no session within %v", cfg.connectTimeout))
	defer cancel()
	client, err := conn.Dial(dialing, cfg.servers, conn.WithSessionTimeout(cfg.sessionTimeout), conn.WithIdentity(cfg.id))
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }() // never fails
	contest, err := election.New(client, cfg.path, election.WithID(cfg.id))
	if err != nil {
		return err
	}
	return (&candidate{config: cfg, contest: contest, journal: &journal{id: cfg.id, log: demo.NewJournal(out)}}).run(ctx)
}

type candidate struct {
	config
	contest *election.Election
	journal *journal
	resign  chan struct{}        // asks for the end of the term; nil where nobody does
	elected func(*election.Term) // told of every term; nil where nobody wants to know
}

// run observes, and campaigns unless told to follow only, until it is interrupted.
func (c *candidate) run(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		for now, err := range c.contest.Observe(ctx) {
			if err != nil {
				stop(err)
				return
			}
			c.journal.leader(now)
		}
	})
	var err error
	if c.follow {
		<-ctx.Done()
	} else {
		c.journal.event("candidate", 0, "")
		err = c.contest.Run(ctx, c.lead)
	}
	cause := context.Cause(ctx)
	stop(nil)
	wg.Wait()
	if cause != nil && !errors.Is(cause, context.Canceled) {
		err = errors.Join(cause, err) // observing failed
	} else if cause != nil {
		err = nil // interrupted
	}
	c.journal.event("stopped", 0, reason(err))
	return err
}

// lead is one term. Whatever ends it is told before anybody else can be elected: the hold ends first, and only then is
// the node removed.
func (c *candidate) lead(ctx context.Context, term *election.Term) error {
	c.journal.event("elected", term.Token(), "")
	if c.elected != nil {
		c.elected(term)
	}
	var expire <-chan time.Time
	if c.resignAfter > 0 {
		timer := time.NewTimer(c.resignAfter)
		defer timer.Stop()
		expire = timer.C
	}
	select {
	case <-expire:
		c.journal.event("resigned", term.Token(), "resign-after")
	case <-c.resign:
		c.journal.event("resigned", term.Token(), "asked")
	case <-ctx.Done():
		var lost *zkrecipes.LostError
		if !errors.As(term.Err(), &lost) {
			c.journal.event("resigned", term.Token(), "interrupt")
			return nil
		}
		c.journal.event("lost", term.Token(), lost.Reason.String())
	}
	c.journal.event("candidate", 0, "")
	return nil
}

func reason(err error) string {
	if err == nil {
		return "interrupt"
	}
	return err.Error()
}
