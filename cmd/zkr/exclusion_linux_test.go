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

const exclusionTimeout = 2 * time.Second

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
		"lock", "-v", "--log=json", "--stop-timeout=50ms", "--session-timeout", exclusionTimeout.String(), "/lock", "--",
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

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, 20*time.Second, 5*time.Millisecond, what)
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
func (e *exclusion) gap(holder, next int64, counts func(sign) bool) (gap time.Duration, processes int) {
	var last, first time.Duration
	pids := map[int]bool{}
	for _, s := range signs(e.file) {
		switch {
		case !counts(s):
		case s.token == holder:
			last = max(last, s.at)
			pids[s.pid] = true
		case s.token == next && (first == 0 || s.at < first):
			first = s.at
		}
	}
	return first - last, len(pids)
}

// late lists the signs of a holder after the last deadline that it could read.
func (e *exclusion) late(holder int64) (late []sign) {
	for _, s := range signs(e.file) {
		until, err := strconv.ParseInt(s.word, 10, 64)
		if s.token == holder && err == nil && s.at >= time.Duration(until) {
			late = append(late, s)
		}
	}
	return late
}

// rounds is how often each fault is tried: a few times, or as often as the environment says.
func rounds(t *testing.T) int {
	text, set := os.LookupEnv("ZKRECIPES_TEST_ROUNDS")
	if !set {
		return 2
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
		{"program ignores TERM", "deaf", partition, exitLost, 1},
		{"program forks", "forks", partition, exitLost, 2},
		{"program has a daemon", "daemon", partition, exitLost, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := newExclusion(t, c.program)
			least, most := time.Hour, time.Duration(0)
			holder := e.start(t)
			token := e.succession(t, 0)
			for round := range rounds(t) {
				next := e.next(t)
				eventually(t, "all processes of the holder live", func() bool {
					_, processes := e.gap(token, 0, func(sign) bool { return true })
					return processes == c.processes
				})
				c.fault(t, e, holder)
				after := e.succession(t, token)
				e.srv.Heal(zktest.Label(holder.label))
				require.Equal(t, c.status, holder.status(t), holder.err.String())
				gap, _ := e.gap(token, after, func(sign) bool { return true })
				require.Empty(t, e.late(token), "signs of life after the deadline that the program could read")
				require.Positive(t, gap, "round %d: holder %d, next %d\n%s", round, token, after, holder.err.String())
				least, most = min(least, gap), max(most, gap)
				holder, token = next, after
			}
			t.Logf("%d rounds: from the last sign of a holder to the first of the next %v to %v", rounds(t), least, most)
			require.NoError(t, holder.Process.Signal(syscall.SIGTERM))
			holder.status(t)
		})
	}
}

// TestExclusion_FrozenZkr stops zkr past the deadline. The fence refuses its program from when the next one has shown its
// token, and zkr kills it before anything else when it goes on.
func TestExclusion_FrozenZkr(t *testing.T) {
	t.Parallel()
	e := newExclusion(t, "fenced", fenced(t))
	inside := func(s sign) bool { return s.word == "admitted" }
	holder := e.start(t)
	token := e.succession(t, 0)
	var longest time.Duration
	for round := range rounds(t) {
		next := e.next(t)
		require.NoError(t, holder.Process.Signal(syscall.SIGSTOP))
		after := e.succession(t, token)
		eventually(t, "the fence refuses the old program", func() bool {
			return slices.ContainsFunc(signs(e.file), func(s sign) bool { return s.token == token && s.word == "refused" })
		})
		woken := bootClock()
		require.NoError(t, holder.Process.Signal(syscall.SIGCONT))
		require.Equal(t, exitLost, holder.status(t), holder.err.String())
		for _, s := range signs(e.file) {
			if s.token == token {
				longest = max(longest, s.at-woken)
			}
		}
		gap, _ := e.gap(token, after, inside)
		require.Positive(t, gap, "round %d: what the fence admitted of one program came before the next", round)
		require.Equal(t, "kill", firstAfter(t, holder, woken), "round %d", round)
		holder, token = next, after
	}
	assert.Less(t, longest, time.Second, "the old program is killed at once")
	t.Logf("%d rounds: the last sign of a program after zkr went on, at most %v", rounds(t), longest)
	require.NoError(t, holder.Process.Signal(syscall.SIGTERM))
	holder.status(t)
}

// fenced opens a resource with a fence, and returns its address: a line of a client is its token.
func fenced(t *testing.T) string {
	t.Helper()
	gate := fence.New(fence.NewMemory())
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var serving sync.WaitGroup
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
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
			stop := context.AfterFunc(ctx, func() { _ = c.Close() })
			serving.Go(func() {
				defer stop()
				defer c.Close() //nolint:errcheck // the client may have ended it
				for lines := bufio.NewScanner(c); lines.Scan(); {
					token, _ := strconv.ParseInt(lines.Text(), 10, 64)
					word := "admitted"
					if gate.Admit(ctx, "resource", zkrecipes.Token(token)) != nil {
						word = "refused"
					}
					_, _ = fmt.Fprintln(c, word) // the client may have ended
				}
			})
		}
	})
	return l.Addr().String()
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
