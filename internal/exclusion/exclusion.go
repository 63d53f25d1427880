//go:build linux

// Package exclusion tests that all which one zkr has started is gone before the next zkr starts its program. The tests run on
// zktest and on a real server.
package exclusion

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"os/exec"
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

	"github.com/zkrecipes/zkrecipes/conn"
)

// Timeout is the session timeout. With a shorter one, or a longer grace, a lock would be lost now and then where tests share
// two cores.
const Timeout = 4 * time.Second

// Tick is the tickTime of a server for these tests: its sessions end hardly later than they may.
const Tick = Timeout / 20

// lead is how long before the deadline zkr kills.
const lead = 200 * time.Millisecond

// lost is the exit status of zkr when the lock was lost.
const lost = 79

// Setting is where the tests run.
type Setting struct {
	Server string                                     // its address, without faults
	Link   func(t *testing.T) Link                    // for one zkr
	Zkr    func(context.Context, ...string) *exec.Cmd // zkr with arguments
	Rounds int                                        // how often each fault is tried, unless ZKRECIPES_TEST_ROUNDS says it
}

// Link is the way of one zkr to the server.
type Link struct {
	Address   string
	Partition func() // neither side hears the other one
	Mute      func() // the server hears nothing of zkr
	Heal      func() // ends both
}

// stage is a lock that one zkr after the other holds, each until a fault hits it.
type stage struct {
	Setting
	path    string
	file    string // of the signs of life
	program []string
	client  *conn.Client // of the test itself
}

// candidate is one zkr.
type candidate struct {
	*exec.Cmd
	link Link
	log  lockedBuffer
}

// lockedBuffer can be read while it is being written.
type lockedBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *lockedBuffer) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(text)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}

func newStage(t *testing.T, setting Setting, path, kind string, args ...string) *stage {
	t.Helper()
	if text, set := os.LookupEnv("ZKRECIPES_TEST_ROUNDS"); set {
		var err error
		setting.Rounds, err = strconv.Atoi(text)
		require.NoError(t, err)
	}
	file := filepath.Join(t.TempDir(), "signs")
	program := append([]string{os.Args[0], asProgram, kind, file}, args...)
	client, err := conn.Dial(t.Context(), setting.Server, conn.WithSessionTimeout(Timeout), conn.WithLogger(slog.New(slog.DiscardHandler)))
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() }) // it returns nil
	return &stage{setting, path, file, program, client}
}

// start starts a candidate. It is killed if it outlives the test.
func (s *stage) start(t *testing.T) *candidate {
	t.Helper()
	c := &candidate{link: s.Link(t)}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	c.Cmd = s.Zkr(ctx, append([]string{
		"lock", "-v", "--log=json", "--stop-timeout=50ms", "--grace=200ms", "--kill-lead", lead.String(),
		"--session-timeout", Timeout.String(), s.path, "--",
	}, s.program...)...)
	c.Env = append(c.Environ(), "ZKR_SERVERS="+c.link.Address)
	c.Stderr = &c.log
	c.WaitDelay = 5 * time.Second // a frozen one ends late as well
	require.NoError(t, c.Start())
	t.Cleanup(func() {
		cancel()
		if c.ProcessState == nil {
			_ = c.Wait() // it was killed
		}
		if t.Failed() {
			t.Logf("zkr said\n%s", c.log.String())
		}
	})
	return c
}

// status waits for the end, and returns the exit status, or the signal that ended it with a minus.
func (c *candidate) status(t *testing.T) int {
	t.Helper()
	err := c.Wait()
	var ended *exec.ExitError
	if !errors.As(err, &ended) {
		require.NoError(t, err, c.log.String())
		return 0
	}
	if status, ok := ended.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return -int(status.Signal())
	}
	return ended.ExitCode()
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, 20*time.Second, 20*time.Millisecond, what)
}

// next starts a candidate, and waits until it stands in the queue behind the holder.
func (s *stage) next(t *testing.T) *candidate {
	t.Helper()
	c := s.start(t)
	eventually(t, "the next candidate waits", func() bool {
		queue, err := s.client.Children(t.Context(), s.path)
		return err == nil && len(queue) == 2
	})
	return c
}

// succession waits until a holder after that with the token before has shown a sign of life.
func (s *stage) succession(t *testing.T, before int64) (token int64) {
	t.Helper()
	eventually(t, "the next program runs", func() bool {
		for _, one := range signs(s.file) {
			token = max(token, one.token)
		}
		return token > before
	})
	return token
}

// stop ends the last holder.
func (c *candidate) stop(t *testing.T) {
	t.Helper()
	require.NoError(t, c.Process.Signal(syscall.SIGTERM))
	c.status(t)
}

// gap is the time between the last of the signs of one holder and the first of the next, and how many processes
// of the holder there were.
func (s *stage) gap(holder, next int64) (gap time.Duration, processes int) {
	var last, first time.Duration
	pids := map[int]bool{}
	for _, one := range signs(s.file) {
		switch {
		case one.token == holder:
			last = max(last, one.at)
			pids[one.pid] = true
		case one.token == next && (first == 0 || one.at < first):
			first = one.at
		}
	}
	return first - last, len(pids)
}

// late lists the signs of a holder in the half of the kill lead before the last deadline that it could read, and after it.
func (s *stage) late(holder int64) (late []sign) {
	for _, one := range signs(s.file) {
		until, err := strconv.ParseInt(one.word, 10, 64)
		if one.token == holder && err == nil && one.at >= time.Duration(until)-lead/2 {
			late = append(late, one)
		}
	}
	return late
}

// Run runs the tests. It calls open for each of them.
func Run(t *testing.T, open func(t *testing.T) Setting) {
	partition := func(_ *testing.T, c *candidate) { c.link.Partition() }
	expiry := func(_ *testing.T, c *candidate) { c.link.Mute() }
	killed := func(t *testing.T, c *candidate) { require.NoError(t, c.Process.Kill()) }
	for _, c := range []struct {
		name, program string
		fault         func(*testing.T, *candidate)
		status        int
		processes     int
	}{
		{"partition", "plain", partition, lost, 1},
		{"expiry", "plain", expiry, lost, 1},
		{"zkr is killed", "plain", killed, -int(syscall.SIGKILL), 1},
		{"program ignores TERM", "deaf", partition, lost, 1},
		{"program forks", "forks", partition, lost, 2},
		{"program has a daemon", "daemon", partition, lost, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, open(t), "/exclusion/"+strings.ReplaceAll(c.name, " ", "-"), c.program)
			least, most, overloaded := time.Hour, time.Duration(0), 0
			holder := s.start(t)
			token := s.succession(t, 0)
			for round := range s.Rounds {
				next := s.next(t)
				eventually(t, "all processes of the holder live", func() bool {
					_, processes := s.gap(token, 0)
					return processes == c.processes
				})
				c.fault(t, holder)
				after := s.succession(t, token)
				holder.link.Heal()
				require.Equal(t, c.status, holder.status(t), holder.log.String())
				gap, _ := s.gap(token, after)
				if strings.Contains(holder.log.String(), `"event":"late"`) {
					overloaded++ // a process that is not run cannot keep deadlines
				} else {
					require.Empty(t, s.late(token), "signs of life at the deadline that the program could read")
				}
				require.Positive(t, gap, "round %d: holder %d, next %d\n%s", round, token, after, holder.log.String())
				least, most = min(least, gap), max(most, gap)
				holder, token = next, after
			}
			t.Logf("%d rounds: from the last sign of a holder to the first of the next %v to %v; in %d zkr did not run in time",
				s.Rounds, least, most, overloaded)
			holder.stop(t)
		})
	}
	t.Run("zkr is frozen", func(t *testing.T) {
		t.Parallel()
		frozen(t, open(t))
	})
}

// frozen stops zkr past the deadline. The fence refuses its program from when the next one has shown its token, and zkr kills
// it before anything else when it goes on.
func frozen(t *testing.T, setting Setting) {
	t.Helper()
	r := newResource(t)
	s := newStage(t, setting, "/exclusion/frozen", "fenced", r.address)
	holder := s.start(t)
	token := s.succession(t, 0)
	var longest time.Duration
	for round := range s.Rounds {
		next := s.next(t)
		require.NoError(t, holder.Process.Signal(syscall.SIGSTOP))
		after := s.succession(t, token)
		eventually(t, "the fence refuses the old program", func() bool {
			return slices.ContainsFunc(signs(s.file), func(one sign) bool { return one.token == token && one.word == "refused" })
		})
		woken := bootClock()
		require.NoError(t, holder.Process.Signal(syscall.SIGCONT))
		require.Equal(t, lost, holder.status(t), holder.log.String())
		for _, one := range signs(s.file) {
			if one.token == token {
				longest = max(longest, one.at-woken)
			}
		}
		require.Equal(t, "kill", holder.firstAfter(woken), "round %d", round)
		holder, token = next, after
	}
	assert.Less(t, longest, time.Second, "the old program is killed at once")
	assert.True(t, slices.IsSorted(r.admitted()), "no program was admitted after the next one")
	t.Logf("%d rounds: the last sign of a program after zkr went on, at most %v", s.Rounds, longest)
	holder.stop(t)
}

// firstAfter is the first event that zkr told after a moment of the boot clock. What the connection logs is no event.
func (c *candidate) firstAfter(moment time.Duration) string {
	wall := time.Now().Add(moment - bootClock())
	for line := range strings.SplitSeq(c.log.String(), "\n") {
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
