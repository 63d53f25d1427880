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
		goOn := func() {}
		if guard, ok := guardOf(t, holder.Process.Pid); ok {
			goOn = trace(t, guard)
		}
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
			if syscall.PtraceDetach(tid) != nil { // zkr may have killed it with the group of the program
				_, _ = syscall.Wait4(tid, nil, syscall.WALL|syscall.WNOHANG, nil)
			}
		}
	}()
	goOn = sync.OnceFunc(func() {
		close(release)
		<-done
	})
	t.Cleanup(goOn)
	err := <-held
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) || errors.Is(err, os.ErrProcessDone) {
		return goOn // it has ended, as zkr has lost the lock by itself
	}
	require.NoError(t, err, "trace process %d", pid)
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
			attached[tid], more = true, true
			if err := awaitStop(pid, tid); err != nil {
				return err
			}
		}
	}
	return nil
}

// awaitStop waits until a thread is held. If the process is killed meanwhile, its first thread ends after all others, which this
// process has not yet reaped: so a wait for it would never return.
func awaitStop(pid, tid int) error {
	for deadline := time.Now().Add(patience()); time.Now().Before(deadline); <-time.After(time.Millisecond) {
		switch got, err := syscall.Wait4(tid, nil, syscall.WALL|syscall.WNOHANG, nil); {
		case err != nil:
			return err
		case got == tid:
			return nil
		}
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return err
		}
		if _, state, _ := strings.Cut(string(stat), ") "); strings.HasPrefix(state, "Z") {
			return os.ErrProcessDone
		}
	}
	return errors.New("a thread was not held: a SIGCONT of the guard's timer may have taken its SIGSTOP back")
}

// guardOf is the process between zkr and its program. If zkr has just lost the lock by itself, there may be none.
func guardOf(t *testing.T, zkr int) (pid int, ok bool) {
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
			return pid, true
		}
	}
	return 0, false
}
