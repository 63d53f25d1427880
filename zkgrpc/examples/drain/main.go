// Command drain shows a gRPC service with three instances while one is drained, one crashes and one is cut off from
// ZooKeeper. It prints which instances have answered calls, and how many calls have failed.
//
//	go run ./examples/drain
//
// Everything is in this process: a ZooKeeper, the instances with a client each, and the callers with their own
// client.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"time"

	"github.com/zkrecipes/zkrecipes/zktest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := tell(ctx, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "drain:", err)
		os.Exit(1)
	}
}

// Sessions are short, so that the story does not wait long for the session of a crashed instance. The bound is a safety
// net.
const (
	session = 2 * time.Second
	tick    = 250 * time.Millisecond
	callers = 4
	pause   = time.Second     // duration of a step
	expiry  = 4 * time.Second // duration of a step in which a session expires
	bound   = time.Minute
)

const legend = `%d callers call a gRPC service all the time, round robin. Sessions of ZooKeeper time out after %v.
A line is: time since the start, what is done, and below it how many calls each instance has answered since, and how many have failed.
`

// step is one scene of the story.
type step struct {
	say     string
	do      func() error
	lasts   time.Duration
	mayFail int      // how many calls at most
	serving []string // who answers at the end
}

// tell plays the life of a service. It returns an error if a call fails that should not, or if the wrong instances
// answer.
func tell(ctx context.Context, out io.Writer) error {
	ctx, cancel := context.WithTimeoutCause(ctx, bound, errors.New("the story takes too long"))
	defer cancel()
	server, err := zktest.Start(zktest.InMemory(), zktest.WithTickTime(tick))
	if err != nil {
		return err
	}
	defer server.Close()
	say(out, legend, callers, session)
	s := &service{ctx: ctx, zookeeper: server, cast: map[string]*instance{}, network: network{}}
	defer s.end()
	if err := s.start("anna", "ben", "cleo"); err != nil {
		return err
	}
	c, err := s.call(ctx)
	if err != nil {
		return err
	}
	defer c.end()
	err = play(ctx, out, c, []step{
		{"anna, ben and cleo serve", func() error { return nil }, pause, 0, []string{"anna", "ben", "cleo"}},
		{
			"anna is drained: out of ZooKeeper first, then it ends its calls", s.drain("anna"), pause, 0,
			[]string{"ben", "cleo"},
		},
		{"dora starts", func() error { return s.start("dora") }, pause, 0, []string{"ben", "cleo", "dora"}},
		{
			"ben crashes: calls under way may fail, and it is listed until its session expires", s.crash("ben"), expiry, callers,
			[]string{"cleo", "dora"},
		},
		{
			"cleo is cut off from ZooKeeper: callers leave it when its session expires", s.stall("cleo"), expiry, 0,
			[]string{"dora"},
		},
		{"cleo has ZooKeeper again, and registers by itself", s.heal("cleo"), expiry, 0, []string{"cleo", "dora"}},
		{
			"callers are cut off from ZooKeeper: they keep their addresses", s.stall("callers"), expiry, 0,
			[]string{"cleo", "dora"},
		},
	})
	if errors.Is(context.Cause(ctx), context.Canceled) {
		return nil // interrupted
	}
	return err
}

func play(ctx context.Context, out io.Writer, c *caller, steps []step) error {
	began := time.Now()
	for _, step := range steps {
		c.count() // resets the counts
		say(out, "%7.3f s  %s\n", time.Since(began).Seconds(), step.say)
		if err := step.do(); err != nil {
			return err
		}
		if err := sleep(ctx, step.lasts); err != nil {
			return err
		}
		answered, failures := c.count()
		say(out, "%11s%s  failed %d\n", "", list(answered), len(failures))
		if len(failures) > step.mayFail {
			return fmt.Errorf("%d calls failed, the first with %w", len(failures), failures[0])
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
		answered, failures = c.count()
		if names := sorted(answered); !slices.Equal(names, step.serving) || len(failures) > 0 {
			return fmt.Errorf("%v answered, want %v; failures: %w", names, step.serving, errors.Join(failures...))
		}
	}
	say(out, "%7.3f s  the end\n", time.Since(began).Seconds())
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// say prints. If nobody reads the output, the story continues.
func say(out io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(out, format, args...) }
