// Command workers divides work among the running processes. Each worker joins a group, follows it, and computes its
// share. The program prints one line per event.
//
//	go run ./examples/workers
//	go run ./examples/workers -servers localhost:2181
//
// Without -servers, it starts a server in the process and plays a story with four workers. With -servers, start it in
// three terminals. If you stop, kill or disconnect one, the others take over its share.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/examples/internal/demo"
	"github.com/zkrecipes/zkrecipes/recipes/group"
)

type config struct {
	ensemble demo.Ensemble
	path     string
	id       string
	address  string
	parts    int
	verbose  bool
}

func main() { demo.Main("workers", run) }

func parse(args []string, out io.Writer) (*config, error) {
	c := &config{}
	flags := flag.NewFlagSet("workers", flag.ContinueOnError)
	c.ensemble.Flags(flags)
	flags.StringVar(&c.path, "path", "/examples/workers", "znode of the group")
	flags.StringVar(&c.id, "id", fmt.Sprintf("%s-%d", demo.Host(), os.Getpid()), "name of this worker (needs -servers)")
	flags.StringVar(&c.address, "address", demo.Host(), "what the others see as its address (needs -servers)")
	flags.IntVar(&c.parts, "parts", 12, "into how many parts the work is divided; all workers need the same")
	flags.BoolVar(&c.verbose, "v", false, "also print the members that each worker sees; always on with -servers")
	if err := c.ensemble.Parse(flags, args, out, "id", "address", "session-timeout"); err != nil {
		return nil, err
	}
	if err := conn.ValidatePath(c.path); err != nil {
		return nil, fmt.Errorf("flag -path: %w", err)
	}
	if c.parts < 1 {
		return nil, fmt.Errorf("flag -parts %d: want 1 or more", c.parts)
	}
	return c, nil
}

func run(ctx context.Context, args []string, out io.Writer) error {
	c, err := parse(args, out)
	if err != nil {
		return err
	}
	if !c.ensemble.External() {
		return tell(ctx, c, out)
	}
	client, err := c.ensemble.Dial(ctx, c.id)
	if err != nil {
		return err
	}
	defer client.Close()
	w := &worker{
		id: c.id, address: c.address, path: c.path, parts: c.parts, verbose: true,
		client: client, journal: demo.NewJournal(out),
	}
	return w.run(ctx)
}

type worker struct {
	id, address, path string
	parts             int
	verbose           bool // also prints the members
	client            *conn.Client
	journal           *demo.Journal
	took              func(share []int) // is called with each share; may be nil
}

// run joins, and takes a share of the work, until it is interrupted.
func (w *worker) run(ctx context.Context) error {
	g, err := group.New(w.client, w.path)
	if err != nil {
		return err
	}
	m, err := g.Join(ctx, w.id, []byte(w.address))
	if err == nil {
		w.journal.Event(w.id, "joined")
		err = errors.Join(w.follow(ctx, g), w.leave(ctx, m))
	}
	if ctx.Err() != nil {
		err = nil // interrupted
	}
	return err
}

// follow takes a share after each change to the group.
func (w *worker) follow(ctx context.Context, g *group.Group) error {
	var last []int
	for view, err := range g.Watch(ctx, group.WithPayloads(), group.WithSettle(50*time.Millisecond, time.Second)) {
		if err != nil {
			return err
		}
		if view.Current && w.verbose {
			w.journal.Event(w.id, "sees", "members", names(view.Members))
		}
		now := share(view.Members, w.id, w.parts)
		switch {
		case !view.Current: // no connection, or the members are changing: others may take over this share
			w.journal.Event(w.id, "outdated", "stops", list(last))
			now = nil
		case !slices.Equal(now, last):
			w.journal.Event(w.id, "takes", "parts", list(now))
		}
		if last = now; w.took != nil {
			w.took(now)
		}
	}
	return nil
}

// leave makes the others take over immediately, instead of after the session timeout.
func (w *worker) leave(ctx context.Context, m *group.Membership) error {
	w.journal.Event(w.id, "leaves")
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	return m.Close(ctx)
}

// list returns parts as 1,2,3.
func list(parts []int) string {
	if len(parts) == 0 {
		return "none"
	}
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(parts), "[]"), " ", ",")
}

// names returns members as id@address, the oldest first.
func names(members []group.Member) string {
	all := make([]string, len(members))
	for i, m := range members {
		all[i] = m.ID + "@" + string(m.Data)
	}
	return strings.Join(all, ",")
}
