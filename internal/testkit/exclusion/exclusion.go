//go:build linux

// Package exclusion tests that everything one zkr has started is gone before the next zkr starts its program. The tests
// run against zktest and against a real server.
package exclusion

import (
	"context"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// timeout is the session timeout. With a shorter one, or a longer grace, a lock would occasionally be lost where tests
// share two cores.
const timeout = 4 * time.Second

// guardedTimeout and guardedLead apply to a stage whose guard has to kill. The guard does not report that it was late,
// so it gets more time between its kill and the end of the session.
const (
	guardedTimeout = 16 * time.Second
	guardedLead    = 5 * time.Second
)

// lead is how long before the deadline zkr kills its program.
const lead = 200 * time.Millisecond

// lost is zkr's exit status when the lock was lost.
const lost = 79

// Setting is the environment that the tests run in.
type Setting struct {
	Link   func(t *testing.T) Link                    // for one zkr
	Zkr    func(context.Context, ...string) *exec.Cmd // runs zkr with arguments
	Rounds int                                        // of each fault, unless ZKRECIPES_TEST_ROUNDS overrides it
}

// Link is the connection of one zkr to the server.
type Link struct {
	Address   string
	Partition func() // neither side hears the other
	Mute      func() // the server hears nothing from zkr
	Heal      func() // ends both
}

// fault is what ends a holder.
type fault struct {
	name, program string
	hit           func(*testing.T, *candidate)
	guarded       bool // zkr does not run after the fault, so its guard has to kill
	status        int  // zkr's exit status
	processes     int  // of the program
	user          *user
}

func faults() []fault {
	partition := func(_ *testing.T, c *candidate) { c.link.Partition() }
	expiry := func(_ *testing.T, c *candidate) { c.link.Mute() }
	// Here and below, a failed signal is ignored: the candidate may have lost the lock, and exited.
	killed := func(_ *testing.T, c *candidate) { _ = c.Process.Kill() }
	stopped := func(_ *testing.T, c *candidate) { _ = c.Process.Signal(syscall.SIGSTOP) }
	guardKilled := func(t *testing.T, c *candidate) {
		t.Helper()
		stopped(t, c)
		if guard, ok := guardOf(t, c.Process.Pid); ok {
			_ = syscall.Kill(guard, syscall.SIGKILL)
		}
	}
	bothStopped := func(t *testing.T, c *candidate) {
		t.Helper()
		if guard, ok := guardOf(t, c.Process.Pid); ok {
			_ = syscall.Kill(guard, syscall.SIGSTOP)
		}
		stopped(t, c)
	}
	return []fault{
		{"partition", "plain", partition, false, lost, 1, nil},
		{"expiry", "plain", expiry, false, lost, 1, nil},
		{"zkr is killed", "plain", killed, true, -int(syscall.SIGKILL), 1, nil},
		{"zkr is killed, the program forks", "forks", killed, true, -int(syscall.SIGKILL), 2, nil},
		{"zkr is killed, the program has a daemon", "daemon", killed, true, -int(syscall.SIGKILL), 2, nil},
		{"zkr is stopped, the program has a daemon", "daemon", stopped, true, lost, 2, nil},
		{"zkr and its guard are stopped, the program has a daemon", "daemon", bothStopped, true, lost, 2, nil},
		{
			"zkr is stopped and its guard is killed, the program has a daemon", "daemon", guardKilled, false,
			128 + int(syscall.SIGKILL), 2, nil,
		},
		{"program ignores TERM", "deaf", partition, false, lost, 1, nil},
		{"program forks", "forks", partition, false, lost, 2, nil},
		{"program has a daemon", "daemon", partition, false, lost, 2, nil},
		{"zkr is root, a process becomes another user", "", partition, false, lost, 2, &user{zkr: 0, process: nobody}},
		{"zkr is a user, a process wants to be root", "", partition, false, lost, 2, &user{zkr: nobody, process: 0}},
		{
			"zkr is a user and is killed, a process wants to be root", "", killed, true, -int(syscall.SIGKILL), 2,
			&user{zkr: nobody, process: 0},
		},
		{
			"zkr is a user, a process becomes root", "", partition, false, lost, 2,
			&user{zkr: nobody, process: 0, setuid: true, escapes: true},
		},
		{
			"zkr is a user, a process in the control group becomes root", "", partition, false, lost, 2,
			&user{zkr: nobody, process: 0, setuid: true, cgroup: true},
		},
		{
			"zkr is a user and is killed, a process in the control group becomes root", "", killed, true,
			-int(syscall.SIGKILL), 2,
			&user{zkr: nobody, process: 0, setuid: true, cgroup: true},
		},
	}
}

// forShards are the faults that also hit a zkr that divides shards.
var forShards = []string{"zkr is killed, the program has a daemon", "program has a daemon"}

// Ticks returns the tickTimes of the servers that Run needs.
func Ticks() []time.Duration { return []time.Duration{tickOf(timeout), tickOf(guardedTimeout)} }

// tickOf returns a tick so short that sessions end hardly later than they may.
func tickOf(sessions time.Duration) time.Duration { return sessions / 20 }

// Run runs the tests. For each of them it calls open with the tickTime of the server.
func Run(t *testing.T, open func(t *testing.T, tick time.Duration) Setting) {
	for _, f := range faults() {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			f.test(t, open, false)
		})
		if slices.Contains(forShards, f.name) {
			t.Run("shard, "+f.name, func(t *testing.T) {
				t.Parallel()
				f.test(t, open, true)
			})
		}
	}
	t.Run("machine is frozen", func(t *testing.T) {
		t.Parallel()
		frozen(t, open(t, tickOf(timeout)))
	})
}

// test hits one holder after another with the fault. The program of each must be gone before the next one starts.
func (f fault) test(t *testing.T, open func(t *testing.T, tick time.Duration) Setting, shards bool) {
	t.Helper()
	at := "/exclusion/" + strings.NewReplacer(" ", "-", ",", "").Replace(f.name)
	if shards {
		at += "-shard"
		if f.status == lost {
			f.status = 0 // zkr runs until the end of the test
		}
	}
	sessions := timeout
	if f.guarded {
		sessions = guardedTimeout
	}
	s := newStage(t, open(t, tickOf(sessions)), at, f.processes, f.program)
	s.shards = shards
	if s.guarded = f.guarded; s.guarded {
		s.timeout, s.lead = guardedTimeout, guardedLead
	}
	if f.user != nil {
		s.recast(t, *f.user)
	}
	for rounds := 0; rounds < s.Rounds; {
		holder, next := s.settle(t)
		f.hit(t, holder)
		if s.succession(t, next) {
			rounds++
			s.escape(t, holder, next)
		}
		holder.link.Heal()
		_ = holder.Process.Signal(syscall.SIGCONT) // if it was stopped
		if status := s.end(t, holder); status != f.status {
			require.Equal(t, lost, status, "it was just about to stop by itself: %s", holder.log.String())
		}
		s.queue = s.queue[1:]
	}
	s.stop(t)
	gaps, left, overloaded := s.apart(t)
	slices.Sort(gaps)
	overlaps := slices.IndexFunc(append(gaps, time.Hour), func(gap time.Duration) bool { return gap > 0 })
	t.Logf(
		"%d rounds: from the last sign of a holder to the first of the next %v to %v; "+
			"the last sign %v before the deadline; too busy: %d of %d zkr did not run in time, "+
			"%d of them killed after the next had started; %d lost the lock without a fault",
		s.Rounds, gaps[0], gaps[len(gaps)-1], left, overloaded, len(s.all), overlaps, s.disturbed)
}
