//go:build linux

package exclusion

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/testkit/need"
)

// nobody is the user that zkr, or a process of the program, runs as in the tests with another user.
const nobody = 65534

// user is the user that zkr runs as, and the user that a process of the program becomes.
type user struct {
	zkr, process int
	setuid       bool // with --allow-setuid
	cgroup       bool // with --cgroup, in a group that zkr may write to
	escapes      bool // the process survives, as the guide warns
}

// cast is what the programs of such a test need.
type cast struct {
	user
	zkr   string   // a copy that the user may execute
	group *os.File // where zkr starts; may be nil
}

// recast makes the stage run zkr as a user, with a program one process of which becomes another user. Where the system
// does not allow that, it skips the test and gives the reason.
func (s *stage) recast(t *testing.T, u user) {
	t.Helper()
	need.Root(t)
	dir := filepath.Dir(s.signs.file)
	for _, one := range []string{dir, filepath.Dir(dir)} {
		require.NoError(t, os.Chmod(one, 0o755)) //nolint:gosec // another user looks for files there
	}
	require.NoError(t, os.WriteFile(s.signs.file, nil, 0o600))
	require.NoError(t, os.Chmod(s.signs.file, 0o666)) //nolint:gosec // all of them write it
	plain := install(t, os.Args[0], filepath.Join(dir, "program"), "0755")
	root := install(t, os.Args[0], filepath.Join(dir, "root"), "4755")
	switch probe := as(nobody, exec.CommandContext(t.Context(), root, asProgram, "root?", "")); {
	case u.zkr == 0 && !mayKill():
		t.Skip("root has no CAP_KILL here, so zkr cannot kill a process of another user")
	case u.setuid && probe.Run() != nil:
		t.Skip("this system lets no program become root")
	}
	s.cast = &cast{user: u, zkr: install(t, s.Zkr(t.Context()).Path, filepath.Join(dir, "zkr"), "0755")}
	if u.cgroup {
		s.cast.group = openGroup(t)
	}
	s.program = []string{plain, asProgram, "becomes", s.signs.file, strconv.Itoa(u.process), root}
}

// install copies a file. Another process writes it, because a copy that this process writes is busy while any of its
// children starts.
func install(t *testing.T, from, to, mode string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "install", "-m", mode, from, to).CombinedOutput()
	require.NoError(t, err, string(out))
	return to
}

// as makes a command run as a user.
func as(uid int, cmd *exec.Cmd) *exec.Cmd {
	cmd.Dir = "/"
	//nolint:gosec // uid is 0 or nobody
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	return cmd
}

// prepare prepares zkr.
func (c *cast) prepare(zkr *exec.Cmd) {
	as(c.user.zkr, zkr)
	zkr.Path = c.zkr
	if c.group != nil {
		zkr.SysProcAttr.UseCgroupFD, zkr.SysProcAttr.CgroupFD = true, int(c.group.Fd())
	}
}

// mayKill reports whether this process may signal processes of other users.
func mayKill() bool {
	const capKill = 5
	text, _ := os.ReadFile("/proc/self/status")
	_, after, _ := strings.Cut(string(text), "\nCapEff:\t")
	effective, _, _ := strings.Cut(after, "\n")
	set, _ := strconv.ParseUint(effective, 16, 64) // on failure 0: no capability
	return set&(1<<capKill) != 0
}

// openGroup creates a control group of version 2 that another user may write to.
func openGroup(t *testing.T) *os.File {
	t.Helper()
	for _, mounted := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		if _, err := os.Stat(filepath.Join(mounted, "cgroup.controllers")); err != nil {
			continue
		}
		//nolint:usetesting // only a directory of that file system is a group
		name, err := os.MkdirTemp(mounted, "exclusion-")
		if err != nil {
			t.Skip("control groups cannot be written here: ", err)
		}
		t.Cleanup(func() {
			eventually(t, "nothing is left in the control group", func() bool {
				err := os.Remove(name)
				return err == nil || errors.Is(err, os.ErrNotExist)
			})
		})
		if _, err := os.Stat(filepath.Join(name, "cgroup.kill")); err != nil {
			t.Skip("this kernel is older than cgroup.kill, 5.14: ", err)
		}
		for _, file := range []string{"", "cgroup.procs"} {
			require.NoError(t, os.Chown(filepath.Join(name, file), nobody, -1))
		}
		group, err := os.Open(name)
		require.NoError(t, err)
		t.Cleanup(func() { _ = group.Close() })
		return group
	}
	t.Skip("no control groups of version 2 are mounted")
	return nil
}

// escape waits until a process of a holder has run concurrently with the program of the next one, where the guide warns
// of it.
func (s *stage) escape(t *testing.T, holder, next *candidate) {
	t.Helper()
	if s.cast != nil && s.cast.escapes {
		eventually(t, "a process escapes", func() bool { return s.life(t, holder).last > s.life(t, next).first })
	}
}

// end waits for zkr to exit. The test kills what zkr cannot kill, as soon as zkr has reported it.
func (s *stage) end(t *testing.T, c *candidate) int {
	t.Helper()
	if s.shards {
		_ = c.Process.Signal(syscall.SIGTERM) // a lost lock does not end it
	}
	if s.cast != nil && s.cast.escapes {
		foreign := event{}
		eventually(t, "zkr tells what it cannot stop, and ends without it", func() bool {
			if told, ok := c.told("foreign"); ok && foreign.Pid == 0 {
				foreign = told
				_ = syscall.Kill(foreign.Pid, syscall.SIGKILL) // zkr waits for it, here or in the queue
			}
			return c.over()
		})
	}
	return c.status()
}
