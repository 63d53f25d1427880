//go:build unix

package child

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Host starts commands and reaps every process that ends below this one. A program has one Host for its whole lifetime.
type Host struct {
	mu     sync.Mutex     // while it is held, no process is reaped, so what is being started is known and no pid is reused
	guards map[int]*Child // by the pid of the guard
	groups map[int]*Child // of commands whose guard has ended, until Close
	reaped chan os.Signal
	list   func() ([]process, error) // lists all processes

	asking sync.Mutex
	next   *sight // the listing that callers wait for; nil if there is none
}

// NewHost makes this process the host of everything that it starts. From then on, writing to standard output or error
// after its reader has gone returns an error and does not end this process, whose commands would be killed.
func NewHost() (*Host, error) {
	if err := adoptOrphans(); err != nil {
		return nil, err
	}
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // commands would inherit a signal that is ignored
	h := &Host{guards: map[int]*Child{}, groups: map[int]*Child{}, reaped: make(chan os.Signal, 1), list: processes}
	signal.Notify(h.reaped, syscall.SIGCHLD)
	go h.run() // for as long as the process runs
	h.reap()
	return h, nil
}

func (h *Host) run() {
	for range h.reaped {
		h.reap()
	}
}

// reap collects the status of every process that has ended. When this process is process 1 of a container, or after a
// guard was killed, it inherits descendants whose parents have ended.
func (h *Host) reap() {
	h.mu.Lock()
	defer h.mu.Unlock()
	reapAll(0, func(pid int, _ syscall.WaitStatus) {
		if c := h.guards[pid]; c != nil {
			delete(h.guards, pid)
			c.unguarded = true
			if c.ownGroup && !c.closed {
				h.groups[pid] = c
			}
		}
	})
}

// reapAll collects the status of every process that has ended, or to which the options apply. A single SIGCHLD may
// announce several of them.
func reapAll(options int, each func(pid int, status syscall.WaitStatus)) {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG|options, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		each(pid, status)
	}
}

// Close waits until the guards of all closed children have ended, for at most three seconds. A zkr above this one would
// mistake a guard that outlives this process for a leftover of its program.
func (h *Host) Close() {
	for end := time.Now().Add(3 * time.Second); h.guarded() && time.Now().Before(end); time.Sleep(time.Millisecond) {
		h.reap() // a signal may be late
	}
}

func (h *Host) guarded() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.guards) > 0
}

// Child is a started command.
type Child struct {
	pid      int
	ownGroup bool
	// mayBeForeign means that processes of other users may appear below the command, which this process may not signal.
	mayBeForeign bool
	strange      map[int]string // start times of processes that existed below zkr before the command started
	halted       chan os.Signal // has room for the only value
	done         chan struct{}
	status       Status
	guard        *guard
	cgroup       *cgroup // may be nil
	host         *Host
	unguarded    bool // the guard has ended; guarded by the mutex of the host
	closed       bool // guarded by the mutex of the host
}

// Start starts a command. If the state file cannot be created, the error is an *os.PathError with its path.
func (h *Host) Start(command Command) (*Child, error) {
	c := &Child{
		host: h, ownGroup: !command.Terminal, mayBeForeign: mayBeForeign(command), strange: map[int]string{},
		halted: make(chan os.Signal, 1), done: make(chan struct{}),
	}
	if err := h.startGuard(c, command); err != nil {
		return nil, err
	}
	var err error
	if c.pid, err = c.guard.started(command); err != nil {
		c.Close()
		return nil, err
	}
	go c.reap() // ends with the guard, which ends with Close, or with the command
	return c, nil
}

// startGuard starts the guard of a command, which in turn starts the command. Guards of other commands may be running.
func (h *Host) startGuard(c *Child, command Command) (err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if all, err := h.list(); err == nil {
		for _, p := range below(os.Getpid(), all) {
			c.strange[p.pid] = p.since
		}
	}
	if command.Cgroup {
		c.cgroup = makeCgroup()
	}
	if c.guard, err = startGuard(command, c.cgroup.path()); err != nil {
		c.cgroup.remove()
		return err
	}
	h.guards[c.guard.pid] = c
	delete(h.groups, c.guard.pid) // the group is empty, or its number would still be taken
	return nil
}

// mayBeForeign reports whether processes of other users may appear. Root that may not signal all processes, as in a
// container, can still become another user.
func mayBeForeign(command Command) bool {
	return !maySignalAll() && (command.Setuid || !canConfine || syscall.Geteuid() == 0)
}

// reap waits for the end of the command. If the guard was killed, the kernel kills the command, or else this process
// does.
func (c *Child) reap() {
	status, err := c.guard.ended(c.halted)
	if err != nil {
		status = Status{Code: 128 + int(syscall.SIGKILL), Signal: syscall.SIGKILL}
		c.killCommand()
	}
	c.host.mu.Lock()
	c.status = status
	close(c.done)
	c.host.mu.Unlock()
	_ = c.guard.out.Close() // read-only
}

// killCommand kills the command, whose guard has ended, and everything that it has started. It returns when the command
// has ended, which may take long if the command runs as another user or waits for a device. Since a list of processes
// takes time to make, the command only counts as ended once two consecutive lists lack it.
func (c *Child) killCommand() {
	missing := 0
	for pause := 2 * time.Millisecond; missing < 2; pause = min(2*pause, time.Second) {
		_ = c.Kill() // Left finds any survivors
		tree, err := c.tree()
		switch {
		case errors.Is(err, errors.ErrUnsupported):
			return // the system has no list, so this process cannot determine it
		case err != nil:
			missing = 0
			time.Sleep(pause)
		case slices.ContainsFunc(tree, func(p process) bool { return p.pid == c.pid }):
			missing = 0
			time.Sleep(pause)
		default:
			missing++
		}
	}
}

func statusOf(status syscall.WaitStatus) Status {
	if status.Signaled() {
		return Status{Code: 128 + int(status.Signal()), Signal: status.Signal()}
	}
	return Status{Code: status.ExitStatus()}
}

// Pid returns the process ID of the command.
func (c *Child) Pid() int { return c.pid }

// Group returns the process group of the command.
func (c *Child) Group() int {
	if c.ownGroup {
		return c.guard.pid
	}
	return syscall.Getpgrp()
}

// Done is closed when the command itself has ended; Status is then known. Processes that the command started may live
// on, see Left. If the guard was killed and the system has no list of processes, Done is closed once the command has
// been signalled.
func (c *Child) Done() <-chan struct{} { return c.done }

// Halted receives the signal when one stops the command, such as SIGSTOP, for the first time. The command does not
// continue by itself.
func (c *Child) Halted() <-chan os.Signal { return c.halted }

// Status returns how the command ended.
func (c *Child) Status() Status { return c.status }

// KillAt sets the deadline on the boot clock: at that time the guard kills the command and everything that it has
// started, even if this process is stopped. 0 means never.
func (c *Child) KillAt(at time.Duration) { c.guard.killAt(at) }

// Forward sends a signal to the process group of the command, or only to the command if it shares the terminal's group.
// Once the command has ended, Forward sends the signal to everything that it has left running. A stopped command is
// resumed by a signal that asks it to end.
func (c *Child) Forward(s os.Signal) error {
	number, ok := s.(syscall.Signal)
	if !ok {
		return fmt.Errorf("this system has no signal %v", s)
	}
	_, err := c.signalFirst(number)
	if err == nil && (number == syscall.SIGINT || number == syscall.SIGQUIT || number == syscall.SIGTERM) {
		_, _ = c.signalFirst(syscall.SIGCONT) // it may have ended
	}
	select {
	case <-c.done:
		if errors.Is(err, os.ErrProcessDone) {
			return c.signalAll(number)
		}
	default:
	}
	return err
}

// signalFirst signals the command, together with its group if it has its own. Between the check and the signal, the
// group leader, which is the guard, is not reaped. sent reports whether the group was signalled.
func (c *Child) signalFirst(s syscall.Signal) (sent bool, err error) {
	c.host.mu.Lock()
	defer c.host.mu.Unlock()
	select {
	case <-c.done:
		return false, os.ErrProcessDone
	default:
	}
	switch {
	case c.unguarded:
		return false, os.ErrProcessDone
	case !c.ownGroup:
		err = c.signalAlone(s)
		return err == nil, err
	}
	if err = syscall.Kill(-c.guard.pid, s); err != nil {
		return false, err
	}
	if s == syscall.SIGKILL {
		return true, nil // this killed the guard as well; Left finds what remains of the command
	}
	// The guard alone makes that call succeed. Signal 0 shows whether the command was still there to receive it.
	if err = c.signalAlone(0); errors.Is(err, os.ErrProcessDone) || errors.Is(err, syscall.ESRCH) {
		err = nil
	}
	return true, err
}

// signalAlone signals the command if it is still a child of its guard. The guard reaps it, so its pid may belong to
// another process by now.
func (c *Child) signalAlone(s syscall.Signal) error {
	all, err := c.host.list()
	if err != nil { // without a list of processes, the pid must do
		return syscall.Kill(c.pid, s)
	}
	for _, p := range all {
		if p.pid == c.pid && p.parent == c.guard.pid {
			return p.signal(s)
		}
	}
	return os.ErrProcessDone
}

// Stop sends a signal to the command and everything that it has started. It resumes stopped processes so that they
// receive the signal.
func (c *Child) Stop(s os.Signal) error {
	number, ok := s.(syscall.Signal)
	if !ok {
		return fmt.Errorf("this system has no signal %v", s)
	}
	err := c.signalAll(number)
	return errors.Join(err, c.signalAll(syscall.SIGCONT))
}

// Kill kills the command and everything that it has started and that exists now. Since a process may be starting
// another one, the caller repeats Kill until Left is 0.
func (c *Child) Kill() error {
	c.cgroup.kill()
	return c.signalAll(syscall.SIGKILL)
}

// signalAll signals the group at once, then the processes outside it one by one.
func (c *Child) signalAll(s syscall.Signal) error {
	sent, err := c.signalFirst(s)
	if errors.Is(err, os.ErrProcessDone) || errors.Is(err, syscall.ESRCH) {
		err = nil
	}
	tree, scan := c.tree()
	for _, p := range tree {
		if sent && (p.pid == c.pid || c.ownGroup && p.group == c.guard.pid) {
			continue // signalled above
		}
		_ = p.signal(s) // it may have ended, which is just as well
	}
	return errors.Join(err, scan)
}

// Cgroup returns the control group of the command, or "" if there is none.
func (c *Child) Cgroup() string {
	if !c.cgroup.has(c.pid) {
		return ""
	}
	return c.cgroup.path()
}

// MayBeForeign reports whether Foreign may ever return a process.
func (c *Child) MayBeForeign() bool { return c.mayBeForeign }

// Close stops watching a command that has left nothing behind.
func (c *Child) Close() {
	c.guard.dismiss()
	c.cgroup.remove()
	c.host.mu.Lock()
	defer c.host.mu.Unlock()
	if c.closed = true; c.host.groups[c.guard.pid] == c {
		delete(c.host.groups, c.guard.pid)
	}
}
