//go:build linux

package exclusion

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// frozen holds zkr and its guard, but not the program, past the deadline, as a debugger does. A machine that resumes
// after a pause and happens to schedule the program first looks the same. The fence rejects the program once the next
// one has presented its token, and the program is killed when zkr or the guard resumes.
func frozen(t *testing.T, setting Setting) {
	t.Helper()
	r := newResource(t)
	s := newStage(t, setting, "/exclusion/frozen", 1, "fenced", r.address)
	shortest, longest := time.Hour, time.Duration(0)
	for rounds := 0; rounds < s.Rounds; {
		holder, next := s.settle(t)
		goOn := func() {}
		if guard, ok := guardOf(t, holder.Process.Pid); ok {
			goOn = trace(t, guard)
		}
		_ = holder.Process.Signal(syscall.SIGSTOP)
		ran := false // otherwise zkr had just lost the lock by itself, or was about to, and had killed its program
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
		_ = holder.Process.Signal(syscall.SIGCONT)
		goOn()
		require.Equal(t, lost, holder.status(), holder.log.String())
		s.queue = s.queue[1:]
		took := s.life(t, holder).last - woken
		longest = max(longest, took)
		after := slices.DeleteFunc(holder.events(), func(e event) bool { return e.Time.Before(wall) })
		if ran {
			shortest = min(shortest, took)
			require.NotEmpty(t, after)
			require.Contains(t, []string{"kill", "lost"}, after[0].Event, "round %d", rounds)
		}
	}
	s.stop(t)
	require.Less(t, shortest, time.Second, "the old program is killed at once, unless the machine is busy")
	require.Less(t, longest, 20*time.Second, "the old program is killed")
	require.True(t, slices.IsSorted(r.admitted()), "no program was admitted after the next one")
	t.Logf("%d rounds: the last sign of a program after zkr went on, at most %v; too busy: %d holders", s.Rounds,
		longest, s.disturbed)
}

// guardOf returns the process between zkr and its program. If zkr has just lost the lock by itself, there may be none.
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
