// Command partitions divides the partitions of a log among the running processes. Each process consumes the partitions
// that are assigned to it, and records its progress in each. The program prints one line per event.
//
//	go run ./examples/partitions
//	go run ./examples/partitions -servers localhost:2181
//
// Without -servers, it starts a server in the process and plays a story with four members: one is frozen, one crashes,
// and one leaves. With -servers, start it in three terminals. If you interrupt, kill or stop (Ctrl-Z) one, the others
// take over its partitions.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/examples/internal/demo"
	"github.com/zkrecipes/zkrecipes/recipes/shard"
)

type config struct {
	ensemble   demo.Ensemble
	path       string
	id         string
	partitions int
	work       time.Duration
}

func main() { demo.Main("partitions", run) }

func parse(args []string, out io.Writer) (*config, error) {
	c := &config{}
	flags := flag.NewFlagSet("partitions", flag.ContinueOnError)
	c.ensemble.Flags(flags)
	flags.StringVar(&c.path, "path", "/examples/partitions",
		"znode of the members and their plan; the offsets are beside it")
	flags.StringVar(&c.id, "id", fmt.Sprintf("%s-%d", demo.Host(), os.Getpid()), "name of this member (needs -servers)")
	flags.IntVar(&c.partitions, "partitions", 8, "how many partitions the log has; all members need the same")
	flags.DurationVar(&c.work, "work", 50*time.Millisecond, "how long one record takes")
	if err := c.ensemble.Parse(flags, args, out, "id", "session-timeout"); err != nil {
		return nil, err
	}
	if err := conn.ValidatePath(c.path); err != nil {
		return nil, fmt.Errorf("flag -path: %w", err)
	}
	if c.partitions < 1 || c.work <= 0 {
		return nil, fmt.Errorf("flags -partitions %d and -work %v: want more than 0", c.partitions, c.work)
	}
	return c, nil
}

// handle simulates the work for one record.
func (c *config) handle(ctx context.Context) error {
	select {
	case <-time.After(c.work):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// names returns the names of the partitions.
func (c *config) names() []string {
	names := make([]string, c.partitions)
	for i := range names {
		names[i] = fmt.Sprint("p", i)
	}
	return names
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
	m := &member{
		config: c, id: c.id, client: client, journal: demo.NewJournal(out),
		offsets: stored{client, c.path + "-offsets"},
	}
	m.handle, m.serves = c.handle, func(string, bool) {}
	return m.run(ctx)
}

// member is one process that consumes partitions.
type member struct {
	*config
	id      string
	client  *conn.Client
	journal *demo.Journal
	offsets offsets
	handle  func(ctx context.Context) error // handles a record, or returns early with an error
	serves  func(partition string, is bool) // is called when the member starts and stops consuming a partition
}

// run consumes until it is interrupted. It then hands over its partitions one by one.
func (m *member) run(ctx context.Context) error {
	m.journal.Event(m.id, "joins")
	err := shard.Run(ctx, m.client, m.path, shard.List(m.names()...), m.consume, shard.WithID(m.id),
		shard.WithLeave(5*time.Second))
	m.journal.Event(m.id, "leaves")
	if ctx.Err() != nil {
		err = nil // interrupted
	}
	return err
}

// consume handles the records of a partition until ctx is done.
func (m *member) consume(ctx context.Context, s *shard.Shard) error {
	next, err := m.offsets.get(ctx, s)
	if err != nil {
		return err
	}
	m.journal.Event(m.id, "starts", "partition", s.Name, "offset", next, "token", int64(s.Token()))
	m.serves(s.Name, true)
	defer m.serves(s.Name, false)
	for m.handle(ctx) == nil {
		if err := m.offsets.set(ctx, s, next+1); err != nil {
			m.journal.Event(m.id, "refused", "partition", s.Name, "offset", next, "token", int64(s.Token()), "because", err)
			return ctx.Err() // unless ctx is done, returning counts as a failure, and is retried
		}
		next++
	}
	m.journal.Event(m.id, "stops", "partition", s.Name, "offset", next, "because", context.Cause(ctx))
	return nil
}
