package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/fence"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// exclusionTimeout is of the sessions. With a shorter one, or a longer grace, a lock would be lost now and then where tests
// share two cores.
const exclusionTimeout = 4 * time.Second

// exclusion is a server on which one zkr after the other holds a lock, each until a fault hits it.
type exclusion struct {
	srv     *zktest.Server
	file    string // of the signs of life
	program []string
	n       int
}

// candidate is one zkr, with an address of the server that only it uses.
type candidate struct {
	*zkr
	label string
}

func newExclusion(t *testing.T, kind string, args ...string) *exclusion {
	srv := zktest.Run(t, zktest.WithTickTime(exclusionTimeout/20)) // sessions end hardly later than they may
	file := filepath.Join(t.TempDir(), "signs")
	return &exclusion{srv: srv, file: file, program: append([]string{kind, file}, args...)}
}

func (e *exclusion) start(t *testing.T) *candidate {
	t.Helper()
	e.n++
	c := &candidate{label: fmt.Sprintf("zkr%d", e.n)}
	args := append([]string{
		"lock", "-v", "--log=json", "--stop-timeout=50ms", "--grace=200ms", "--session-timeout", exclusionTimeout.String(), "/lock", "--",
		os.Args[0], asProgram,
	}, e.program...)
	c.zkr = command(t, address(t, e.srv, c.label), args...)
	require.NoError(t, c.Start())
	return c
}

// next starts a candidate, and waits until it stands in the queue behind the holder.
func (e *exclusion) next(t *testing.T) *candidate {
	t.Helper()
	c := e.start(t)
	eventually(t, "the next candidate waits", func() bool { return len(e.srv.Ephemerals(e.srv.SessionOf(c.label))) > 0 })
	return c
}

// newest is the token of the last holder that has shown a sign of life.
func (e *exclusion) newest() (token int64) {
	for _, s := range signs(e.file) {
		token = max(token, s.token)
	}
	return token
}

// succession waits until a holder after that with the token before has shown a sign of life.
func (e *exclusion) succession(t *testing.T, before int64) (token int64) {
	t.Helper()
	eventually(t, "the next program runs", func() bool {
		token = e.newest()
		return token > before
	})
	return token
}

// gap is the time between the last of the signs of one holder and the first of the next, and how many processes
// of the holder there were.
func (e *exclusion) gap(holder, next int64) (gap time.Duration, processes int) {
	var last, first time.Duration
	pids := map[int]bool{}
	for _, s := range signs(e.file) {
		switch {
		case s.token == holder:
			last = max(last, s.at)
			pids[s.pid] = true
		case s.token == next && (first == 0 || s.at < first):
			first = s.at
		}
	}
	return first - last, len(pids)
}

// late lists the signs of a holder in the half of the kill lead before the last deadline that it could read, and after it.
func (e *exclusion) late(holder int64) (late []sign) {
	for _, s := range signs(e.file) {
		until, err := strconv.ParseInt(s.word, 10, 64)
		if s.token == holder && err == nil && s.at >= time.Duration(until)-defaultLead(exclusionTimeout)/2 {
			late = append(late, s)
		}
	}
	return late
}

// rounds is how often each fault is tried: a few times, or as often as the environment says.
func rounds(t *testing.T) int {
	text, set := os.LookupEnv("ZKRECIPES_TEST_ROUNDS")
	if !set {
		return 1
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err)
	return n
}

// TestExclusion shows for each fault that all which one program has started is gone before the next program starts.
func TestExclusion(t *testing.T) {
	t.Parallel()
	partition := func(t *testing.T, e *exclusion, c *candidate) { e.srv.Stall(zktest.Label(c.label), zktest.Both) }
	expiry := func(t *testing.T, e *exclusion, c *candidate) { e.srv.Stall(zktest.Label(c.label), zktest.ToServer) }
	killed := func(t *testing.T, e *exclusion, c *candidate) { require.NoError(t, c.Process.Kill()) }
	for _, c := range []struct {
		name, program string
		fault         func(*testing.T, *exclusion, *candidate)
		status        int
		processes     int
	}{
		{"partition", "plain", partition, exitLost, 1},
		{"expiry", "plain", expiry, exitLost, 1},
		{"zkr is killed", "plain", killed, -int(syscall.SIGKILL), 1},
		{"zkr is killed, the program forks", "forks", killed, -int(syscall.SIGKILL), 2},
		{"zkr is killed, the program has a daemon", "daemon", killed, -int(syscall.SIGKILL), 2},
		{"program ignores TERM", "deaf", partition, exitLost, 1},
		{"program forks", "forks", partition, exitLost, 2},
		{"program has a daemon", "daemon", partition, exitLost, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := newExclusion(t, c.program)
			least, most, overloaded := time.Hour, time.Duration(0), 0
			holder := e.start(t)
			token := e.succession(t, 0)
			for round := range rounds(t) {
				next := e.next(t)
				eventually(t, "all processes of the holder live", func() bool {
					_, processes := e.gap(token, 0)
					return processes == c.processes
				})
				c.fault(t, e, holder)
				after := e.succession(t, token)
				e.srv.Heal(zktest.Label(holder.label))
				require.Equal(t, c.status, holder.status(t), holder.err.String())
				gap, _ := e.gap(token, after)
				if strings.Contains(holder.err.String(), `"event":"late"`) {
					overloaded++ // a process that is not run cannot keep deadlines
				} else {
					require.Empty(t, e.late(token), "signs of life at the deadline that the program could read")
				}
				require.Positive(t, gap, "round %d: holder %d, next %d\n%s", round, token, after, holder.err.String())
				least, most = min(least, gap), max(most, gap)
				holder, token = next, after
			}
			t.Logf("%d rounds: from the last sign of a holder to the first of the next %v to %v; in %d zkr did not run in time",
				rounds(t), least, most, overloaded)
			require.NoError(t, holder.Process.Signal(syscall.SIGTERM))
			holder.status(t)
		})
	}
}

// TestExclusion_FrozenZkr stops zkr past the deadline. Its guard kills the program before the next one starts.
func TestExclusion_FrozenZkr(t *testing.T) {
	t.Parallel()
	e := newExclusion(t, "daemon")
	holder := e.start(t)
	token := e.succession(t, 0)
	least := time.Hour
	for round := range rounds(t) {
		next := e.next(t)
		require.NoError(t, holder.Process.Signal(syscall.SIGSTOP))
		after := e.succession(t, token)
		gap, _ := e.gap(token, after)
		require.Positive(t, gap, "round %d: holder %d, next %d", round, token, after)
		least = min(least, gap)
		require.NoError(t, holder.Process.Signal(syscall.SIGCONT))
		require.Equal(t, exitLost, holder.status(t), holder.err.String())
		holder, token = next, after
	}
	t.Logf("%d rounds: from the last sign of a holder to the first of the next at least %v", rounds(t), least)
	require.NoError(t, holder.Process.Signal(syscall.SIGTERM))
	holder.status(t)
}

// TestExclusion_FrozenMachine stops zkr and its guard past the deadline, as when a virtual machine is paused, but not the
// program. The fence refuses the program from when the next one has shown its token, and it is killed when zkr goes on.
func TestExclusion_FrozenMachine(t *testing.T) {
	t.Parallel()
	r := newResource(t)
	e := newExclusion(t, "fenced", r.address)
	holder := e.start(t)
	token := e.succession(t, 0)
	var longest time.Duration
	for range rounds(t) {
		next := e.next(t)
		guard := guardOf(t, holder.Process.Pid)
		require.NoError(t, syscall.Kill(guard, syscall.SIGSTOP))
		require.NoError(t, holder.Process.Signal(syscall.SIGSTOP))
		after := e.succession(t, token)
		eventually(t, "the fence refuses the old program", func() bool {
			return slices.ContainsFunc(signs(e.file), func(s sign) bool { return s.token == token && s.word == "refused" })
		})
		woken := bootClock()
		require.NoError(t, holder.Process.Signal(syscall.SIGCONT))
		_ = syscall.Kill(guard, syscall.SIGCONT) // zkr may have killed it with the group of the program
		require.Equal(t, exitLost, holder.status(t), holder.err.String())
		for _, s := range signs(e.file) {
			if s.token == token {
				longest = max(longest, s.at-woken)
			}
		}
		require.Contains(t, []string{"kill", "lost"}, firstAfter(t, holder, woken))
		holder, token = next, after
	}
	assert.Less(t, longest, time.Second, "the old program is killed at once")
	assert.True(t, slices.IsSorted(r.admitted()), "no program was admitted after the next one")
	t.Logf("%d rounds: the last sign of a program after zkr went on, at most %v", rounds(t), longest)
	require.NoError(t, holder.Process.Signal(syscall.SIGTERM))
	holder.status(t)
}

// resource is guarded by a fence. Each line of a client is its token, and a use of the resource.
type resource struct {
	address string
	gate    *fence.Gate
	mu      sync.Mutex // Admit and the use are one step
	uses    []int64    // the tokens
}

func newResource(t *testing.T) *resource {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r := &resource{address: l.Addr().String(), gate: fence.New(fence.NewMemory())}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var serving sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		assert.NoError(t, l.Close())
		serving.Wait()
	})
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { r.serve(ctx, c) })
		}
	})
	return r
}

func (r *resource) serve(ctx context.Context, c net.Conn) {
	defer c.Close() //nolint:errcheck // the client may have ended it
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	for lines := bufio.NewScanner(c); lines.Scan(); {
		token, _ := strconv.ParseInt(lines.Text(), 10, 64)
		_, _ = fmt.Fprintln(c, r.use(ctx, token)) // the client may have ended
	}
}

func (r *resource) use(ctx context.Context, token int64) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gate.Admit(ctx, "resource", zkrecipes.Token(token)) != nil {
		return "refused"
	}
	r.uses = append(r.uses, token)
	return "admitted"
}

func (r *resource) admitted() []int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.uses)
}

// firstAfter is the first event that zkr told after a moment of the boot clock. What the connection logs is no event.
func firstAfter(t *testing.T, c *candidate, moment time.Duration) string {
	t.Helper()
	wall := time.Now().Add(moment - bootClock())
	for line := range strings.SplitSeq(c.err.String(), "\n") {
		var told struct {
			Time  time.Time
			Event string
		}
		if json.Unmarshal([]byte(line), &told) == nil && told.Event != "" && told.Time.After(wall) {
			return told.Event
		}
	}
	return "nothing"
}
