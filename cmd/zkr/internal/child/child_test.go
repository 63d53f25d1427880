//go:build unix

package child_test

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/child"
)

// asHost as the first argument makes the test binary a host. A host reaps all children of its process, which would
// include those of the tests.
const asHost = "__host"

func TestMain(m *testing.M) {
	switch {
	case len(os.Args) > 1 && os.Args[1] == child.GuardArg:
		child.Guard(os.Args[2:], clock)
	case len(os.Args) > 1 && os.Args[1] == asHost:
		if err := scenarios[os.Args[2]](); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
	case len(os.Args) > 1 && programs[os.Args[1]] != nil:
		programs[os.Args[1]]()
	default:
		os.Exit(m.Run())
	}
}

// programs are run by a host: the test binary with the key as its first argument.
var programs = map[string]func(){}

var scenarios = map[string]func() error{
	"kill": func() error {
		return tree("(setsid sh -c 'sleep 300 & sleep 300' &); sleep 300 & sh -c 'trap \"\" TERM; sleep 300'", 5,
			(*child.Child).Kill)
	},
	"stop": func() error {
		return tree("(setsid sleep 300 &); sleep 300 & kill -STOP $!; sleep 300", 4,
			func(c *child.Child) error { return c.Stop(syscall.SIGTERM) })
	},
	"terminal": func() error {
		return treeOf(child.Command{Terminal: true}, "(setsid sleep 300 &); sleep 300 & sleep 300", 4, (*child.Child).Kill)
	},
	"stranger": stranger,
	"several":  several,
	"state":    state,
	"guarded": func() error {
		if _, err := guarded(0); err != nil {
			return err
		}
		select {}
	},
	"unguarded": func() error {
		c, err := guarded(0)
		if err != nil {
			return err
		}
		return tellEnd(c)
	},
	"overdue-stopped": func() error {
		c, err := guarded(0) // the deadline is set below, since a busy machine may take long to start the tree
		if err != nil {
			return err
		}
		c.KillAt(clock() + 500*time.Millisecond)
		if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err != nil {
			return err
		}
		return tellEnd(c)
	},
	"overdue": func() error {
		c, err := guarded(clock() + time.Hour)
		if err != nil {
			return err
		}
		c.KillAt(clock() + 100*time.Millisecond)
		return tellEnd(c)
	},
	"late": func() error {
		_, err := status(child.Command{KillAt: clock() - time.Hour}, "echo started")
		if !errors.Is(err, child.ErrLate) {
			return fmt.Errorf("after the deadline: %w", err)
		}
		return nil
	},
	"full": func() error {
		c, err := begin(child.Command{KillAt: clock() + time.Hour}, "sleep 300")
		if err != nil {
			return err
		}
		if err := syscall.Kill(c.Group(), syscall.SIGSTOP); err != nil { // the guard
			return err
		}
		// On a busy machine, its other threads run until one has taken the signal, and would read the first deadline.
		if err := await(func() bool { return strings.HasPrefix(stateOf(c.Group()), "T") }); err != nil {
			return err
		}
		for range 10_000 { // more than the pipe holds
			c.KillAt(clock())
		}
		c.KillAt(0)
		time.Sleep(time.Second) // long enough for the guard to notice that it was stopped
		if err := syscall.Kill(c.Group(), syscall.SIGCONT); err != nil {
			return err
		}
		select {
		case <-c.Done():
			return fmt.Errorf("killed: %v", c.Status())
		case <-time.After(1500 * time.Millisecond): // longer than the guard's patience
		}
		c.KillAt(clock())
		<-c.Done()
		fmt.Println(c.Status().Overdue)
		return nil
	},
	"keys": func() error {
		s, err := status(child.Command{Terminal: true}, `echo "ready"; read line; echo "got $line"`)
		fmt.Println("status", s.Code)
		return err
	},
	"ignores": func() error {
		_, err := status(child.Command{}, "grep SigIgn /proc/self/status")
		return err
	},
	"early": func() error {
		s, err := status(child.Command{KillAt: clock() + time.Hour}, "exit 3")
		fmt.Println(s.Code, s.Overdue)
		return err
	},
	"closed": func() error {
		h, err := child.NewHost()
		if err != nil {
			return err
		}
		c, err := run(h, child.Command{}, "true")
		if err != nil {
			return err
		}
		<-c.Done()
		c.Close()
		if _, err := h.Start(child.Command{Path: "/no/such/program", Args: []string{"x"}}); err == nil {
			return errors.New("a missing program was started")
		}
		for range 5 {
			h.Close() // it waits for at most three seconds
		}
		if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); !errors.Is(err, syscall.ECHILD) {
			return fmt.Errorf("a guard is left: %d, %v", pid, err) //nolint:errorlint // it may be nil
		}
		return nil
	},
}

func tree(line string, processes int, end func(*child.Child) error) error {
	return treeOf(child.Command{}, line, processes, end)
}

// treeOf starts a shell command line, waits until at least the given number of processes run (a shell may or may not
// replace itself), ends them, and waits until none is left.
func treeOf(c child.Command, line string, processes int, end func(*child.Child) error) error {
	one, err := begin(c, line)
	if err != nil {
		return err
	}
	defer one.Close()
	if err := await(func() bool { return one.Left() >= processes }); err != nil {
		return fmt.Errorf("%d processes live: %w", one.Left(), err)
	}
	if err := end(one); err != nil {
		return err
	}
	if err := await(func() bool { return one.Left() == 0 }); err != nil {
		return fmt.Errorf("%d processes are left: %w", one.Left(), err)
	}
	<-one.Done()
	fmt.Println("status", one.Status().Code)
	return nil
}

func run(h *child.Host, c child.Command, line string) (*child.Child, error) {
	c.Path, c.Args, c.Env = "/bin/sh", []string{"sh", "-c", line}, os.Environ()
	c.Files = []*os.File{os.Stdin, os.Stdout, os.Stderr}
	return h.Start(c)
}

// begin starts a shell command line below a host of its own.
func begin(c child.Command, line string) (*child.Child, error) {
	h, err := child.NewHost()
	if err != nil {
		return nil, err
	}
	return run(h, c, line)
}

// status runs a shell command line to completion.
func status(c child.Command, line string) (child.Status, error) {
	one, err := begin(c, line)
	if err != nil {
		return child.Status{}, err
	}
	defer one.Close()
	<-one.Done()
	return one.Status(), nil
}

// tellEnd prints how a command has ended.
func tellEnd(c *child.Child) error {
	<-c.Done()
	fmt.Println(c.Status().Overdue, c.Status().Code)
	return nil
}

func await(condition func() bool) error {
	for end := time.Now().Add(50 * time.Second); !condition(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			return errors.New("not within 50 s")
		}
	}
	return nil
}

// stranger starts a process below the host that the command has not started, and that starts others: a shell that
// becomes zkr by exec may have such children.
func stranger() error {
	other := exec.Command("sh", "-c", "while :; do sleep 0.01; done") //nolint:noctx // it must outlive the command
	if err := other.Start(); err != nil {
		return err
	}
	defer other.Process.Kill() //nolint:errcheck // it is alive
	one, err := begin(child.Command{}, "sleep 300")
	if err != nil {
		return err
	}
	if err := one.Kill(); err != nil {
		return err
	}
	if err := await(func() bool { return one.Left() == 0 }); err != nil { // the guard may die first and the command later
		return fmt.Errorf("the stranger is counted: %d: %w", one.Left(), err)
	}
	for range 20 {
		if n := one.Left(); n > 0 {
			return fmt.Errorf("what the stranger starts is counted: %d", n)
		}
		time.Sleep(5 * time.Millisecond)
	}
	if err := other.Process.Signal(syscall.Signal(0)); err != nil {
		return fmt.Errorf("the stranger was killed: %w", err)
	}
	return nil
}

// several runs three commands with a daemon each. One ends, the guard of another is killed, and the third continues.
func several() error {
	h, err := child.NewHost()
	if err != nil {
		return err
	}
	var all [3]*child.Child
	for i := range all {
		if all[i], err = run(h, child.Command{}, "(setsid sleep 300 &); sleep 300 & wait"); err != nil {
			return err
		}
		if err := await(func() bool { return all[i].Left() == 3 }); err != nil {
			return fmt.Errorf("%d processes live: %w", all[i].Left(), err)
		}
	}
	if err := all[0].Kill(); err != nil {
		return err
	}
	if err := syscall.Kill(all[1].Group(), syscall.SIGKILL); err != nil {
		return err
	}
	for _, c := range all[:2] {
		if err := await(func() bool { return c.Left() == 0 }); err != nil {
			return fmt.Errorf("%d processes are left: %w", c.Left(), err)
		}
		<-c.Done()
		c.Close()
	}
	// The shell may have been starting the last of the three until now.
	if err := await(func() bool { return all[2].Left() == 3 }); err != nil {
		return fmt.Errorf("%d of 3 processes live of another command: %w", all[2].Left(), err)
	}
	if err := all[2].Kill(); err != nil {
		return err
	}
	return await(func() bool { return all[2].Left() == 0 })
}

// state starts commands with a state file in the temporary directory, and dismisses their guards.
func state() error {
	h, err := child.NewHost()
	if err != nil {
		return err
	}
	file := os.TempDir() + "/of one/state"
	with := child.Command{State: file, Record: "held"}
	one, err := run(h, with, "cat '"+file+"'")
	if err != nil {
		return err
	}
	<-one.Done()
	_, err = run(h, with, "true")
	var taken *os.PathError
	if !errors.As(err, &taken) || taken.Path != file || !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("the directory is taken: %w", err)
	}
	with.State = os.TempDir() + "/of another/state"
	with.KillAt = 1
	if _, err := run(h, with, "true"); !errors.Is(err, child.ErrLate) {
		return fmt.Errorf("it is late: %w", err)
	}
	if _, err := os.Stat(file); err != nil {
		return err
	}
	one.Close()
	h.Close()
	return nil
}

// guarded starts a command with processes that leave its group, reports their pids and that they are alive, and
// continues.
func guarded(killAt time.Duration) (*child.Child, error) {
	dir, err := os.MkdirTemp("", "child-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a test's directory
	file := dir + "/told"
	c, err := begin(child.Command{KillAt: killAt},
		"exec 3>>"+file+
			"; sleep 300 & echo $! >&3; setsid sh -c 'echo $$ >&3; (sleep 300 & echo $! >&3); sleep 300' & sleep 300")
	if err != nil {
		return nil, err
	}
	told := func() int {
		text, _ := os.ReadFile(file) // the shell creates it
		return strings.Count(string(text), "\n")
	}
	if err := await(func() bool { return told() == 3 }); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(file)
	if err := errors.Join(err, os.RemoveAll(dir)); err != nil {
		return nil, err
	}
	fmt.Fprint(os.Stderr, string(text)) // from now on the test may kill this process
	fmt.Println(c.Pid(), c.Group())
	return c, nil
}

// clock is the boot clock on a machine that is never suspended.
func clock() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err)
	}
	return time.Duration(t.Nano())
}

// host runs a scenario to completion and returns its output.
func host(t *testing.T, scenario string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), os.Args[0], asHost, scenario).CombinedOutput()
	require.NoError(t, err, string(out))
	return string(out)
}

func TestKill_EndsTheWholeTree(t *testing.T) {
	assert.Equal(t, "status 137\n", host(t, "kill"))
}

func TestStop_ReachesTheWholeTree(t *testing.T) {
	assert.Equal(t, "status 143\n", host(t, "stop"), "also a process that is stopped")
}

func TestKill_LeavesTheGroupOfATerminalAlone(t *testing.T) {
	assert.Equal(t, "status 137\n", host(t, "terminal"), "the host shares the group, and lives")
}

func TestTree_LeavesStrangersAlone(t *testing.T) { assert.Empty(t, host(t, "stranger")) }

func TestTree_LeavesOtherCommandsAlone(t *testing.T) { assert.Empty(t, host(t, "several")) }

// TestState_GoesWithTheGuard: the guard creates the file for the command, and removes it.
func TestState_GoesWithTheGuard(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	assert.Equal(t, "held", host(t, "state"))
	left, err := os.ReadDir(os.TempDir())
	require.NoError(t, err)
	assert.Empty(t, left)
}

func TestClose_LeavesNoGuardBehind(t *testing.T) { assert.Empty(t, host(t, "closed")) }

func TestStart_StartsNothingAfterTheDeadline(t *testing.T) { assert.Empty(t, host(t, "late")) }

func TestStart_KeepsADeadlineThatIsFarAhead(t *testing.T) {
	assert.Equal(t, "3 false\n", host(t, "early"), "also where an int has 32 bits")
}

func TestKillAt_TheNewestDeadlineReachesAGuardThatWasStopped(t *testing.T) {
	assert.Equal(t, "true\n", host(t, "full"))
}

// TestTerminal_KeysStopNothingWithoutAShell presses Ctrl-Z where no shell could resume the host, in which case the
// kernel ignores the key.
func TestTerminal_KeysStopNothingWithoutAShell(t *testing.T) {
	h := exec.CommandContext(t.Context(), os.Args[0], asHost, "keys")
	keyboard, err := pty.Start(h) // as the leader of a session
	require.NoError(t, err)
	defer keyboard.Close() //nolint:errcheck // it was only a terminal
	late := time.AfterFunc(time.Minute, func() { _ = h.Process.Kill() })
	defer late.Stop()
	var seen []string
	for screen := bufio.NewScanner(keyboard); screen.Scan(); {
		line := strings.TrimSpace(screen.Text())
		seen = append(seen, line)
		if line == "ready" {
			_, err := keyboard.WriteString("\x1ahello\n")
			require.NoError(t, err)
		}
	}
	require.NoError(t, h.Wait(), seen)
	assert.Contains(t, seen, "got hello")
	assert.Contains(t, seen, "status 0")
}

func TestGuard_RefusesToRunByHand(t *testing.T) {
	for _, line := range []string{
		`"$0" "$1"`, `"$0" "$1" 0 1 0 0 /bin/echo x`,
		`"$0" "$1" 3 4 0 0 /bin/echo x 3</dev/null 4>/dev/null`, `"$0" "$1" a 4 1 0 /bin/echo x`,
	} {
		shell := exec.CommandContext(t.Context(), "/bin/sh", "-c", line+"; exit $?", os.Args[0], child.GuardArg)
		shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		said, err := shell.CombinedOutput()
		var ended *exec.ExitError
		require.ErrorAs(t, err, &ended, "%s: %s", line, said)
		assert.Equal(t, 64, ended.ExitCode(), "%s: %s", line, said)
		assert.Contains(t, string(said), child.GuardArg)
	}
}

// guardedHost starts a host whose command has a process tree, and returns the pids of the tree and of the guard.
func guardedHost(t *testing.T, scenario string) (h *exec.Cmd, tree []int, guard int, said *bufio.Scanner) {
	t.Helper()
	h = exec.CommandContext(t.Context(), os.Args[0], asHost, scenario)
	out, err := h.StdoutPipe()
	require.NoError(t, err)
	told, err := h.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, h.Start())
	said = bufio.NewScanner(out)
	require.True(t, said.Scan(), "the host has told the command")
	var pid int
	_, err = fmt.Sscan(said.Text(), &pid, &guard)
	require.NoError(t, err, said.Text())
	tree = []int{pid}
	for lines := bufio.NewScanner(told); len(tree) < 4 && lines.Scan(); {
		one, err := strconv.Atoi(lines.Text())
		require.NoError(t, err)
		tree = append(tree, one)
	}
	return h, tree, guard, said
}

// requireSays fails the test unless the host prints want when its command has ended. It waits for the host to exit.
func requireSays(t *testing.T, h *exec.Cmd, said *bufio.Scanner, want string) {
	t.Helper()
	require.True(t, said.Scan())
	assert.Equal(t, want, said.Text())
	require.NoError(t, h.Wait())
}

// stopped waits until a host is stopped.
func stopped(t *testing.T, h *exec.Cmd) {
	t.Helper()
	require.Eventually(t, func() bool { return strings.HasPrefix(stateOf(h.Process.Pid), "T") }, 50*time.Second,
		10*time.Millisecond)
}

func allEnd(t *testing.T, pids []int) {
	t.Helper()
	require.Len(t, pids, 4)
	for _, pid := range pids {
		require.Eventually(t, func() bool { return !runs(pid) }, 50*time.Second, 10*time.Millisecond, "process %d lives", pid)
	}
}

func TestGuard_KillsTheTreeWhenItsHostIsKilled(t *testing.T) {
	h, tree, guard, _ := guardedHost(t, "guarded")
	require.NoError(t, h.Process.Kill())
	allEnd(t, tree)
	require.Eventually(t, func() bool { return !runs(guard) }, 50*time.Second, 10*time.Millisecond, "the guard ends")
	require.Error(t, h.Wait())
}

func TestGuard_KillsTheTreeAtTheDeadline(t *testing.T) {
	h, tree, _, said := guardedHost(t, "overdue")
	allEnd(t, tree)
	requireSays(t, h, said, "true 137")
}

func TestGuard_KillsTheTreeOfAStoppedHost(t *testing.T) {
	h, tree, _, said := guardedHost(t, "overdue-stopped")
	allEnd(t, tree)
	// On a busy machine the host may stop only after its deadline. A SIGCONT before that would have no effect.
	stopped(t, h)
	require.NoError(t, h.Process.Signal(syscall.SIGCONT))
	requireSays(t, h, said, "true 137")
}

func TestHost_KillsTheTreeWhenTheGuardIsKilled(t *testing.T) {
	h, tree, guard, said := guardedHost(t, "unguarded")
	require.NoError(t, syscall.Kill(guard, syscall.SIGKILL))
	allEnd(t, tree)
	requireSays(t, h, said, "false 137")
}

// runs reports whether a process exists and is not a zombie: process 1 of a container may not reap.
func runs(pid int) bool {
	state := stateOf(pid)
	return state != "" && !strings.HasPrefix(state, "Z")
}

// stateOf returns the state of a process, such as "T" for a stopped one, or "" if there is no such process. It avoids
// ps on Linux, since minimal systems lack it.
func stateOf(pid int) string {
	if runtime.GOOS == "linux" {
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		_, after, _ := strings.Cut(string(stat), ") ")
		return after[:min(1, len(after))]
	}
	state, _ := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output() //nolint:noctx // ends at once
	return strings.TrimSpace(string(state))
}
