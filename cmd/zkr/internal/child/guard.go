//go:build unix

package child

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// GuardArg is the first argument of a guard process. A program that finds it calls [Guard] with the remaining arguments
// and does nothing else.
const GuardArg = "__guard"

// guard is the process between this one and the command, as seen by this process; see [watch] for its work. It starts
// the command, and kills everything that the command has started if this process ends without dismissing it, or fails
// to extend the deadline, for example because it is stopped. The keys of a terminal do not reach the guard, or it
// catches their signals, so it keeps running while the job of this process is stopped.
type guard struct {
	pid    int
	orders *os.File // closed without "done" means that this process has died
	report *bufio.Reader
	out    *os.File // underlies report
	pulse  *os.File // when its other end closes, this process is woken, see wakeAtEnd

	mu     sync.Mutex
	newest string // deadline
	waits  bool   // for room in orders
}

func startGuard(command Command, cgroup string) (*guard, error) {
	orders, toGuard, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start the guard: %w", err)
	}
	defer orders.Close() //nolint:errcheck // the guard has its own copy
	fromGuard, report, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start the guard: %w", errors.Join(err, toGuard.Close()))
	}
	defer report.Close() //nolint:errcheck // the guard has its own copy
	pulse, ofGuard, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start the guard: %w", errors.Join(err, toGuard.Close(), fromGuard.Close()))
	}
	defer ofGuard.Close() //nolint:errcheck // the guard has its own copy
	if err := wakeAtEnd(pulse); err != nil {
		return nil, fmt.Errorf("start the guard: %w", errors.Join(err, toGuard.Close(), fromGuard.Close(), pulse.Close()))
	}
	group := 0
	if command.Terminal {
		group = syscall.Getpgrp()
	}
	confined := int64(0)
	if !command.Setuid && !maySignalAll() {
		confined = 1
	}
	args := []string{os.Args[0], GuardArg}
	for _, number := range []int64{
		inherited(orders), inherited(report), inherited(ofGuard), int64(group),
		int64(command.KillAt), confined,
	} {
		args = append(args, strconv.FormatInt(number, 10))
	}
	// The group of the guard is also the group of the command, unless the command is in the terminal's. The group
	// therefore keeps its leader for as long as this process wants, and its number is never reused for another group. In a
	// terminal without a shell above, the guard stays in the group of this process: with a parent in another group, the
	// terminal's keys could stop this process, and no shell would resume it.
	args = append(append(args, cgroup, command.State, command.Record, command.Path), command.Args...)
	p, err := startSelf(args, &os.ProcAttr{
		Files: command.Files, Env: command.Env, Sys: &syscall.SysProcAttr{Setpgid: !command.Terminal || shellAbove()},
	})
	if err != nil {
		// No %w: that zkr, or /proc, is not found must not be mistaken for a missing command.
		err = errors.Join(err, toGuard.Close(), fromGuard.Close(), pulse.Close())
		return nil, fmt.Errorf("start the guard: %v", err) //nolint:errorlint // see above
	}
	g := &guard{pid: p.Pid, orders: toGuard, report: bufio.NewReader(fromGuard), out: fromGuard, pulse: pulse}
	return g, p.Release() // the host reaps it
}

// startSelf starts another instance of the program that this process runs, even if its file has since been replaced.
func startSelf(args []string, attr *os.ProcAttr) (*os.Process, error) {
	self := "/proc/self/exe"
	if _, err := os.Lstat(self); err != nil {
		if self, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	return os.StartProcess(self, args, attr)
}

// shellAbove reports whether the parent of this process is in the same session, so that it may resume a stopped job.
func shellAbove() bool {
	parent := os.Getppid()
	if parent == 0 { // outside the container
		return false
	}
	above, err1 := unix.Getsid(parent)
	own, err2 := unix.Getsid(0)
	return err1 == nil && err2 == nil && above == own
}

// inherited makes the guard inherit a file under the same number as here. The guard keeps the file from the command,
// which inherits what this process has inherited, under the same numbers.
func inherited(file *os.File) int64 {
	fd := file.Fd()
	_, _, _ = syscall.Syscall(syscall.SYS_FCNTL, fd, syscall.F_SETFD, 0) // fails only for a closed file
	return int64(fd)
}

// guardFiles is how many of the numbers in a guard's arguments are files, which the command does not inherit.
const guardFiles = 3

// numbers parses what startGuard has written. A guard whose group is the command's must lead that group, because it may
// kill no other.
func numbers(args []string) (number [guardFiles + 3]int64, ok bool) {
	if len(args) < len(number)+5 {
		return number, false
	}
	for i := range number {
		var err error
		if number[i], err = strconv.ParseInt(args[i], 10, 64); err != nil {
			return number, false
		}
	}
	files := !slices.ContainsFunc(number[:guardFiles], func(fd int64) bool { return fd <= 2 })
	return number, files && (number[guardFiles] != 0 || syscall.Getpgrp() == os.Getpid())
}

// halted is the exit code by which the guard reports that a signal has stopped the command.
const halted = -1

// late is the error number by which the guard reports ErrLate to the host. Smaller numbers report why it could not
// create the state file: late minus the error number.
const late = -1

// stateError means that the guard could not create the state file.
type stateError struct{ error }

func (e *stateError) Unwrap() error { return e.error }

// numberOf returns the number by which the guard reports to the host why it could not start the command.
func numberOf(err error) int {
	if errors.Is(err, ErrLate) {
		return late
	}
	number := syscall.EIO
	_ = errors.As(err, &number) // otherwise the error has no number
	var state *stateError
	if errors.As(err, &state) {
		return late - int(number)
	}
	return int(number)
}

// started returns the process ID of the command, or the reason why it was not started.
func (g *guard) started(command Command) (pid int, err error) {
	var number int
	switch n, err := fmt.Fscanf(g.report, "%d %d\n", &pid, &number); {
	case n != 2:
		return 0, fmt.Errorf("the guard has exited: %w", err)
	case number == late:
		return 0, &os.PathError{Op: "start", Path: command.Path, Err: ErrLate}
	case number < late:
		return 0, &os.PathError{Op: "create", Path: command.State, Err: syscall.Errno(late - number)}
	case number != 0:
		return 0, &os.PathError{Op: "start", Path: command.Path, Err: syscall.Errno(number)}
	}
	return pid, nil
}

// ended waits for the end of the command. It returns an error if the guard itself ends first. Until then, it passes on
// the signal that stops the command.
func (g *guard) ended(stops chan<- os.Signal) (s Status, err error) {
	var number, overdue int
	for s.Code = halted; s.Code == halted; {
		if _, err := fmt.Fscanf(g.report, "%d %d %d\n", &s.Code, &number, &overdue); err != nil {
			return s, err
		}
		if s.Code == halted {
			stops <- syscall.Signal(number) // there is room: the guard reports one
		}
	}
	if number != 0 {
		s.Signal = syscall.Signal(number)
	}
	s.Overdue = overdue != 0
	return s, nil
}

// killAt sends the order without blocking. If a stopped guard has not read for so long that the pipe is full, the
// newest deadline follows when the guard resumes.
func (g *guard) killAt(at time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.newest = strconv.FormatInt(int64(at), 10)
	if g.waits || g.tell(g.newest) {
		return
	}
	raw, err := g.orders.SyscallConn()
	if err != nil {
		return // closed
	}
	g.waits = true
	go func() { // ends when the guard reads, with the guard, or with dismiss
		_ = raw.Write(func(uintptr) bool {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.waits = !g.tell(g.newest)
			return !g.waits
		})
	}()
}

func (g *guard) dismiss() {
	g.tell("done")
	_ = g.orders.Close()
	_ = g.pulse.Close() // it was only waited on
}

// tell sends an order, completely or not at all, and returns false if the pipe is full. It ignores a guard that has
// ended.
func (g *guard) tell(order string) bool {
	raw, err := g.orders.SyscallConn()
	if err != nil {
		return true // closed
	}
	// Ignore the error of a closed file; err has that of the write.
	_ = raw.Control(func(fd uintptr) { _, err = syscall.Write(int(fd), []byte(order+"\n")) })
	return !errors.Is(err, syscall.EAGAIN)
}
