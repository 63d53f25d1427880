//go:build unix

package child_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/child"
)

// asHost as the first argument makes the test binary a host: a host reaps all children of its process, also those of tests.
const asHost = "__host"

func TestMain(m *testing.M) {
	switch {
	case len(os.Args) == 2 && os.Args[1] == child.GuardArg:
		child.Guard(os.Stdin)
	case len(os.Args) > 1 && os.Args[1] == asHost:
		if err := scenarios[os.Args[2]](); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
	default:
		os.Exit(m.Run())
	}
}

var scenarios = map[string]func() error{
	"kill": func() error {
		return tree("(setsid sh -c 'sleep 60 & sleep 60' &); sleep 60 & sh -c 'trap \"\" TERM; sleep 60'", 5, (*child.Child).Kill)
	},
	"stop": func() error {
		return tree("(setsid sleep 60 &); sleep 60 & kill -STOP $!; sleep 60", 4, func(c *child.Child) error { return c.Stop(syscall.SIGTERM) })
	},
	"terminal": func() error {
		return treeOf(child.Command{Terminal: true}, "(setsid sleep 60 &); sleep 60 & sleep 60", 4, (*child.Child).Kill)
	},
	"stranger": stranger,
	"guarded":  guarded,
	"missing": func() error {
		h, err := child.NewHost()
		if err != nil {
			return err
		}
		if _, err := h.Start(child.Command{Path: "/no/such/program", Args: []string{"x"}}); err == nil {
			return fmt.Errorf("a missing program was started")
		}
		return nil
	},
}

func tree(line string, processes int, end func(*child.Child) error) error {
	return treeOf(child.Command{}, line, processes, end)
}

// treeOf starts a line of shell, waits until it has started so many processes or more (a shell may or may not replace itself), ends them, and waits until none is left.
func treeOf(c child.Command, line string, processes int, end func(*child.Child) error) error {
	h, err := child.NewHost()
	if err != nil {
		return err
	}
	one, err := run(h, c, line)
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

func await(condition func() bool) error {
	for range 1000 {
		if condition() {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return fmt.Errorf("not within 10 s")
}

// stranger is a process below the host that the command has not started: a shell that becomes zkr by exec may have some.
func stranger() error {
	other := exec.Command("sleep", "60") //nolint:noctx // it is to outlive the command
	if err := other.Start(); err != nil {
		return err
	}
	h, err := child.NewHost()
	if err != nil {
		return err
	}
	one, err := run(h, child.Command{}, "sleep 60")
	if err != nil {
		return err
	}
	if err := one.Kill(); err != nil {
		return err
	}
	<-one.Done()
	if left := one.Left(); left != 0 {
		return fmt.Errorf("the stranger is counted: %d", left)
	}
	if err := other.Process.Signal(syscall.Signal(0)); err != nil {
		return fmt.Errorf("the stranger was killed: %w", err)
	}
	return other.Process.Kill()
}

// guarded starts a command that starts another process, tells both, and waits to be killed.
func guarded() error {
	h, err := child.NewGuardedHost()
	if err != nil {
		return err
	}
	if _, err := run(h, child.Command{}, "sleep 60 & echo $$ $! >&2; wait"); err != nil {
		return err
	}
	fmt.Println("the guard knows the command")
	select {}
}

// host runs a scenario to its end, and returns what it printed.
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

func TestStart_TellsAMissingProgram(t *testing.T) { assert.Empty(t, host(t, "missing")) }

func TestGuard_KillsTheGroupWhenItsHostIsKilled(t *testing.T) {
	h := exec.CommandContext(t.Context(), os.Args[0], asHost, "guarded")
	out, err := h.StdoutPipe()
	require.NoError(t, err)
	told, err := h.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, h.Start())
	lines, guarded := bufio.NewScanner(told), bufio.NewScanner(out)
	require.True(t, lines.Scan(), "the command has told its processes")
	require.True(t, guarded.Scan(), "the guard knows them")
	require.NoError(t, h.Process.Kill())
	for word := range strings.FieldsSeq(lines.Text()) {
		pid, err := strconv.Atoi(word)
		require.NoError(t, err)
		require.Eventually(t, func() bool { return !runs(pid) }, 10*time.Second, 10*time.Millisecond, "process %d lives", pid)
	}
	require.Error(t, h.Wait())
}

func TestGuard_LeavesTheGroupAloneWhenItsHostIsDone(t *testing.T) {
	one := exec.CommandContext(t.Context(), "sleep", "60")
	require.NoError(t, one.Start())
	g := exec.CommandContext(t.Context(), os.Args[0], child.GuardArg)
	g.Stdin = strings.NewReader(fmt.Sprintf("%d\ndone\n", one.Process.Pid))
	require.NoError(t, g.Run())
	require.NoError(t, one.Process.Signal(syscall.Signal(0)))
	require.NoError(t, one.Process.Kill())
	require.Error(t, one.Wait())
}

// runs reports whether a process is there that is no zombie: a container may have no process 1 that reaps.
func runs(pid int) bool {
	state, err := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output() //nolint:noctx // it ends at once
	return err == nil && !strings.HasPrefix(strings.TrimSpace(string(state)), "Z")
}
