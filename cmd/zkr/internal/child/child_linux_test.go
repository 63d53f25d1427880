package child_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/child"
	"github.com/zkrecipes/zkrecipes/internal/testkit/need"
)

func init() {
	runtime.LockOSThread() // main runs on the first thread of the process
	programs["__first-thread-ends"] = func() {
		go func() {
			time.Sleep(time.Minute)
			os.Exit(0)
		}()
		_, _, _ = syscall.Syscall(syscall.SYS_EXIT, 0, 0, 0) // exits only the thread
	}
	scenarios["first-thread-ends"] = firstThreadEnds
	programs["__root"] = func() {
		if err := syscall.Setuid(0); err != nil {
			fmt.Println("no root:", err)
			return
		}
		fmt.Println("root")
		if len(os.Args) > 2 {
			time.Sleep(5 * time.Minute) // only a control group ends it
		}
		_, _ = io.Copy(io.Discard, os.Stdin) // the host may be unable to end it
	}
	scenarios["foreign"] = func() error { return foreign(true) }
	scenarios["confined"] = func() error { return foreign(false) }
	scenarios["foreign-in-cgroup"] = foreignInCgroup
	scenarios["both-stopped"] = bothStopped
}

// becomesRoot starts a program that becomes root if it may, and prints its first line.
func becomesRoot(c child.Command, stdin *os.File, args ...string) (*child.Child, error) {
	h, err := child.NewHost()
	if err != nil {
		return nil, err
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	c.Path = os.Getenv("CHILD_TEST_ROOT")
	c.Args, c.Files = append([]string{c.Path, "__root"}, args...), []*os.File{stdin, write, os.Stderr}
	one, err := h.Start(c)
	if err != nil {
		return nil, err
	}
	_ = write.Close() // the program has its own copy
	said, err := bufio.NewReader(read).ReadString('\n')
	fmt.Print(said)
	return one, err
}

// foreignInCgroup starts a program that becomes root, in a control group that this process may write to, and prints its
// pid. It then kills the program, or waits to be killed.
func foreignInCgroup() error {
	above := os.Getenv("CHILD_TEST_CGROUP")
	if err := os.WriteFile(filepath.Join(above, "cgroup.procs"), []byte("0"), 0); err != nil {
		return err
	}
	if err := errors.Join(syscall.Setuid(65534), unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0)); err != nil {
		return err
	}
	c, err := becomesRoot(child.Command{Setuid: true, Cgroup: true}, nil, "sleeps")
	if err != nil {
		return err
	}
	if err := await(func() bool { return errors.Is(c.Forward(syscall.Signal(0)), syscall.EPERM) }); err != nil {
		return err
	}
	fmt.Println("pid", c.Pid(), len(c.Foreign()), filepath.Dir(c.Cgroup()) == above)
	if os.Getenv("CHILD_TEST_KILLS") == "" {
		select {}
	}
	if err := c.Kill(); err != nil {
		return err
	}
	if err := await(func() bool { return c.Left() == 0 }); err != nil {
		return err
	}
	<-c.Done()
	c.Close()
	fmt.Println("status", c.Status().Code)
	return nil
}

// bothStopped stops the guard and then the host, as pkill -STOP -f zkr does.
func bothStopped() error {
	c, err := guarded(clock() + 6*time.Second) // a later order could still be unread when the guard is stopped
	if err != nil {
		return err
	}
	if err := errors.Join(syscall.Kill(c.Group(), syscall.SIGSTOP),
		syscall.Kill(os.Getpid(), syscall.SIGSTOP)); err != nil {
		return err
	}
	return tellEnd(c)
}

// firstThreadEnds ends the first thread of a program, which the process list then shows as a zombie while its other
// threads run.
func firstThreadEnds() error {
	c, err := begin(child.Command{}, "exec "+os.Args[0]+" __first-thread-ends")
	if err != nil {
		return err
	}
	defer c.Close()
	if err := await(func() bool {
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.Pid()))
		return bytes.Contains(stat, []byte(") Z "))
	}); err != nil {
		return err
	}
	fmt.Println("left", c.Left())
	if err := c.Kill(); err != nil {
		return err
	}
	<-c.Done()
	fmt.Println("left", c.Left(), "status", c.Status().Code)
	return nil
}

// foreign starts a program that becomes root if it may, as sudo does, so that this process may not signal it.
func foreign(setuid bool) error {
	if err := errors.Join(syscall.Setuid(65534), unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0)); err != nil {
		return err
	}
	child.LookAgain()
	stdin, hold, err := os.Pipe()
	if err != nil {
		return err
	}
	c, err := becomesRoot(child.Command{Setuid: setuid}, stdin)
	if err != nil {
		return err
	}
	defer c.Close()
	if c.MayBeForeign() {
		fmt.Println(errors.Is(c.Forward(syscall.SIGUSR1), syscall.EPERM), errors.Is(c.Stop(syscall.SIGTERM), syscall.EPERM),
			slices.Equal(c.Foreign(), []int{c.Pid()}))
	}
	if err := hold.Close(); err != nil {
		return err
	}
	<-c.Done()
	return nil
}

func TestForward_ReportsASignalThatMayNotBeSent(t *testing.T) {
	setuidProgram(t)
	said := host(t, "foreign")
	if strings.HasPrefix(said, "no root") {
		t.Skip("this system runs no program as another user: " + said)
	}
	assert.Equal(t, "root\ntrue true true\n", said)
}

// TestStart_NoProgramGainsPrivileges: a program that had become root could not be signalled, and outlived the lock.
func TestStart_NoProgramGainsPrivileges(t *testing.T) {
	setuidProgram(t)
	assert.Equal(t, "no root: operation not permitted\n", host(t, "confined"))
}

// TestCgroup_EndsAProgramThatBecameAnotherUser: without a control group the program survives, because the host may not
// signal it.
func TestCgroup_EndsAProgramThatBecameAnotherUser(t *testing.T) {
	setuidProgram(t)
	for _, by := range []string{"host", "guard"} {
		t.Run("by the "+by, func(t *testing.T) {
			group := ownGroup(t)
			h := exec.CommandContext(t.Context(), os.Args[0], asHost, "foreign-in-cgroup")
			if by == "host" {
				h.Env = append(os.Environ(), "CHILD_TEST_KILLS=1")
			}
			h.Env = append(h.Environ(), "CHILD_TEST_CGROUP="+group)
			out, err := h.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, h.Start())
			said := bufio.NewScanner(out)
			require.True(t, said.Scan())
			if said.Text() != "root" {
				_ = h.Process.Kill() // useless here
				_ = h.Wait()
				t.Skip("this system runs no program as another user: " + said.Text())
			}
			require.True(t, said.Scan())
			var pid, foreign int
			var inGroup bool
			_, err = fmt.Sscanf(said.Text(), "pid %d %d %t", &pid, &foreign, &inGroup)
			require.NoError(t, err, said.Text())
			require.Zero(t, foreign, "the group ends it")
			require.True(t, inGroup)
			if by == "host" {
				require.True(t, said.Scan())
				require.Equal(t, "status 137", said.Text())
				require.NoError(t, h.Wait())
			} else {
				require.NoError(t, h.Process.Kill())
				require.Error(t, h.Wait())
			}
			require.Eventually(t, func() bool { return !runs(pid) }, 50*time.Second, 10*time.Millisecond)
			require.Eventually(t, func() bool { return os.Remove(group) == nil }, 50*time.Second, 10*time.Millisecond,
				"nothing is left in it")
		})
	}
}

// ownGroup creates a control group that another user may write to.
func ownGroup(t *testing.T) string {
	t.Helper()
	for _, mounted := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		if _, err := os.Stat(filepath.Join(mounted, "cgroup.controllers")); err != nil {
			continue
		}
		group, err := os.MkdirTemp(mounted, "child-test-") //nolint:usetesting // groups exist only there
		if err != nil {
			t.Skip("control groups cannot be written here: ", err)
		}
		t.Cleanup(func() { _ = os.Remove(group) }) // the test removes it
		if _, err := os.Stat(filepath.Join(group, "cgroup.kill")); err != nil {
			t.Skip("this kernel is older than cgroup.kill, 5.14: ", err)
		}
		for _, file := range []string{"", "cgroup.procs"} {
			require.NoError(t, os.Chown(filepath.Join(group, file), 65534, -1))
		}
		return group
	}
	t.Skip("no control groups of version 2 are mounted")
	return ""
}

// setuidProgram creates the program that becomes root.
func setuidProgram(t *testing.T) {
	t.Helper()
	need.Root(t)
	dir := t.TempDir()
	program := filepath.Join(dir, "root")
	binary, err := os.ReadFile(os.Args[0])
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(program, binary, 0o755)) //nolint:gosec // another user executes it
	require.NoError(t, os.Chmod(program, 0o755|os.ModeSetuid))
	for _, one := range []string{dir, filepath.Dir(dir)} {
		require.NoError(t, os.Chmod(one, 0o755)) //nolint:gosec // another user executes a file there
	}
	t.Setenv("CHILD_TEST_ROOT", program)
}

// TestGuard_KillsTheTreeWhenItIsStoppedWithItsHost: both used to stay stopped, and the program ran past the deadline.
func TestGuard_KillsTheTreeWhenItIsStoppedWithItsHost(t *testing.T) {
	t.Parallel()
	h, tree, _, said := guardedHost(t, "both-stopped")
	stopped(t, h)
	allEnd(t, tree)
	require.NoError(t, h.Process.Signal(syscall.SIGCONT))
	requireSays(t, h, said, "true 137")
}

func TestStart_InheritsIgnoredSignals(t *testing.T) {
	shell := exec.CommandContext(t.Context(), "/bin/sh", "-c", `trap "" HUP TSTP TTIN TTOU; exec "$0" "$1" ignores`,
		os.Args[0], asHost)
	said, err := shell.CombinedOutput()
	require.NoError(t, err, string(said))
	var set uint64
	_, err = fmt.Sscanf(string(said), "SigIgn:\t%x", &set)
	require.NoError(t, err, string(said))
	for _, one := range []syscall.Signal{syscall.SIGHUP, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU} {
		assert.NotZero(t, set&(1<<(one-1)), one)
	}
}

func TestLeft_CountsAProgramWhoseFirstThreadHasEnded(t *testing.T) {
	assert.Equal(t, "left 1\nleft 0 status 137\n", host(t, "first-thread-ends"))
}

// TestGuard_KilledWhileItsHostIsStopped: the host resumes by itself and kills what the guard left behind.
func TestGuard_KilledWhileItsHostIsStopped(t *testing.T) {
	h, tree, guard, said := guardedHost(t, "unguarded")
	require.NoError(t, h.Process.Signal(syscall.SIGSTOP))
	stopped(t, h)
	require.NoError(t, syscall.Kill(guard, syscall.SIGKILL))
	allEnd(t, tree)
	requireSays(t, h, said, "false 137")
}
