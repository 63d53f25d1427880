//go:build unix

package child

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
)

// Host starts commands, and reaps every process that ends below this one. A program has one, for as long as it runs.
type Host struct {
	mu       sync.Mutex // while it is held, no process is reaped: what is being started is known, and no pid passes on
	children map[int]*Child
	reaped   chan os.Signal
	guarded  bool
}

// NewHost makes this process the host of what it starts.
func NewHost() (*Host, error) {
	if err := adoptOrphans(); err != nil {
		return nil, err
	}
	h := &Host{children: map[int]*Child{}, reaped: make(chan os.Signal, 1), guarded: needsGuard}
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

// reap takes the status of every process that has ended. As process 1 of a container, or as a subreaper, this process gets
// descendants whose parents have ended. One signal may stand for several of them.
func (h *Host) reap() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		if c := h.children[pid]; c != nil {
			delete(h.children, pid)
			c.ended(status)
		}
	}
}

// Child is a command that was started.
type Child struct {
	pid      int
	ownGroup bool
	strange  map[int]bool // processes below this one that the command has not started
	done     chan struct{}
	status   Status
	guard    *guard
	host     *Host
	reaped   bool // guarded by the mutex of the host
}

// Start starts the command.
func (h *Host) Start(command Command) (*Child, error) {
	c := &Child{host: h, ownGroup: !command.Terminal, strange: map[int]bool{}, done: make(chan struct{})}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.guarded {
		var err error
		if c.guard, err = startGuard(); err != nil {
			return nil, err
		}
	}
	if all, err := processes(); err == nil {
		for _, p := range below(os.Getpid(), all) {
			c.strange[p.pid] = true
		}
	}
	started := make(chan error)
	// The kernel sends the parent-death signal when the thread ends that has started the command. So this thread stays.
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		p, err := os.StartProcess(command.Path, command.Args, &os.ProcAttr{
			Env: command.Env, Files: command.Files, Sys: attributes(c.ownGroup),
		})
		if err == nil {
			c.pid = p.Pid
			err = p.Release()
		}
		started <- err
		if c.pid != 0 {
			<-c.done
		}
	}()
	if err := <-started; err != nil {
		c.guard.dismiss()
		return nil, err
	}
	h.children[c.pid] = c
	c.guard.watch(c.pid, c.ownGroup)
	return c, nil
}

func (c *Child) ended(status syscall.WaitStatus) {
	c.reaped = true
	c.status = Status{Code: status.ExitStatus()}
	if status.Signaled() {
		c.status = Status{Code: 128 + int(status.Signal()), Signal: status.Signal()}
	}
	close(c.done)
}

// Pid is the process id of the command.
func (c *Child) Pid() int { return c.pid }

// Group is the process group of the command.
func (c *Child) Group() int {
	if c.ownGroup {
		return c.pid
	}
	return syscall.Getpgrp()
}

// Done is closed when the command itself has ended; Status is known then. What it has started may live on, see Left.
func (c *Child) Done() <-chan struct{} { return c.done }

// Status is how the command ended.
func (c *Child) Status() Status { return c.status }

// Forward sends a signal to the process group of the command, or to the command alone if it shares the terminal's group.
func (c *Child) Forward(s os.Signal) error {
	number, ok := s.(syscall.Signal)
	if !ok {
		return fmt.Errorf("%v is no signal of this system", s)
	}
	return c.signalFirst(number)
}

// signalFirst signals the command, with its group if that is its own. Between the look and the signal it is not reaped.
func (c *Child) signalFirst(s syscall.Signal) error {
	c.host.mu.Lock()
	defer c.host.mu.Unlock()
	switch {
	case c.reaped:
		return os.ErrProcessDone
	case c.ownGroup:
		return syscall.Kill(-c.pid, s)
	default:
		return syscall.Kill(c.pid, s)
	}
}

// Stop asks the command, and everything that it has started, to end by a signal. A process that is stopped goes on, so that
// it sees the signal.
func (c *Child) Stop(s os.Signal) error {
	number, ok := s.(syscall.Signal)
	if !ok {
		return fmt.Errorf("%v is no signal of this system", s)
	}
	err := c.signalAll(number)
	return errors.Join(err, c.signalAll(syscall.SIGCONT))
}

// Kill kills the command and everything that it has started, as far as it is there now: a process may be starting another
// one. So the caller repeats it until Left is 0.
func (c *Child) Kill() error { return c.signalAll(syscall.SIGKILL) }

// signalAll signals the group at once, then the processes outside it one by one.
func (c *Child) signalAll(s syscall.Signal) error {
	err := c.signalFirst(s)
	direct := err == nil
	if errors.Is(err, os.ErrProcessDone) || errors.Is(err, syscall.ESRCH) {
		err = nil
	}
	tree, scan := c.tree()
	if scan != nil && c.ownGroup {
		_ = syscall.Kill(-c.pid, s) // without a list of processes there is only the group
	}
	for _, p := range tree {
		if direct && (p.pid == c.pid || c.ownGroup && p.group == c.pid) {
			continue // signalled above
		}
		p.signal(s)
	}
	return errors.Join(err, scan)
}

// Left is how many processes are left of the command and of what it has started.
func (c *Child) Left() int {
	tree, err := c.tree()
	if err != nil { // without a list of processes there is only the group
		if c.ownGroup && syscall.Kill(-c.pid, 0) == nil {
			return 1
		}
		return 0
	}
	return len(tree)
}

// tree lists the live processes that the command has started, with itself.
func (c *Child) tree() ([]process, error) {
	all, err := processes()
	if err != nil {
		return nil, fmt.Errorf("list the processes: %w", err)
	}
	var tree []process
	found := map[int]bool{}
	for _, p := range below(os.Getpid(), all) {
		found[p.pid] = true
		if !p.dead && !c.strange[p.pid] && !c.guard.is(p.pid) {
			tree = append(tree, p)
		}
	}
	for _, p := range all { // where orphans go to process 1, the group still tells them
		if c.ownGroup && p.group == c.pid && !p.dead && !found[p.pid] {
			tree = append(tree, p)
		}
	}
	return tree, nil
}

// Close ends the watch over a command that has left nothing behind.
func (c *Child) Close() { c.guard.dismiss() }

// process is one line of the list of processes.
type process struct {
	pid, parent, group int
	dead               bool   // a zombie
	since              string // start time, if the list tells it
}

// below returns the processes whose ancestor is root.
func below(root int, all []process) []process {
	byParent := map[int][]process{}
	for _, p := range all {
		byParent[p.parent] = append(byParent[p.parent], p)
	}
	var found []process
	for next := []int{root}; len(next) > 0; next = next[1:] {
		for _, p := range byParent[next[0]] {
			if p.pid == root {
				continue
			}
			found = append(found, p)
			next = append(next, p.pid)
		}
	}
	return found
}
