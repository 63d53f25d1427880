//go:build unix

package child

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// watch is the state of the guard process: what it knows about the command.
type watch struct {
	pid, group    int // of the command; group 0 is the guard's own
	report        *os.File
	killAt        time.Duration // on the boot clock; 0 means never
	confined      bool          // the command may not gain privileges
	overdue       bool
	halted        bool          // a signal has stopped the command
	reported      time.Duration // the host sends deadlines from then on, on the boot clock
	cgroup        *cgroup       // of the command; may be nil
	state, record string        // file for the host, or "", and its first content
	alarm         *alarm        // resumes this process at the deadline if it is stopped; nil if unavailable
	alarmFor      time.Duration // what it is set for
	bootClock     func() time.Duration
	list          func() ([]process, error) // lists all processes
}

// guardName is the name of the guard in ps on Linux, where names have at most 15 bytes.
const guardName = "lock-guard"

// Guard runs the guard process. Its arguments are the file descriptors of its orders, its report and its pulse, the
// process group for the command or 0 for its own, the initial deadline, whether the command may not gain privileges,
// its control group, the state file and its record, and the command. If a user runs it by hand, it exits with status
// 64.
func Guard(args []string, bootClock func() time.Duration) {
	number, ok := numbers(args)
	if !ok {
		_, _ = fmt.Fprintf(os.Stderr, "zkr: %s is only for processes that zkr itself starts: see zkr help\n", GuardArg)
		os.Exit(64) // EX_USAGE
	}
	// The kernel sends the parent-death signal to the command when the thread that started it ends. This thread does not
	// end.
	runtime.LockOSThread()
	for _, fd := range number[:guardFiles] {
		syscall.CloseOnExec(int(fd))
	}
	orders, report := os.NewFile(uintptr(number[0]), "orders"), os.NewFile(uintptr(number[1]), "report")
	w := &watch{
		group: int(number[3]), report: report, killAt: time.Duration(number[4]), confined: number[5] != 0,
		cgroup: openCgroup(args[len(number)]), state: args[len(number)+1], record: args[len(number)+2],
		bootClock: bootClock, list: processes,
	}
	// This is for people who list processes, on systems that have the file. The name does not contain "zkr", so that pkill
	// zkr does not hit both processes.
	_ = os.WriteFile("/proc/self/comm", []byte(guardName), 0)
	catchAll()
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	if err := w.start(args[len(number)+3], args[len(number)+4:]); err != nil {
		w.removeState()
		_, _ = fmt.Fprintf(report, "0 %d\n", numberOf(err)) // a host that has ended need not know, here and below
		return
	}
	w.reported = bootClock()
	_, _ = fmt.Fprintf(report, "%d 0\n", w.pid)
	w.run(ended, read(orders))
}

// catchAll prevents signals to the group of the command from ending or stopping the guard. A signal that the guard
// catches has its default disposition in the command. A signal that the guard ignores, as under nohup, is ignored by
// the command too.
func catchAll() {
	already := ignored()
	var caught []os.Signal
	for s := syscall.SIGHUP; s < 32; s++ {
		if s != syscall.SIGKILL && s != syscall.SIGSTOP && s != syscall.SIGCHLD && !signal.Ignored(s) &&
			already&(1<<(s-1)) == 0 {
			caught = append(caught, s)
		}
	}
	signal.Notify(make(chan os.Signal, 1), caught...)
}

// ignored returns the signals that this process ignores, where the system reports them. Package signal only knows about
// SIGHUP and SIGINT, but some shells also make their children ignore the job control signals.
func ignored() (set uint64) {
	status, _ := os.ReadFile("/proc/self/status") // if it exists
	_, after, _ := strings.Cut(string(status), "\nSigIgn:\t")
	_, _ = fmt.Sscanf(after, "%x", &set) // 0 if it is not reported
	return set
}

func (w *watch) start(path string, args []string) error {
	if err := adoptOrphans(); err != nil {
		return err
	}
	if w.state != "" {
		if err := makeState(w.state, w.record); err != nil {
			w.state = ""
			return &stateError{err}
		}
	}
	if w.killAt != 0 && w.bootClock() >= w.killAt { // this process or its host did not run for a long time
		return ErrLate
	}
	var err error
	if w.alarm, err = newAlarm(); err != nil { // even without it, the program ends with zkr or at the deadline
		_, _ = fmt.Fprintf(os.Stderr,
			"zkr: the guard has no timer: %v; if it and zkr are both stopped, the program keeps running past the deadline\n",
			err)
	}
	if err := w.setAlarm(); err != nil {
		return err
	}
	if w.confined {
		if err := confine(); err != nil { // applies to this thread, which starts the command
			return err
		}
	}
	p, err := w.cgroup.start(path, args, &os.ProcAttr{
		Env: os.Environ(), Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}, Sys: attributes(w.group),
	})
	if err != nil {
		return err
	}
	w.pid = p.Pid
	return p.Release()
}

// patience is how long a host has to send newer deadlines to a guard that was stopped. It has it once for each deadline:
// on a busy machine, a guard that hardly runs looks stopped again and again.
const patience = time.Second

// setAlarm makes the kernel wake this process if it is stopped at the deadline: early enough that its patience has
// elapsed by then, and again each beat, since it may be stopped later. An alarm that fires early does no harm.
func (w *watch) setAlarm() error {
	if w.alarm == nil || w.killAt == w.alarmFor {
		return nil
	}
	w.alarmFor = w.killAt
	if w.killAt == 0 {
		return w.alarm.ring(0, 0)
	}
	return w.alarm.ring(max(w.killAt-w.bootClock()-patience-beat, beat), beat)
}

// read returns the lines of the orders, and closes the channel at EOF. Of those that have arrived, only the newest
// counts: a guard that was stopped may have thousands of deadlines to read, and not the time to obey each.
func read(orders io.Reader) <-chan string {
	lines := make(chan string)
	go func() { // ends with the process
		defer close(lines)
		in := bufio.NewReaderSize(orders, 64<<10) // as much as a pipe holds
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			if arrived, _ := in.Peek(in.Buffered()); bytes.IndexByte(arrived, '\n') < 0 {
				lines <- strings.TrimSuffix(line, "\n")
			}
		}
	}()
	return lines
}

// beat is how often the clock is checked: timers do not advance while the machine is suspended, but the deadline does.
const beat = 100 * time.Millisecond

// run watches the command until the host reports that it is done, or ends.
func (w *watch) run(ended <-chan os.Signal, orders <-chan string) {
	turned := w.reported                // this process may be stopped even before the loop
	var until, patientFor time.Duration // end of the patience, on the boot clock, and the deadline for which it was granted
	frozen := func() bool { return patientFor != w.killAt && w.bootClock()-turned > 5*beat }
	for armed := w.killAt != 0; ; {
		if armed && frozen() {
			until, patientFor = w.bootClock()+patience, w.killAt
		}
		turned, armed = w.bootClock(), w.killAt != 0 && !w.overdue
		_ = w.setAlarm() // fails only for an invalid argument
		var due <-chan time.Time
		if armed {
			due = time.After(max(min(max(w.killAt, until)-turned, beat), 0))
		}
		select {
		case <-ended:
			w.reap()
		case order, ok := <-orders:
			if !w.obey(order, ok) {
				return
			}
		case <-due:
			if frozen() || w.bootClock() < max(w.killAt, until) {
				continue
			}
			select { // if this process was briefly stopped, newer deadlines are pending
			case order, ok := <-orders:
				if !w.obey(order, ok) {
					return
				}
			case <-time.After(10 * time.Millisecond):
				if frozen() {
					continue
				}
				w.overdue = true
				w.killTree()
			}
		}
	}
}

// obey executes an order. It reports whether to keep watching.
func (w *watch) obey(order string, ok bool) bool {
	switch {
	case !ok: // the host has ended without dismissing the guard
		w.killTree()
		w.removeState()
		return false
	case order == "done":
		w.removeState() // the host may be killed before it does
		return false
	}
	at, err := strconv.ParseInt(order, 10, 64)
	if err == nil {
		w.killAt = time.Duration(at)
	}
	return true
}

// removeState removes the state file, unless the host already has.
func (w *watch) removeState() {
	if w.state != "" {
		removeState(w.state)
	}
}

// reap collects the status of every process that has ended, and reports that of the command to the host. It also
// reports the first stop of the command, and no others: a host that is stopped itself does not read, and a full pipe
// would keep this process from killing the command.
func (w *watch) reap() {
	reapAll(syscall.WUNTRACED, func(pid int, status syscall.WaitStatus) {
		if pid != w.pid || status.Stopped() && w.halted {
			return
		}
		if status.Stopped() {
			w.halted = true
			_, _ = fmt.Fprintf(w.report, "%d %d 0\n", halted, status.StopSignal())
			return
		}
		s := statusOf(status)
		number, overdue := 0, 0
		if status.Signaled() {
			number = int(status.Signal())
		}
		if w.overdue {
			overdue = 1
		}
		_, _ = fmt.Fprintf(w.report, "%d %d %d\n", s.Code, number, overdue)
	})
}

// killTree kills everything that the command has started until nothing is left. Since a list of processes takes time to
// make, a process whose parent ends in the meantime may be missing from it; killTree therefore stops only after two
// consecutive empty lists.
func (w *watch) killTree() {
	const shortest = 2 * time.Millisecond
	killed := map[int]bool{}
	none := false
	for pause := shortest; ; pause = min(2*pause, time.Second) {
		w.reap()
		w.cgroup.kill()
		all, err := w.list()
		if err != nil && w.group == 0 {
			_ = syscall.Kill(0, syscall.SIGKILL) // without a list of processes, kill the group, which includes this process
		} else if err != nil {
			_ = syscall.Kill(w.pid, syscall.SIGKILL)
			return
		}
		left := 0
		for _, p := range members(os.Getpid(), w.ownGroup(), all) {
			if p.pid == os.Getpid() {
				continue
			}
			_ = p.signal(syscall.SIGKILL) // it may have ended, which is just as well
			left++
			if !killed[p.pid] {
				killed[p.pid], pause = true, shortest // processes still start others
			}
		}
		if w.cgroup.populated() { // including by processes that /proc hides
			left++
		}
		switch {
		case left == 0 && none:
			w.cgroup.remove()
			return
		case left > 0:
			time.Sleep(pause)
		}
		none = left == 0
	}
}

// ownGroup returns the group that contains only the command, or 0 if there is none.
func (w *watch) ownGroup() int {
	if w.group != 0 {
		return 0
	}
	return syscall.Getpgrp()
}
