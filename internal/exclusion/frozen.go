//go:build linux

package exclusion

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// frozen holds zkr and its guard past the deadline, as a debugger does, but not the program. That is what a machine looks like
// when it goes on after a pause, and runs the program first. The fence refuses the program from when the next one has shown its
// token, and it is killed when zkr or the guard goes on.
func frozen(t *testing.T, setting Setting) {
	t.Helper()
	r := newResource(t)
	s := newStage(t, setting, "/exclusion/frozen", 1, "fenced", r.address)
	var longest time.Duration
	for rounds := 0; rounds < s.Rounds; {
		holder, next := s.settle(t)
		goOn := trace(t, guardOf(t, holder.Process.Pid))
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
		goOn()
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

// trace holds all threads of a process as a debugger does, until goOn is called: no signal but SIGKILL lets it go on.
func trace(t *testing.T, pid int) (goOn func()) {
	t.Helper()
	held, release, done := make(chan error, 1), make(chan struct{}), make(chan struct{})
	go func() { // ends with goOn
		defer close(done)
		runtime.LockOSThread() // the thread that attaches is the one that detaches
		defer runtime.UnlockOSThread()
		threads := map[int]bool{}
		held <- attach(pid, threads)
		<-release
		for tid := range threads {
			_ = syscall.PtraceDetach(tid) // zkr may have killed it with the group of the program
		}
	}()
	goOn = sync.OnceFunc(func() {
		close(release)
		<-done
	})
	t.Cleanup(goOn)
	require.NoError(t, <-held, "trace process %d", pid)
	return goOn
}

// attach repeats its look at the threads: one that is not held yet may start another.
func attach(pid int, attached map[int]bool) error {
	for more := true; more; {
		more = false
		threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
		if err != nil {
			return err
		}
		for _, thread := range threads {
			tid, err := strconv.Atoi(thread.Name())
			if err != nil {
				return err
			}
			if attached[tid] {
				continue
			}
			if err := syscall.PtraceAttach(tid); err != nil {
				return err
			}
			if _, err := syscall.Wait4(tid, nil, syscall.WALL, nil); err != nil {
				return err
			}
			attached[tid], more = true, true
		}
	}
	return nil
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
