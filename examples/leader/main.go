// Command leader campaigns in an election, prints one line per event, and hands over when it is interrupted.
//
//	go run ./examples/leader
//	go run ./examples/leader -servers localhost:2181
//	go run ./examples/leader -servers localhost:2181 -http localhost:8080
//
// Without -servers, it starts a server in the process and plays a story with three candidates. With -servers, start it
// in three terminals: one of them becomes the leader. If you stop, kill or disconnect that one, another one takes over.
// With -http, each also answers /readyz, /leader and /self.
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
	"github.com/zkrecipes/zkrecipes/recipes/election"
)

type config struct {
	ensemble    demo.Ensemble
	path        string
	id          string
	resignAfter time.Duration
	follow      bool
	verbose     bool
	http        string
}

func main() { demo.Main("leader", run) }

func parse(args []string, out io.Writer) (*config, error) {
	c := &config{}
	flags := flag.NewFlagSet("leader", flag.ContinueOnError)
	c.ensemble.Flags(flags)
	flags.StringVar(&c.path, "path", "/examples/leader", "znode of the election")
	flags.StringVar(&c.id, "id", fmt.Sprintf("%s/%d", demo.Host(), os.Getpid()), "name of this candidate (needs -servers)")
	flags.DurationVar(&c.resignAfter, "resign-after", 0,
		"resign after this long and stand again; 0 is never (needs -servers)")
	flags.BoolVar(&c.follow, "follow", false, "do not stand, only print who leads (needs -servers)")
	flags.BoolVar(&c.verbose, "v", false, "also print what each candidate sees of the others; always on with -servers")
	flags.StringVar(&c.http, "http", "",
		"serve /readyz, /leader and /self on this address, such as localhost:8080 (needs -servers)")
	if err := c.ensemble.Parse(flags, args, out, "id", "resign-after", "follow", "session-timeout", "http"); err != nil {
		return nil, err
	}
	if err := conn.ValidatePath(c.path); err != nil {
		return nil, fmt.Errorf("flag -path: %w", err)
	}
	if c.resignAfter < 0 {
		return nil, fmt.Errorf("flag -resign-after %v: want 0 or more", c.resignAfter)
	}
	return c, nil
}

func run(ctx context.Context, args []string, out io.Writer) error {
	c, err := parse(args, out)
	if err != nil {
		return err
	}
	if !c.ensemble.External() {
		return tell(ctx, c.path, c.verbose, out)
	}
	client, err := c.ensemble.Dial(ctx, c.id)
	if err != nil {
		return err
	}
	defer client.Close()
	contest, err := election.New(client, c.path, election.WithData([]byte(c.id)))
	if err != nil {
		return err
	}
	alone := &candidate{
		id: c.id, contest: contest, journal: demo.NewJournal(out),
		resignAfter: c.resignAfter, observes: true, follows: c.follow,
	}
	if c.http != "" {
		at, stop, err := serve(ctx, c.http, client, contest)
		if err != nil {
			return fmt.Errorf("flag -http: %w", err)
		}
		defer stop()
		alone.journal.Event(c.id, "serving", "http", at)
	}
	return alone.run(ctx)
}

type candidate struct {
	id          string
	contest     *election.Election
	journal     *demo.Journal
	resignAfter time.Duration
	observes    bool                 // prints what it sees
	follows     bool                 // does not campaign
	resign      chan struct{}        // a value requests the end of the term; may be nil
	elected     func(*election.Term) // is called at the start of each term; may be nil
}

// run observes the election and campaigns in it until it is interrupted.
func (c *candidate) run(interrupted context.Context) error {
	ctx, stop := context.WithCancelCause(interrupted)
	var observing sync.WaitGroup
	if c.observes {
		observing.Go(func() { stop(c.observe(ctx)) })
	}
	var err error
	if c.follows {
		<-ctx.Done()
	} else {
		c.journal.Event(c.id, "candidate")
		err = c.contest.Run(ctx, c.lead)
	}
	cause := context.Cause(ctx)
	stop(nil)
	observing.Wait()
	if interrupted.Err() != nil {
		err = nil
	} else if cause != nil {
		err = errors.Join(cause, err) // the observer failed
	}
	reason := "interrupt"
	if err != nil {
		reason = err.Error()
	}
	c.journal.Event(c.id, "stopped", "reason", reason)
	return err
}

// observe prints each change of leader until ctx is done.
func (c *candidate) observe(ctx context.Context) error {
	for now, err := range c.contest.Watch(ctx) {
		switch {
		case err != nil:
			return err
		case !now.Current: // the connection is lost, and the leader may change unseen
			c.journal.Event(c.id, "outdated", "asof", now.AsOf.Format(time.TimeOnly))
		case !now.Exists:
			c.journal.Event(c.id, "leader", "leader", "none")
		default:
			c.journal.Event(c.id, "leader", "token", now.Leader.Token, "leader", now.Leader.Name)
		}
	}
	return nil
}

// lead runs for one term. It prints the end of the term before it returns. Because the candidate's node is deleted only
// after that, the next candidate is elected after that line.
func (c *candidate) lead(ctx context.Context, term *election.Term) error {
	c.journal.Event(c.id, "elected", "token", term.Token())
	if c.elected != nil {
		c.elected(term)
	}
	var after <-chan time.Time
	if c.resignAfter > 0 {
		timer := time.NewTimer(c.resignAfter)
		defer timer.Stop()
		after = timer.C
	}
	var reason string
	event := "resigned"
	select {
	case <-after:
		reason = "resign-after"
	case <-c.resign:
		reason = "asked"
	case <-ctx.Done():
		reason = "interrupt"
	}
	var lost *zkrecipes.LostError
	if errors.As(term.Err(), &lost) { // even if the process was frozen, and woke up for another reason
		event, reason = "lost", lost.Reason.String()
	}
	c.journal.Event(c.id, event, "token", term.Token(), "reason", reason)
	if reason != "interrupt" {
		c.journal.Event(c.id, "candidate")
	}
	return nil
}
