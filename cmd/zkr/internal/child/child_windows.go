package child

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

// GuardArg is empty on Windows: the job object makes a guard unnecessary.
const GuardArg = ""

// Guard does nothing on Windows.
func Guard([]string, func() time.Duration) {}

// Host starts commands. A program has one Host for its whole lifetime.
type Host struct{}

// NewHost makes this process the host of everything that it starts.
func NewHost() (*Host, error) { return &Host{}, nil }

// Close does nothing, since Windows has no guards to wait for.
func (h *Host) Close() {}

// Child is a started command.
type Child struct {
	process *os.Process
	job     windows.Handle
	done    chan struct{}
	status  Status
}

// Start starts the command. The command is suspended until it is in its job object, so that everything it starts is in
// the job object too. If the state file cannot be created, the error is an *os.PathError with its path.
func (h *Host) Start(command Command) (_ *Child, err error) {
	if command.State != "" {
		if err := makeState(command.State, command.Record); err != nil {
			return nil, err
		}
		defer func() {
			if err != nil {
				removeState(command.State)
			}
		}()
	}
	job, err := newJob()
	if err != nil {
		return nil, fmt.Errorf("create a job object: %w", err)
	}
	flags := uint32(windows.CREATE_SUSPENDED | windows.CREATE_NEW_PROCESS_GROUP)
	p, err := os.StartProcess(command.Path, command.Args, &os.ProcAttr{
		Env: command.Env, Files: command.Files, Sys: &syscall.SysProcAttr{CreationFlags: flags},
	})
	if err != nil {
		_ = windows.CloseHandle(job)
		return nil, err
	}
	if err := enter(job, p); err != nil {
		_ = p.Kill()
		_, _ = p.Wait()
		_ = windows.CloseHandle(job)
		return nil, err
	}
	c := &Child{process: p, job: job, done: make(chan struct{})}
	go c.wait()
	return c, nil
}

func newJob() (windows.Handle, error) {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return 0, err
	}
	limits := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{}
	limits.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	_, err = windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits)))
	if err != nil {
		_ = windows.CloseHandle(job)
		return 0, err
	}
	return job, nil
}

// enter puts the suspended process into the job and resumes it.
func enter(job windows.Handle, p *os.Process) error {
	pid := uint32(p.Pid)
	handle, err := windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE, false, pid)
	if err != nil {
		return fmt.Errorf("open process %d: %w", pid, err)
	}
	defer windows.CloseHandle(handle) //nolint:errcheck // nothing can be done about a failure
	if err := windows.AssignProcessToJobObject(job, handle); err != nil {
		return fmt.Errorf("assign process %d to its job object: %w", pid, err)
	}
	return resume(pid)
}

// resume resumes the only thread of a process that was started suspended.
func resume(pid uint32) error {
	threads, err := windows.CreateToolhelp32Snapshot(windows.TH32CS_SNAPTHREAD, 0)
	if err != nil {
		return fmt.Errorf("list the threads: %w", err)
	}
	defer windows.CloseHandle(threads) //nolint:errcheck // nothing can be done about a failure
	entry := windows.ThreadEntry32{Size: uint32(unsafe.Sizeof(windows.ThreadEntry32{}))}
	for err = windows.Thread32First(threads, &entry); err == nil; err = windows.Thread32Next(threads, &entry) {
		if entry.OwnerProcessID != pid {
			continue
		}
		thread, err := windows.OpenThread(windows.THREAD_SUSPEND_RESUME, false, entry.ThreadID)
		if err != nil {
			return fmt.Errorf("open the thread of process %d: %w", pid, err)
		}
		_, err = windows.ResumeThread(thread)
		return errors.Join(err, windows.CloseHandle(thread))
	}
	return fmt.Errorf("process %d has no thread: %w", pid, err)
}

func (c *Child) wait() {
	if state, err := c.process.Wait(); err == nil {
		c.status = Status{Code: state.ExitCode()}
	} else {
		c.status = Status{Code: 1}
	}
	close(c.done)
}

// Pid returns the process ID of the command.
func (c *Child) Pid() int { return c.process.Pid }

// Group returns the process group of the command.
func (c *Child) Group() int { return c.process.Pid }

// Done is closed when the command itself has ended; Status is then known. Processes that the command started may live
// on, see Left.
func (c *Child) Done() <-chan struct{} { return c.done }

// Status returns how the command ended.
func (c *Child) Status() Status { return c.status }

// Halted returns nil on Windows, which has no signal that stops a process.
func (c *Child) Halted() <-chan os.Signal { return nil }

// KillAt does nothing on Windows, which has no signal that stops a process.
func (c *Child) KillAt(time.Duration) {}

// Forward interrupts the process group of the command with Ctrl-Break, the only signal for that on Windows.
func (c *Child) Forward(os.Signal) error {
	return windows.GenerateConsoleCtrlEvent(windows.CTRL_BREAK_EVENT, uint32(c.process.Pid))
}

// Stop asks the command to end with a Ctrl-Break, which only console programs receive.
func (c *Child) Stop(s os.Signal) error { return c.Forward(s) }

// Kill ends the command and everything that it has started.
func (c *Child) Kill() error { return windows.TerminateJobObject(c.job, 1) }

// accounting is JOBOBJECT_BASIC_ACCOUNTING_INFORMATION.
type accounting struct {
	totalUserTime, totalKernelTime, periodUserTime, periodKernelTime int64
	pageFaults, totalProcesses, activeProcesses, terminatedProcesses uint32
}

// Cgroup returns "".
func (c *Child) Cgroup() string { return "" }

// Foreign returns nothing: a job object also ends the processes of other users.
func (c *Child) Foreign() []int { return nil }

// MayBeForeign returns false.
func (c *Child) MayBeForeign() bool { return false }

// Left returns how many processes remain of the command and of what it has started.
func (c *Child) Left() int {
	var a accounting
	err := windows.QueryInformationJobObject(c.job, windows.JobObjectBasicAccountingInformation,
		uintptr(unsafe.Pointer(&a)), uint32(unsafe.Sizeof(a)), nil)
	if err != nil {
		return 1 // not known to be gone
	}
	return int(a.activeProcesses)
}

// Close closes the job object, which kills whatever is left in it.
func (c *Child) Close() { _ = windows.CloseHandle(c.job) }
