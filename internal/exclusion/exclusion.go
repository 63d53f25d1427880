//go:build linux

// Package exclusion tests that all that one zkr has started is gone before the next zkr starts its program. The tests run on
// zktest and on a real server.
package exclusion

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
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

	"github.com/stretchr/testify/require"
)

// timeout is the session timeout. With a shorter one, or a longer grace, a lock would be lost now and then where tests share
// two cores.
const timeout = 4 * time.Second

// guardedTimeout and guardedLead are those of a stage whose guard has to kill. The guard tells nothing of being late, so it gets
// more time between its kill and the end of the session.
const (
	guardedTimeout = 8 * time.Second
	guardedLead    = time.Second
)

// lead is how long before the deadline zkr kills.
const lead = 200 * time.Millisecond

// lost is the exit status of zkr when the lock was lost.
const lost = 79

// Setting is where the tests run.
type Setting struct {
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
	path      string
	program   []string
	processes int           // of a program
	guarded   bool          // zkr does not run, so that its guard has to kill
	timeout   time.Duration // of the sessions
	lead      time.Duration // how long before the deadline zkr kills
	signs     *signs
	queue     []*candidate // that run, in their order
	all       []*candidate
	disturbed int // how often a zkr has lost the lock by itself: where a process is not run, no lock can be kept
}

// candidate is one zkr.
type candidate struct {
	*exec.Cmd
	link  Link
	log   lockedBuffer
	ended chan struct{} // closed when Wait has returned
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

func newStage(t *testing.T, setting Setting, path string, processes int, kind string, args ...string) *stage {
	t.Helper()
	if text, set := os.LookupEnv("ZKRECIPES_TEST_ROUNDS"); set {
		var err error
		setting.Rounds, err = strconv.Atoi(text)
		require.NoError(t, err)
	}
	file := filepath.Join(t.TempDir(), "signs")
	return &stage{
		Setting: setting, path: path, processes: processes, timeout: timeout, lead: lead, signs: &signs{file: file, of: map[int64]*life{}},
		program: append([]string{os.Args[0], asProgram, kind, file}, args...),
	}
}

// start starts a candidate. It is killed if it outlives the test.
func (s *stage) start(t *testing.T) *candidate {
	t.Helper()
	c := &candidate{link: s.Link(t), ended: make(chan struct{})}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 2*patience)
	c.Cmd = s.Zkr(ctx, append([]string{
		"lock", "-v", "--log=json", "--stop-timeout=50ms", "--grace=200ms", "--kill-lead", s.lead.String(),
		"--session-timeout", s.timeout.String(), s.path, "--",
	}, s.program...)...)
	c.Env = append(c.Environ(), "ZKR_SERVERS="+c.link.Address)
	c.Stderr = &c.log
	c.WaitDelay = 5 * time.Second // a frozen one ends late as well
	require.NoError(t, c.Start())
	s.all = append(s.all, c)
	go func() {
		defer close(c.ended)
		_ = c.Wait() // status tells
	}()
	t.Cleanup(func() {
		cancel()
		<-c.ended
		if t.Failed() && slices.Contains(s.queue, c) {
			t.Logf("zkr said\n%s", c.log.String())
		}
	})
	return c
}

// over reports whether zkr has ended.
func (c *candidate) over() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

// status waits for the end, and returns the exit status, or the signal that ended it with a minus.
func (c *candidate) status() int {
	<-c.ended
	if status, ok := c.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return -int(status.Signal())
	}
	return c.ProcessState.ExitCode()
}

// event is what zkr tells in its log.
type event struct {
	Time    time.Time
	Event   string
	Token   string  // of acquired
	Seconds float64 // of late: how long zkr did not run
}

// events are those that zkr has told. What the connection logs is no event.
func (c *candidate) events() (all []event) {
	for line := range strings.Lines(c.log.String()) {
		var e event
		if json.Unmarshal([]byte(line), &e) == nil && e.Event != "" {
			all = append(all, e)
		}
	}
	return all
}

// told returns the first event with one of the names.
func (c *candidate) told(names ...string) (event, bool) {
	for _, e := range c.events() {
		if slices.Contains(names, e.Event) {
			return e, true
		}
	}
	return event{}, false
}

// token is of the lock; 0 without it.
func (c *candidate) token() int64 {
	acquired, _ := c.told("acquired")
	token, _ := strconv.ParseInt(acquired.Token, 10, 64) // 0 without one
	return token
}

// life is what the program of a candidate has shown up to now; nil for nothing.
func (s *stage) life(t *testing.T, c *candidate) *life {
	t.Helper()
	require.NoError(t, s.signs.read())
	return s.signs.of[c.token()]
}

// patience is how long anything may take on a busy machine.
const patience = 30 * time.Second

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	next := time.NewTicker(20 * time.Millisecond)
	defer next.Stop()
	for deadline := time.Now().Add(patience); !condition(); <-next.C {
		require.True(t, time.Now().Before(deadline), "not within %v: %s", patience, what)
	}
}

// settle waits until all processes of a holder live, and a candidate stands in the queue behind it. Candidates that have
// lost the lock by themselves are replaced.
func (s *stage) settle(t *testing.T) (holder, next *candidate) {
	t.Helper()
	eventually(t, "a holder runs its program, and a candidate waits", func() bool {
		s.queue = slices.DeleteFunc(s.queue, func(c *candidate) bool {
			if !c.over() {
				return false
			}
			require.Equal(t, lost, c.status(), c.log.String())
			s.disturbed++
			return true
		})
		require.LessOrEqual(t, s.disturbed, 10+s.Rounds, "the machine is too busy for this test")
		for _, c := range s.queue {
			if _, stands := c.told("waiting", "acquired"); !stands {
				return false
			}
		}
		if len(s.queue) < 2 {
			s.queue = append(s.queue, s.start(t))
			return false
		}
		alive := s.life(t, s.queue[0])
		return alive != nil && len(alive.processes) == s.processes
	})
	return s.queue[0], s.queue[1]
}

// succession waits until the program of the next candidate shows signs of life. It returns false if the candidate has lost the
// lock before.
func (s *stage) succession(t *testing.T, next *candidate) (succeeded bool) {
	t.Helper()
	eventually(t, "the next program runs", func() bool {
		over := next.over() // it shows nothing more afterwards
		succeeded = s.life(t, next) != nil
		return succeeded || over
	})
	return succeeded
}

// apart compares each holder with the next, and returns the times between the last sign of the one and the first of the other.
// It counts the holders whose zkr did not run in time, as that tells. A process that is not run cannot kill: only if zkr did not
// run from when it had to kill, until it was too late, may the two overlap. The guard of a zkr that was stopped has no such excuse.
func (s *stage) apart(t *testing.T) (gaps []time.Duration, overloaded int) {
	t.Helper()
	require.NoError(t, s.signs.read())
	late := map[int64]time.Duration{}
	for _, c := range s.all {
		for _, e := range c.events() {
			late[c.token()] = max(late[c.token()], time.Duration(e.Seconds*float64(time.Second)))
		}
		if late[c.token()] > 0 {
			overloaded++
		}
	}
	tokens := slices.Sorted(maps.Keys(s.signs.of))
	for i, token := range tokens[:max(len(tokens)-1, 0)] {
		one, next := s.signs.of[token], s.signs.of[tokens[i+1]]
		gap := next.first - one.last
		gaps = append(gaps, gap)
		if gap <= 0 {
			require.False(t, s.guarded, "holder %d, next %d: %v\n%s", token, tokens[i+1], gap, s.logOf(token))
			require.Greater(t, late[token], s.lead-gap, "holder %d, next %d\n%s", token, tokens[i+1], s.logOf(token))
		}
		if late[token] == 0 {
			require.Zero(t, one.late, "signs of life at the deadline that the program could read\n%s", s.logOf(token))
		}
	}
	return gaps, overloaded
}

// logOf is the log of the holder with a token.
func (s *stage) logOf(token int64) string {
	i := slices.IndexFunc(s.all, func(c *candidate) bool { return c.token() == token })
	return s.all[i].log.String()
}

// stop ends all candidates, the waiting ones first.
func (s *stage) stop(t *testing.T) {
	t.Helper()
	for _, c := range slices.Backward(s.queue) {
		_ = c.Process.Signal(syscall.SIGTERM) // it may have lost the lock, and ended
		c.status()
	}
}

// Run runs the tests. It calls open for each of them, with the tickTime of the server: sessions end hardly later than they may.
func Run(t *testing.T, open func(t *testing.T, tick time.Duration) Setting) {
	partition := func(c *candidate) { c.link.Partition() }
	expiry := func(c *candidate) { c.link.Mute() }
	killed := func(c *candidate) { _ = c.Process.Kill() } // it may have lost the lock, and ended, here and below
	stopped := func(c *candidate) { _ = c.Process.Signal(syscall.SIGSTOP) }
	for _, c := range []struct {
		name, program string
		fault         func(*candidate)
		guarded       bool
		status        int
		processes     int
	}{
		{"partition", "plain", partition, false, lost, 1},
		{"expiry", "plain", expiry, false, lost, 1},
		{"zkr is killed", "plain", killed, true, -int(syscall.SIGKILL), 1},
		{"zkr is killed, the program forks", "forks", killed, true, -int(syscall.SIGKILL), 2},
		{"zkr is killed, the program has a daemon", "daemon", killed, true, -int(syscall.SIGKILL), 2},
		{"zkr is stopped, the program has a daemon", "daemon", stopped, true, lost, 2},
		{"program ignores TERM", "deaf", partition, false, lost, 1},
		{"program forks", "forks", partition, false, lost, 2},
		{"program has a daemon", "daemon", partition, false, lost, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			sessions := timeout
			if c.guarded {
				sessions = guardedTimeout
			}
			s := newStage(t, open(t, sessions/20), "/exclusion/"+strings.NewReplacer(" ", "-", ",", "").Replace(c.name), c.processes, c.program)
			if s.guarded = c.guarded; s.guarded {
				s.timeout, s.lead = guardedTimeout, guardedLead
			}
			for rounds := 0; rounds < s.Rounds; {
				holder, next := s.settle(t)
				c.fault(holder)
				if s.succession(t, next) {
					rounds++
				}
				holder.link.Heal()
				_ = holder.Process.Signal(syscall.SIGCONT) // if it was stopped
				if holder.status() != c.status {
					require.Equal(t, lost, holder.status(), "it was just about to stop by itself: %s", holder.log.String())
				}
				s.queue = s.queue[1:]
			}
			s.stop(t)
			gaps, overloaded := s.apart(t)
			slices.Sort(gaps)
			overlaps := slices.IndexFunc(append(gaps, time.Hour), func(gap time.Duration) bool { return gap > 0 })
			t.Logf("%d rounds: from the last sign of a holder to the first of the next %v to %v; too busy: %d of %d zkr did not run in time, "+
				"%d of them killed after the next had started; %d lost the lock without a fault",
				s.Rounds, gaps[0], gaps[len(gaps)-1], overloaded, len(s.all), overlaps, s.disturbed)
		})
	}
	t.Run("machine is frozen", func(t *testing.T) {
		t.Parallel()
		frozen(t, open(t, timeout/20))
	})
}

// guardOf is the process between zkr and its program.
func guardOf(t *testing.T, zkr int) int {
	t.Helper()
	children, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", zkr))
	require.NoError(t, err)
	for _, file := range children {
		text, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // the thread has ended
		}
		require.NoError(t, err)
		if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
			return pid
		}
	}
	require.Fail(t, "zkr has no guard")
	return 0
}

// frozen stops zkr and its guard past the deadline, as when a virtual machine is paused, but not the program. The fence
// refuses the program from when the next one has shown its token, and it is killed when zkr or the guard goes on.
func frozen(t *testing.T, setting Setting) {
	t.Helper()
	r := newResource(t)
	s := newStage(t, setting, "/exclusion/frozen", 1, "fenced", r.address)
	var longest time.Duration
	for rounds := 0; rounds < s.Rounds; {
		holder, next := s.settle(t)
		guard := guardOf(t, holder.Process.Pid)
		require.NoError(t, syscall.Kill(guard, syscall.SIGSTOP))
		require.NoError(t, holder.Process.Signal(syscall.SIGSTOP))
		ran := false // else zkr was just about to lose the lock by itself, and had killed its program
		if s.succession(t, next) {
			eventually(t, "the fence refuses the old program", func() bool {
				old := s.life(t, holder)
				ran = old.refused > 0
				return ran || bootClock()-old.last > timeout
			})
		}
		if ran {
			rounds++
		} else {
			s.disturbed++
		}
		woken, wall := bootClock(), time.Now()
		require.NoError(t, holder.Process.Signal(syscall.SIGCONT))
		_ = syscall.Kill(guard, syscall.SIGCONT) // zkr may have killed it with the group of the program
		require.Equal(t, lost, holder.status(), holder.log.String())
		s.queue = s.queue[1:]
		longest = max(longest, s.life(t, holder).last-woken)
		after := slices.DeleteFunc(holder.events(), func(e event) bool { return e.Time.Before(wall) })
		if ran {
			require.NotEmpty(t, after)
			require.Contains(t, []string{"kill", "lost"}, after[0].Event, "round %d", rounds)
		}
	}
	s.stop(t)
	require.Less(t, longest, time.Second, "the old program is killed at once")
	require.True(t, slices.IsSorted(r.admitted()), "no program was admitted after the next one")
	t.Logf("%d rounds: the last sign of a program after zkr went on, at most %v; too busy: %d holders", s.Rounds, longest, s.disturbed)
}
