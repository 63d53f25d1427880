//go:build linux

package exclusion

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// trace stops all threads of a process, as a debugger does, until goOn is called. No signal but SIGKILL resumes it.
func trace(t *testing.T, pid int) (goOn func()) {
	t.Helper()
	held, release, released := make(chan error, 1), make(chan struct{}), make(chan error, 1)
	go func() { // until goOn is called
		// Only the thread that seizes may detach. When it exits with this function, whatever it still holds resumes.
		runtime.LockOSThread()
		threads := tracees{}
		held <- threads.hold(pid)
		<-release
		released <- threads.letGo(pid)
	}()
	goOn = sync.OnceFunc(func() {
		close(release)
		if err := <-released; err != nil {
			t.Errorf("let process %d go on: %v", pid, err)
		}
	})
	t.Cleanup(goOn)
	if err := <-held; !errors.Is(err, os.ErrProcessDone) { // a guard exits if zkr loses the lock by itself
		require.NoError(t, err, "hold process %d", pid)
	}
	return goOn
}

// tracees are the threads held, each with the signal that it was about to receive, or 0 for none.
type tracees map[int]syscall.Signal

// Constants of ptrace(2) that package syscall lacks.
const (
	ptraceSeize     = 0x4206
	ptraceInterrupt = 0x4207
	ptraceEventStop = 128
)

// hold stops each thread of a process, without a signal, so that SIGCONT, which a guard's timer sends, does not undo
// it. Only a running thread can start another, so all are held when a listing shows no new one.
func (threads tracees) hold(pid int) error {
	deadline := time.Now().Add(patience())
	if err := threads.seize(pid, pid, deadline); err != nil { // first, because it would end after the others
		return err
	}
	for more := true; more; {
		more = false
		list, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
		if err != nil && !ended(pid, pid) {
			return err
		}
		for _, entry := range list {
			tid, err := strconv.Atoi(entry.Name())
			if err != nil {
				return err
			}
			if _, known := threads[tid]; known {
				continue
			}
			more = true // even if it has ended since: that may have truncated the list
			if err := threads.seize(pid, tid, deadline); err != nil {
				return err
			}
		}
	}
	if ended(pid, pid) {
		return os.ErrProcessDone
	}
	return nil
}

// seize stops one thread, unless it exits.
func (threads tracees) seize(pid, tid int, deadline time.Time) error {
	err := ptrace(ptraceSeize, tid, 0)
	if err == nil {
		threads[tid] = 0
		err = ptrace(ptraceInterrupt, tid, 0)
	}
	if err == nil {
		var status syscall.WaitStatus
		if status, err = await(tid, deadline); status.Stopped() && status>>16 != ptraceEventStop {
			threads[tid] = status.StopSignal()
		}
	}
	switch {
	case err == nil:
		return nil
	case ended(pid, pid):
		return os.ErrProcessDone
	case ended(pid, tid):
		return nil
	}
	return fmt.Errorf("thread %d: %w", tid, err)
}

// letGo resumes the threads. The parent of a killed process learns of its end only when the tracer has waited for each
// thread. The first thread ends after all others, so it comes last.
func (threads tracees) letGo(pid int) (err error) {
	deadline := time.Now().Add(patience())
	letGo := func(tid int) {
		if ptrace(syscall.PTRACE_DETACH, tid, uintptr(threads[tid])) == nil {
			return
		}
		if _, failed := await(tid, deadline); !errors.Is(failed, syscall.ECHILD) { // ECHILD: its end was already seen
			err = errors.Join(err, failed)
		}
	}
	for tid := range threads {
		if tid != pid {
			letGo(tid)
		}
	}
	if _, held := threads[pid]; held {
		letGo(pid)
	}
	return err
}

// await waits until a thread has stopped or exited, but not beyond the deadline.
func await(tid int, deadline time.Time) (status syscall.WaitStatus, err error) {
	for time.Now().Before(deadline) {
		got, err := syscall.Wait4(tid, &status, syscall.WALL|syscall.WNOHANG, nil)
		if got == tid || err != nil && !errors.Is(err, syscall.EINTR) {
			return status, err
		}
		<-time.After(time.Millisecond)
	}
	return 0, fmt.Errorf("it has neither stopped nor ended after %v", patience())
}

// ended reports whether the thread no longer exists, except for what its parent has yet to read.
func ended(pid, tid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/stat", pid, tid))
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return true
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(state, "Z") || strings.HasPrefix(state, "X")
}

func ptrace(request, tid int, data uintptr) error {
	if _, _, failed := syscall.Syscall6(syscall.SYS_PTRACE, uintptr(request), uintptr(tid), 0, data, 0, 0); failed != 0 {
		return fmt.Errorf("ptrace %#x: %w", request, failed)
	}
	return nil
}
