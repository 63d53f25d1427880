package packages

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/zktest"
)

// machine is a Debian booted by systemd, with the package of zkr installed.
type machine struct {
	root string // its root directory, seen from here
	pid  int    // of its systemd
}

// patience is how long a test waits for what must happen.
const patience = 2 * time.Minute

// boot boots a machine, which ends with the test.
func boot(t *testing.T, packages string) *machine {
	t.Helper()
	m := &machine{root: t.TempDir()}
	run(t, "tar", "-C", m.root, "-xf", debian(t))
	run(t, "dpkg", "--root="+m.root, "--force-script-chrootless", "--no-triggers", "-i", packages+"/zkr-linux-amd64.deb")
	m.write(t, "etc/hostname", 0o644, "node1\n")
	m.write(t, "usr/local/bin/worker", 0o755, "#!/bin/sh\necho $$ >>/var/lib/$UNIT.starts\neval \"$WORK\"\n")

	var log strings.Builder
	cmd := exec.Command("testdata/boot.sh", m.root)
	cmd.Stdout, cmd.Stderr = &log, &log
	require.NoError(t, cmd.Start())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cmd.Wait() }() // it is killed
	t.Cleanup(func() {
		if m.pid != 0 {
			_ = syscall.Kill(m.pid, syscall.SIGKILL)
		}
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-ended
	})
	eventually(t, "systemd is up", func() bool {
		select {
		case <-ended:
			require.FailNow(t, "systemd does not boot", log.String())
		default:
		}
		m.pid = m.find(t)
		return m.pid != 0 && m.try(t, "systemctl", "is-system-running") == "running"
	})
	return m
}

// debian returns the archive of a Debian with systemd.
func debian(t *testing.T) string {
	t.Helper()
	said := strings.Fields(run(t, "../../../.ci/debian", "systemd", "systemd", "systemd-sysv", "dbus"))
	return said[len(said)-1]
}

// find returns the process ID of the machine's systemd.
func (m *machine) find(t *testing.T) int {
	t.Helper()
	found, err := filepath.Glob("/proc/[0-9]*/root/usr/local/bin/worker")
	require.NoError(t, err)
	for _, name := range found {
		pid, _ := strconv.Atoi(strings.Split(name, "/")[2])
		own, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)) // it may have ended
		inside, err := os.Stat(name)
		outside, wrong := os.Stat(m.root + "/usr/local/bin/worker")
		if err == nil && wrong == nil && os.SameFile(inside, outside) && filepath.Base(own) == "systemd" {
			return pid
		}
	}
	return 0
}

func (m *machine) write(t *testing.T, name string, mode os.FileMode, text string) {
	t.Helper()
	path := filepath.Join(m.root, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755)) //nolint:gosec // as Debian has them
	require.NoError(t, os.WriteFile(path, []byte(text), mode))
	require.NoError(t, os.Chmod(path, mode))
}

// try runs a command in the machine, and returns its output.
func (m *machine) try(t *testing.T, command ...string) string {
	t.Helper()
	args := append([]string{"-t", strconv.Itoa(m.pid), "-a", "--"}, command...)
	// The output shows a failure.
	out, _ := exec.CommandContext(context.WithoutCancel(t.Context()), "nsenter", args...).CombinedOutput()
	return strings.TrimSpace(string(out))
}

// unit is the unit of the package under another name, with other servers.
type unit struct {
	*machine
	srv  *zktest.Server
	name string
}

// unit installs the unit and starts it.
func (m *machine) unit(t *testing.T, work string, settings ...string) *unit {
	t.Helper()
	u := m.prepare(t, work, settings...)
	u.start(t)
	return u
}

// prepare installs the unit. The settings are lines of [Service].
func (m *machine) prepare(t *testing.T, work string, settings ...string) *unit {
	t.Helper()
	u := &unit{m, zktest.Run(t, zktest.WithTickTime(200*time.Millisecond)), filepath.Base(t.Name())}
	_, err := u.srv.Create("/prod", nil, zktest.Persistent)
	require.NoError(t, err)
	m.write(t, "etc/systemd/system/"+u.name+".service", 0o644, m.example(t))
	settings = append([]string{
		"[Service]", "Environment=ZKR_SERVERS=" + u.srv.Addr() + "/prod", "Environment=ZKR_SESSION_TIMEOUT=4s",
		"Environment=UNIT=" + u.name, `Environment="WORK=` + work + `"`,
	}, settings...)
	m.write(t, "etc/systemd/system/"+u.name+".service.d/test.conf", 0o644, strings.Join(settings, "\n")+"\n")
	require.Empty(t, m.try(t, "systemctl", "daemon-reload"))
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(u.journal(t))
		}
	})
	return u
}

// example is the unit in the package.
func (m *machine) example(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(m.root + "/usr/share/doc/zkr/examples/worker.service")
	require.NoError(t, err)
	return string(text)
}

func (u *unit) start(t *testing.T) {
	t.Helper()
	require.Empty(t, u.try(t, "systemctl", "start", u.name))
}

// journal returns what systemd and zkr have logged about the unit.
func (u *unit) journal(t *testing.T) string {
	t.Helper()
	return u.try(t, "journalctl", "-u", u.name, "--no-pager")
}

// ended waits until zkr has exited with a status.
func (u *unit) ended(t *testing.T, status int) {
	t.Helper()
	eventually(t, fmt.Sprintf("zkr has ended with %d", status), func() bool {
		return strings.Contains(u.journal(t), fmt.Sprintf("Main process exited, code=exited, status=%d/", status))
	})
}

func (u *unit) restarts(t *testing.T) int {
	t.Helper()
	n, _ := strconv.Atoi(u.property(t, "NRestarts")) // 0 before the first one
	return n
}

// property returns what systemd knows about the unit.
func (u *unit) property(t *testing.T, name string) string {
	t.Helper()
	return u.try(t, "systemctl", "show", "--value", "-p", name, u.name)
}

// starts waits until the program has been started the given number of times, and returns its process IDs in the
// machine.
func (u *unit) starts(t *testing.T, n int) []string {
	t.Helper()
	var pids []string
	eventually(t, fmt.Sprintf("start %d of the program", n), func() bool {
		text, _ := os.ReadFile(u.root + "/var/lib/" + u.name + ".starts") // missing before the first start
		pids = strings.Fields(string(text))
		return len(pids) >= n
	})
	return pids
}

// proc returns a file in /proc of a process of the machine, or "" if the process has ended.
func (u *unit) proc(pid, file string) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/root/proc/%s/%s", u.pid, pid, file))
	return string(text)
}

func (u *unit) lives(pid string) bool { return u.proc(pid, "status") != "" }

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for !condition() {
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			require.FailNow(t, "still not: "+what)
		}
	}
}

// TestUnit_UnderSystemd runs the unit of the package as the guide prints it.
func TestUnit_UnderSystemd(t *testing.T) {
	t.Parallel()
	needs(t, "apt-get", "dpkg", "nsenter", "unshare", "tar", "bash")
	m := boot(t, build(t))
	for name, scene := range map[string]func(*testing.T, *machine){
		"stops":     stops,
		"term":      endsByTerm,
		"killed":    isKilled,
		"both":      bothAreKilled,
		"outage":    outage,
		"away":      serversAreAway,
		"fails":     failsAgainAndAgain,
		"flag":      wrongFlag,
		"own":       endsWithAStatusOfZkr,
		"chroot":    missingChroot,
		"delegated": delegated,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scene(t, m)
		})
	}
}

// The program ends before the node is deleted, and the contender has the name of the machine.
func stops(t *testing.T, m *machine) {
	u := m.unit(t, `trap 'sleep 1; echo term >>/var/lib/$UNIT.starts; exit 0' TERM; sleep 1000 & wait`)
	u.starts(t, 1)
	queue := u.srv.Children("/prod/app/leader")
	require.Len(t, queue, 1)
	node, _ := u.srv.Node("/prod/app/leader/" + queue[0])
	require.Contains(t, string(node.Data), "node1 (node1/")
	require.Empty(t, m.try(t, "systemctl", "stop", u.name))
	require.Equal(t, "term", u.starts(t, 2)[1])
	require.Empty(t, u.srv.Children("/prod/app/leader"))
	require.Equal(t, "inactive success 0", strings.Join([]string{
		u.property(t, "ActiveState"), u.property(t, "Result"), u.property(t, "NRestarts"),
	}, " "))
}

// A program ended by TERM is not a failure of the unit, whether systemd sends the signal to zkr, or an operator to the
// program.
func endsByTerm(t *testing.T, m *machine) {
	u := m.unit(t, "exec sleep 1000")
	m.try(t, "sh", "-c", "kill "+u.starts(t, 1)[0])
	u.starts(t, 2)
	require.Contains(t, u.journal(t), "the program exited with status 143")
	require.Contains(t, u.journal(t), "Deactivated successfully")
	require.Empty(t, m.try(t, "systemctl", "stop", u.name))
	require.Equal(t, "inactive success", u.property(t, "ActiveState")+" "+u.property(t, "Result"))
}

// The program is killed along with zkr, and restarts once the session is over.
func isKilled(t *testing.T, m *machine) {
	u := m.unit(t, "exec sleep 1000")
	first := u.starts(t, 1)[0]
	m.try(t, "sh", "-c", "kill -9 "+u.property(t, "MainPID"))
	u.starts(t, 2)
	require.False(t, u.lives(first))
	require.Equal(t, "1", u.property(t, "NRestarts"))
}

// Without a guard the kernel kills only the program. Its daemon is in the unit's control group.
func bothAreKilled(t *testing.T, m *machine) {
	u := m.unit(t, "setsid sh -c 'echo $$ >>/var/lib/$UNIT.starts; exec sleep 1000' & sleep 1000")
	group := u.starts(t, 2)
	zkr := u.property(t, "MainPID")
	m.try(t, "sh", "-c", "kill -9 "+zkr+" $(cat /proc/"+zkr+"/task/*/children)")
	u.starts(t, 4)
	for _, pid := range group {
		require.False(t, u.lives(pid), pid)
	}
}

// The servers are down for longer than the session lasts. The program ends, and the same zkr runs it again when they
// are back.
func outage(t *testing.T, m *machine) {
	u := m.unit(t, "exec sleep 1000")
	first := u.starts(t, 1)[0]
	u.srv.Down()
	eventually(t, "the program has ended", func() bool { return !u.lives(first) })
	u.srv.Up()
	u.starts(t, 2)
	require.Equal(t, "0", u.property(t, "NRestarts"))
}

// The servers are down at the start. zkr gives up, and is restarted.
func serversAreAway(t *testing.T, m *machine) {
	u := m.prepare(t, "exec sleep 1000", "Environment=ZKR_CONNECT_TIMEOUT=1s")
	u.srv.Down()
	u.start(t)
	eventually(t, "zkr was started again", func() bool { return u.restarts(t) >= 2 })
	u.ended(t, 69)
	u.srv.Up()
	u.starts(t, 1)
}

// By default, systemd gives up on a unit after five starts in ten seconds.
func failsAgainAndAgain(t *testing.T, m *machine) {
	u := m.unit(t, "exit 1")
	u.starts(t, 8)
	require.NotEqual(t, "failed", u.property(t, "ActiveState"))
}

// A wrong flag does not get better with a restart.
func wrongFlag(t *testing.T, m *machine) {
	u := m.unit(t, "exec sleep 1000", "Environment=ZKR_SESSION_TIMEOUT=long")
	eventually(t, "the unit has failed", func() bool { return u.property(t, "ActiveState") == "failed" })
	require.Equal(t, "193 0", u.property(t, "ExecMainStatus")+" "+u.property(t, "NRestarts"))
}

// 64 is zkr's status for a wrong flag, but here it is the program's.
func endsWithAStatusOfZkr(t *testing.T, m *machine) {
	u := m.unit(t, "exit 64")
	u.starts(t, 2)
	u.ended(t, 64)
}

// Nothing starts without the chroot. Once it exists, the next start succeeds.
func missingChroot(t *testing.T, m *machine) {
	u := m.prepare(t, "exec sleep 1000")
	require.NoError(t, u.srv.Delete("/prod"))
	u.start(t)
	eventually(t, "zkr was started again", func() bool { return u.restarts(t) >= 2 })
	u.ended(t, 125)
	require.Equal(t, []string{"zookeeper"}, u.srv.Children("/"), "none leads elsewhere")
	_, err := u.srv.Create("/prod", nil, zktest.Persistent)
	require.NoError(t, err)
	u.starts(t, 1)
}

// zkr runs as a user, and its program becomes root. With Delegate=yes it has a control group that zkr can kill.
func delegated(t *testing.T, m *machine) {
	perl, err := os.ReadFile(m.root + "/usr/bin/perl")
	require.NoError(t, err)
	m.write(t, "usr/local/bin/root", 0o755|os.ModeSetuid, string(perl))
	command := strings.Replace(m.example(t), " elect ", " elect --cgroup --allow-setuid ", 1)
	_, command, _ = strings.Cut(command, "ExecStart=")
	command, _, _ = strings.Cut(command, "\nRestart=")
	m.write(t, "var/lib/delegated.starts", 0o666, "")
	u := m.unit(t, `exec /usr/local/bin/root -e '$< = $> = 0; $ENV{PATH} = q(/bin); exec q(sleep 1000)'`,
		"User=nobody", "Delegate=yes", "ExecStart=", "ExecStart="+command)
	first := u.starts(t, 1)[0]
	eventually(t, "the program is root", func() bool {
		return strings.Contains(u.proc(first, "status"),
			"Uid:\t0\t0\t0\t0")
	})
	require.Contains(t, u.proc(first, "cgroup"), "/zkr-")
	u.srv.Down()
	eventually(t, "the program has ended", func() bool { return !u.lives(first) })
}
