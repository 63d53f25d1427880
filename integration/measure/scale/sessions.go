package scale

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/integration/kit/zkserver"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
)

// gateway is one of many sessions of a process that locks for others, with either library.
type gateway struct {
	isUp  func() bool
	id    func() int64
	lock  func(ctx context.Context, path string) error
	close func()
}

// library opens a gateway, and returns once it is connected.
type library struct {
	name string
	open func(ctx context.Context, server *zkserver.Server, t *tap) (*gateway, error)
}

var libraries = []library{{"ours", openOurs}, {"go-zookeeper", openTheirs}}

func openOurs(ctx context.Context, server *zkserver.Server, t *tap) (*gateway, error) {
	c, err := dial(ctx, server, t)
	if err != nil {
		return nil, err
	}
	return &gateway{
		isUp: func() bool { return c.Status().State == zkrecipes.Connected },
		id:   func() int64 { return c.Status().Session },
		lock: func(ctx context.Context, path string) error {
			_, err := lock(ctx, c, path)
			return err
		},
		close: func() { _ = c.Close() }, // never fails
	}, nil
}

func openTheirs(ctx context.Context, server *zkserver.Server, t *tap) (*gateway, error) {
	c, _, err := zk.Connect([]string{server.Addr()}, timeout,
		zk.WithLogger(log.New(io.Discard, "", 0)), zk.WithDialer(t.dialWithin))
	if err != nil {
		return nil, err
	}
	g := &gateway{
		isUp:  func() bool { return c.State() == zk.StateHasSession },
		id:    c.SessionID,
		lock:  func(_ context.Context, path string) error { return zk.NewLock(c, path, zk.WorldACL(zk.PermAll)).Lock() },
		close: c.Close,
	}
	return g, until(ctx, func() bool { return g.isUp() })
}

// sessions: what each of n sessions of one process takes, without and with a lock, and how long they are away when the
// server restarts. Each measurement has a process, and a server, of its own: go-zookeeper's 10,000 sessions leave 31 GB
// of heap behind.
func sessions(ctx context.Context, _ *zkserver.Server) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for _, n := range []int{1000, 3000, 10_000} {
		for _, l := range libraries {
			child := exec.CommandContext(ctx, self, "scale", "-of", l.name, "-sessions", strconv.Itoa(n))
			child.Stdout, child.Stderr = os.Stdout, os.Stderr
			if err := child.Run(); err != nil {
				return fmt.Errorf("%d of %s: %w", n, l.name, err)
			}
		}
	}
	return nil
}

// sessionsOf is sessions for one library and one number.
func sessionsOf(name string, n int) func(context.Context, *zkserver.Server) error {
	i := slices.IndexFunc(libraries, func(l library) bool { return l.name == name })
	return func(ctx context.Context, server *zkserver.Server) error {
		if i < 0 {
			return fmt.Errorf("%q: want ours or go-zookeeper", name)
		}
		return libraries[i].measure(ctx, server, n)
	}
}

func (l library) measure(ctx context.Context, server *zkserver.Server, n int) error {
	var t tap
	all := make([]*gateway, n)
	defer func() {
		_ = each(n, 100, func(i int) error { // never fails
			if all[i] != nil {
				all[i].close()
			}
			return nil
		})
	}()
	who := fmt.Sprintf("%6d of %s", n, l.name)
	before := memory()
	began := time.Now()
	if err := each(n, 500, func(i int) (err error) {
		all[i], err = l.open(ctx, server, &t)
		return err
	}); err != nil {
		return err
	}
	tell("sessions", "%s: connected after %v", who, time.Since(began).Round(10*time.Millisecond))
	rest := func(what string) error {
		upkeep(server, &t, who+what)
		after := memory()
		tell("sessions", "%s: %.1f KB of heap, %.1f KB of stacks and %.1f goroutines each", who+what,
			float64(after.heap-before.heap)/float64(n)/1000, float64(after.stacks-before.stacks)/float64(n)/1000,
			float64(after.goroutines-before.goroutines)/float64(n))
		return restart(ctx, server, all, who+what)
	}
	if err := rest(", without a lock"); err != nil {
		return err
	}
	began = time.Now()
	if err := each(n, 200, func(i int) error {
		return all[i].lock(ctx, fmt.Sprintf("/sessions/%s/%d", l.name, i))
	}); err != nil {
		return err
	}
	tell("sessions", "%s: locked after %v", who, time.Since(began).Round(10*time.Millisecond))
	return rest(", with a lock each")
}

// upkeep counts what idle sessions send and receive, and the processor time that they take.
func upkeep(server *zkserver.Server, t *tap, what string) {
	time.Sleep(timeout) // until they have settled
	pings, syncs, in, out := t.pings.Load(), t.syncs.Load(), t.bytes.Load(), t.sent.Load()
	began, ours, servers := time.Now(), zkserver.CPU(os.Getpid()), zkserver.CPU(server.PID())
	time.Sleep(timeout)
	took := time.Since(began)
	second := func(n int64) float64 { return float64(n) / took.Seconds() }
	ours, servers = zkserver.CPU(os.Getpid())-ours, zkserver.CPU(server.PID())-servers
	tell("sessions", "%s, a second: %.0f pings, %.0f syncs, %.0f KB read, %.0f KB written, %.0f ms of processor time, "+
		"%.0f ms of the server's", what, second(t.pings.Load()-pings), second(t.syncs.Load()-syncs),
		second(t.bytes.Load()-in)/1000, second(t.sent.Load()-out)/1000, second(ours.Milliseconds()),
		second(servers.Milliseconds()))
}

// restart restarts the server. When are all sessions connected again, and how many are new ones?
func restart(ctx context.Context, server *zkserver.Server, all []*gateway, what string) error {
	ids := make([]int64, len(all))
	for i, g := range all {
		ids[i] = g.id()
	}
	if err := server.Stop(); err != nil {
		return err
	}
	up := func() (up int) {
		for _, g := range all {
			if g.isUp() {
				up++
			}
		}
		return up
	}
	if err := until(ctx, func() bool { return up() == 0 }); err != nil {
		return err
	}
	began, started := time.Now(), make(chan error, 1)
	go func() { started <- server.Restart() }()
	var first, half, last time.Time
	err := until(ctx, func() bool {
		now := up()
		for least, at := range map[int]*time.Time{1: &first, len(all) / 2: &half, len(all): &last} {
			if at.IsZero() && now >= least {
				*at = time.Now()
			}
		}
		return now == len(all)
	})
	if err := errors.Join(<-started, err); err != nil {
		return err
	}
	lost := 0
	for i, g := range all {
		if g.id() != ids[i] {
			lost++
		}
	}
	tell("sessions", "%s: the server restarts, the first is connected after %v, half %v later, all %v later, "+
		"%d in new sessions", what, first.Sub(began).Round(10*time.Millisecond), half.Sub(first).Round(10*time.Millisecond),
		last.Sub(first).Round(10*time.Millisecond), lost)
	return nil
}

// until waits for a condition. Errors: it does not hold after five minutes.
func until(ctx context.Context, holds func() bool) error {
	for start := time.Now(); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Since(start) > 5*time.Minute {
			return errors.New("not after five minutes")
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// usage is what the live objects of the process take.
type usage struct {
	heap, stacks int64
	goroutines   int
}

func memory() usage {
	u := usage{heap: bubble.Heap(), goroutines: runtime.NumGoroutine()}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	u.stacks = int64(m.StackInuse)
	return u
}
