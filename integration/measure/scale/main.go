// Package scale measures what the library costs at scale: with many waiters, holds, clients or observers. It prints one
// line for each figure.
//
//	go run ./measure scale                 from integration/
//	go run ./measure scale -only storm
//
// Requests and bytes do not depend on other load on the machine. Times do, and so do the holds that a storm loses.
// Everything takes half an hour, most of it for the sessions.
//
// Other commands measure the rest: counters compared with Curator by `go run ./measure bench -only Counter -slice 2s`,
// a cache of 500,000 nodes by `go run ./measure caches -nodes 500000`.
package scale

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/integration/kit/zkserver"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
)

// point is one measurement, on a server of its own. Only its figures go to the output.
type point struct {
	name    string
	measure func(ctx context.Context, server *zkserver.Server) error
}

var points = []point{
	{"waiters", waiters},
	{"freeze", freeze},
	{"storm", storm},
	{"observers", observers},
	{"idle", idle},
	{"first", firstLock},
	{"sessions", sessions},
}

// Run runs the command with its flags.
func Run(args []string) error {
	flags := flag.NewFlagSet("scale", flag.ExitOnError)
	only := flags.String("only", "", "measure the points whose name contains `text`")
	of := flags.String("of", "", "measure in this process only the sessions of a `library`, ours or go-zookeeper")
	n := flags.Int("sessions", 10_000, "the `number` of sessions for -of")
	_ = flags.Parse(args) // exits on error
	if *of != "" {
		return point{"sessions", sessionsOf(*of, *n)}.run(context.Background())
	}
	for _, p := range points {
		if !strings.Contains(p.name, *only) {
			continue
		}
		if err := p.run(context.Background()); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

func (p point) run(ctx context.Context) (err error) {
	server, err := zkserver.Open(zkserver.WithTickTime(2*time.Second),
		zkserver.WithSetting("globalOutstandingLimit", "100000"),
		zkserver.WithJVM("-Xms256m", "-Xmx1g", "-XX:TieredStopAtLevel=4"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	return p.measure(ctx, server)
}

// tell prints a figure.
func tell(point, format string, values ...any) {
	fmt.Printf("%-10s "+format+"\n", append([]any{point}, values...)...)
}

// timeout is the session timeout of all clients.
const timeout = 15 * time.Second

// dial connects a client whose frames are counted.
func dial(ctx context.Context, server *zkserver.Server, t *tap) (*conn.Client, error) {
	return conn.Dial(ctx, server.Addr(), conn.WithDialer(t.dial), conn.WithSessionTimeout(timeout),
		conn.WithLogger(slog.New(slog.DiscardHandler)))
}

// dialMany connects n clients, a hundred at a time.
func dialMany(ctx context.Context, server *zkserver.Server, t *tap, n int) ([]*conn.Client, error) {
	all := make([]*conn.Client, n)
	return all, each(n, 100, func(i int) (err error) {
		all[i], err = dial(ctx, server, t)
		return err
	})
}

// closeAll closes clients, whether they were connected or not.
func closeAll(all []*conn.Client) {
	_ = each(len(all), 100, func(i int) error { // Close never fails
		if all[i] == nil {
			return nil
		}
		return all[i].Close()
	})
}

// each calls f for 0 to n - 1, with at most width calls at a time.
func each(n, width int, f func(i int) error) error {
	var running sync.WaitGroup
	errs, room := make([]error, n), make(chan struct{}, width)
	for i := range n {
		room <- struct{}{}
		running.Go(func() {
			errs[i] = f(i)
			<-room
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

// lock acquires the lock at path.
func lock(ctx context.Context, c *conn.Client, path string) (*zkrecipes.Hold, error) {
	m, err := mutex.New(c, path)
	if err != nil {
		return nil, err
	}
	return m.Lock(ctx)
}

// take acquires n locks of one client, at different paths below the parent.
func take(ctx context.Context, c *conn.Client, parent string, n int) ([]*zkrecipes.Hold, error) {
	holds := make([]*zkrecipes.Hold, n)
	return holds, each(n, 200, func(i int) (err error) {
		holds[i], err = lock(ctx, c, fmt.Sprintf("%s/%d", parent, i))
		return err
	})
}

// awaitChildren returns once the node has n children. It returns an error if it has fewer after five minutes.
func awaitChildren(ctx context.Context, c *conn.Client, path string, n int) error {
	for start := time.Now(); ; time.Sleep(time.Millisecond) {
		_, stat, err := c.Exists(ctx, path)
		if err != nil || int(stat.NumChildren) >= n {
			return err
		}
		if time.Since(start) > 5*time.Minute {
			return fmt.Errorf("%s has %d children, want %d", path, stat.NumChildren, n)
		}
	}
}
