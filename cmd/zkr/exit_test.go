//go:build unix

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/exit"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func TestExitStatus(t *testing.T) { //nolint:tparallel // its cases share paths
	t.Parallel()
	srv := zktest.Run(t)
	auth := filepath.Join(t.TempDir(), "auth")
	require.NoError(t, os.WriteFile(auth, []byte("# for tests\ndigest:alice:secret\n"), 0o600))
	token := locked(t, srv, "/held", "alice").Token().String()
	_, err := dial(t, srv, conn.WithAuth("digest", "bob:secret")).Create(t.Context(), "/private", nil, 0,
		zk.ACL{Perms: zk.PermAll, Scheme: "auth"})
	require.NoError(t, err)
	for _, c := range []struct {
		name string
		args []string
		want int
	}{
		{"the program's", []string{"lock", "/p", "--", "sh", "-c", "exit 7"}, 7},
		{"good", []string{"lock", "/p", "--", "true"}, 0},
		{"killed by a signal", []string{"lock", "/p", "--", "sh", "-c", "kill -KILL $$"}, 137},
		{"several paths", []string{"lock", "--path", "/p", "--path", "/q", "--", "true"}, 0},
		{"a path twice", []string{"lock", "--path", "/p", "--path", "/p", "--", "true"}, 0},
		{"several paths, tried", []string{"lock", "--try", "--path", "/p", "--path", "/q", "--", "true"}, 0},
		{"not found", []string{"lock", "/p", "--", "no-such-program"}, exit.NotFound},
		{"cannot run", []string{"lock", "/p", "--", "/etc/passwd"}, exit.CannotRun},
		{"help for an unknown verb", []string{"help", "such"}, exit.Usage},
		{"help for a verb", []string{"help", "lock"}, 0},
		{"completion for an unknown shell", []string{"completion", "such"}, exit.Usage},
		{"manual pages for nowhere", []string{"man"}, exit.Usage},
		{"events to no descriptor", []string{"lock", "--events", "-2", "/p", "--", "true"}, exit.Usage},
		{"too much grace", []string{"lock", "--grace", "30s", "/p", "--", "true"}, exit.Usage},
		{
			"no server",
			[]string{"lock", "--servers", "127.0.0.1:1", "--connect-timeout", "0.2", "/p", "--", "true"},
			exit.Unreachable,
		},
		{"bad port", []string{"lock", "--servers", "127.0.0.1:abc", "/p", "--", "true"}, exit.Usage},
		{"bad chroot", []string{"lock", "--servers", "127.0.0.1:2181/app/", "/p", "--", "true"}, exit.Usage},
		{"bad session timeout", []string{"lock", "--session-timeout", "0", "/p", "--", "true"}, exit.Usage},
		{"held", []string{"lock", "/p", "--shell", "$ZKR held"}, 0},
		{"held by no lock", []string{"held"}, exit.Usage},
		{"held when the file has gone", []string{"held", "--state", "/no/such/file"}, exit.CannotTell},
		{"busy, no time to wait", []string{"lock", "--wait", "0", "/held", "--", "true"}, exit.Busy},
		{"busy, own status", []string{"lock", "--try", "-E", "3", "/held", "--", "true"}, 3},
		{"one of several is busy", []string{"lock", "--try", "--path", "/p", "--path", "/held", "--", "true"}, exit.Busy},
		{"free again after that", []string{"lock", "--try", "/p", "--", "true"}, 0},
		{"busy election", []string{"elect", "--layout=selector", "--try", "/held", "--", "true"}, exit.Busy},
		{"busy status out of range", []string{"lock", "-E", "256", "/p", "--", "true"}, exit.Usage},
		{"reader", []string{"rlock", "/rw", "--", "sh", "-c", "exit 5"}, 5},
		{"writer", []string{"wlock", "/rw", "--", "sh", "-c", "exit 6"}, 6},
		{"readers together", []string{"rlock", "/rw", "--shell", `"$ZKR" rlock --try /rw -- sh -c 'exit 8'`}, 8},
		{"no writer beside a reader", []string{"rlock", "/rw", "--shell", `"$ZKR" wlock --try /rw -- true`}, exit.Busy},
		{"permit", []string{"sem", "-n", "2", "/s", "--", "sh", "-c", "exit 9"}, 9},
		{"second permit", []string{"sem", "-n", "2", "/s", "--shell", `"$ZKR" sem -n 2 --try /s -- true`}, 0},
		{
			"no third permit",
			[]string{"sem", "-n", "2", "-k", "2", "/s", "--shell", `"$ZKR" sem -n 2 --try /s -- true`},
			exit.Busy,
		},
		{"limit, access refused", []string{"limit", "/private/limit", "2"}, exit.NoAccess},
		{"leader", []string{"elect", "/e", "--", "sh", "-c", "exit 4"}, 4},
		{"shards, not found", []string{"shard", "--count=1", "/parts", "--", "no-such-program"}, exit.NotFound},
		{"shards, no server", []string{
			"shard", "--count=1", "--servers", "127.0.0.1:1", "--connect-timeout", "0.2", "/parts",
			"--", "true",
		}, exit.Unreachable},
		{"shards, access refused", []string{"shard", "--count=1", "/private/parts", "--", "true"}, exit.NoAccess},
		{"no leader", []string{"leader", "/e"}, 1},
		{"there is a leader", []string{"leader", "--layout=selector", "/held"}, 0},
		{"bad layout", []string{"leader", "--layout=such", "/held"}, exit.Usage},
		{"check a holder", []string{"check", "--path", "/held", "--token", token}, 0},
		{"check one that has gone", []string{"check", "--path", "/held", "--token", "1"}, exit.Lost},
		{"check where there is no lock", []string{"check", "--path", "/nowhere", "--token", "1"}, exit.Lost},
		{"check at the root", []string{"check", "--path", "/", "--token", "5"}, exit.Lost},
		{"check nothing", []string{"check"}, exit.Usage},
		{"access refused", []string{"lock", "/private/p", "--", "true"}, exit.NoAccess},
		{"credentials", []string{"lock", "--auth-file", auth, "--acl", "auth::cdrwa", "/with-auth", "--", "true"}, 0},
		{"without these credentials", []string{
			"lock", "--auth-file", auth, "--acl", "auth::cdrwa", "/with-auth", "--shell", `"$ZKR" lock /with-auth -- true`,
		}, exit.NoAccess},
		{"no credentials", []string{"lock", "--auth-file", "/no/such/file", "/p", "--", "true"}, exit.Usage},
		{"bad ACL", []string{"lock", "--acl", "world", "/p", "--", "true"}, exit.Usage},
		{"bad value", []string{"lock", "--on-loss", "hope", "/p", "--", "true"}, exit.Usage},
		{"bad format", []string{"leader", "-o", "yaml", "/held"}, exit.Usage},
		{"help", []string{"lock", "--help"}, 0},
		{"max-run", []string{"lock", "--max-run", "0.1", "/p", "--", "sleep", "300"}, exit.MaxRun},
	} {
		t.Run(c.name, func(t *testing.T) {
			ends(t, c.want, srv.Addr(), c.args...)
		})
	}
}

func TestEnvironment_SetsFlags(t *testing.T) {
	srv := zktest.Run(t)
	for _, c := range []struct {
		name string
		env  []string
		args []string
		want int
	}{
		{"a flag of the verb", []string{"ZKR_MAX_RUN=0.1"}, []string{"lock", "/p", "--", "sleep", "300"}, exit.MaxRun},
		{"what is typed goes first", []string{"ZKR_MAX_RUN=0.1"}, []string{
			"lock", "--max-run=60s", "/p", "--", "sleep",
			"0.3",
		}, 0},
		{"a global flag", []string{"ZKR_OUTPUT=yaml"}, []string{"leader", "/p"}, exit.Usage},
		{"a bad value", []string{"ZKR_GRACE=long"}, []string{"lock", "/p", "--", "true"}, exit.Usage},
		{"a grace that cannot be kept", []string{"ZKR_GRACE=1m"}, []string{"lock", "/p", "--", "true"}, exit.Usage},
		{"the path of an outer zkr is none of lock", []string{"ZKR_PATH=/q"}, []string{"lock", "--", "true"}, exit.Usage},
		{"the leader of a hook is none to wait for", []string{"ZKR_LEADER=web1"}, []string{"wait", "--wait=20", "/p"}, 0},
		{
			"the other name of the servers",
			[]string{"ZKR_SERVERS=", "ZOOKEEPER_SERVERS=" + srv.Addr()},
			[]string{"lock", "/p", "--", "true"},
			0,
		},
		{"no servers", []string{"ZKR_SERVERS="}, []string{"lock", "/p", "--", "true"}, exit.Usage},
	} {
		t.Run(c.name, func(t *testing.T) {
			z := command(t, srv.Addr(), c.args...)
			z.Env = append(z.Env, c.env...)
			require.NoError(t, z.Start())
			assert.Equal(t, c.want, z.status(t), z.err.String())
		})
	}
}

func TestHelp_ShowsAnExampleFirst(t *testing.T) {
	root := newApp(os.Stdin, os.Stdout, os.Stderr).newRoot()
	for _, verb := range root.Commands() {
		assert.NotEmpty(t, verb.Example, verb.Name())
		assert.NotEmpty(t, verb.Short, verb.Name())
	}
	_, out, _ := run(t, "", "sem", "--help")
	lines := strings.Split(out, "\n")
	assert.Equal(t, "Examples:", lines[2])
	assert.Equal(t, 1, strings.Count(out, "zkr sem -n 3 /rebuild"))
}

func TestVersion(t *testing.T) {
	_, verb, _ := run(t, "", "version")
	out, _ := ends(t, 0, "", "--version")
	require.Regexp(t, `^zkr version \S+ \(go1\S+ \w+/\w+\)\n$`, out)
	require.Equal(t, out, verb)
	_, verb, _ = run(t, "", "version", "-o", "value")
	require.Contains(t, out, "zkr version "+strings.TrimSpace(verb)+" (")
	_, verb, _ = run(t, "", "version", "-o", "json")
	require.Regexp(t, `^\{"go":"go1\S+","platform":"\w+/\w+","version":"\S+"\}\n$`, verb)
}

// TestHelp_AFullDisk: what could not be written is not a success.
func TestHelp_AFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("the system has no /dev/full")
	}
	defer full.Close() //nolint:errcheck // nothing was written
	for _, line := range []string{"help", "help lock", "lock --help", "--version", "version", "completion bash"} {
		z := command(t, "", strings.Fields(line)...)
		z.Stdout = full
		require.NoError(t, z.Start())
		assert.Equal(t, exit.Failure, z.status(t), line)
		assert.Equal(t, 1, strings.Count(z.err.String(), "\n"), z.err.String())
	}
}

func TestCompletion_IsThereForFourShells(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		out, _ := ends(t, 0, "", "completion", shell)
		assert.Contains(t, out, "zkr")
	}
	_, out, _ := run(t, "", "__complete", "elect", "--rest")
	assert.Contains(t, out, "--restart")
}

func TestMan_HasAPageForEachVerb(t *testing.T) {
	dir := t.TempDir()
	ends(t, 0, "", "man", dir)
	for name, wants := range map[string][]string{
		"zkr": {`.TP\n\fB69\fP`, "ZKR_TOKEN", `\fB75\fP`},
		"zkr-lock": {
			"min-hold", "ZKR_TOKEN", `\fB127\fP`, "These must be typed: \\-\\-once, \\-\\-path, \\-\\-shell.",
			`$TMPDIR/zkr\-*/state`, `\-\-metrics\-file`,
		},
		"zkr-shard":  {"ZKR_SHARD", "whatever the status of its programs"},
		"zkr-elect":  {"worker.service"},
		"zkr-held":   {`\fB66\fP`, "ZKR_STATE"},
		"zkr-check":  {"ZKR_TOKEN", "It has gone."},
		"zkr-leader": {"ZKR_LEADER"},
		"zkr-status": {`With \-\-stuck: a queue is shown.`},
		"zkr-serve":  {`\fB\-\-history\fP`},
	} {
		page, err := os.ReadFile(filepath.Join(dir, name+".1"))
		require.NoError(t, err)
		text := string(page)
		for _, want := range wants {
			assert.Contains(t, text, strings.ReplaceAll(want, `\n`, "\n"), name)
		}
		order := []int{}
		for _, title := range []string{"OPTIONS", "EXIT STATUS", "ENVIRONMENT", "FILES", "EXAMPLE", "SEE ALSO"} {
			order = append(order, strings.Index(text, ".SH "+title+"\n"))
		}
		assert.True(t, order[0] > 0 && slices.IsSorted(order), "%s: %v", name, order)
	}
	page, err := os.ReadFile(filepath.Join(dir, "zkr-shard.1"))
	require.NoError(t, err)
	assert.NotRegexp(t, `\\fB(75|79|124)\\fP`, string(page), "it waits for no holder, and a loss ends a program, not zkr")
	status, _, errs := run(t, "", "man", filepath.Join(dir, "zkr.1"))
	assert.NotZero(t, status, errs)
}

// TestExit_BusyNamesTheHolder: cron mails what a job prints. A busy status that is a failure names the holder, one that
// is not (--busy-ok) prints nothing.
func TestExit_BusyNamesTheHolder(t *testing.T) {
	srv := zktest.Run(t)
	locked(t, srv, "/held", "web1/42")
	_, errs := ends(t, exit.Busy, srv.Addr(), "lock", "--try", "/held", "--", "true")
	require.Contains(t, errs, "web1/42")
	_, errs = ends(t, 0, srv.Addr(), "lock", "--try", "--busy-ok", "/held", "--", "true")
	require.Empty(t, errs)
}

// TestExit_OwnStatus: --own-status renumbers the statuses of zkr and leaves those of the program alone.
func TestExit_OwnStatus(t *testing.T) {
	srv := zktest.Run(t)
	for _, c := range []struct {
		args []string
		want int
	}{
		{[]string{"/p", "--", "sh", "-c", "exit 64"}, 64},
		{[]string{"p", "--", "true"}, 193},
		{[]string{"/p", "--", "no-such-program"}, 196},
		{[]string{"--max-run=0.1", "/p", "--", "sleep", "300"}, 197},
		{[]string{"/p", "--shell", `test -z "$ZKR_OWN_STATUS" && exit 127`}, exit.NotFound},
		{[]string{"--own-status=64", "/p", "--", "true"}, exit.Usage},
		{[]string{"--such", "/p", "--", "true"}, 193},
		{[]string{"--such", "--own-status", "64=198", "/p", "--", "true"}, 198},
		{[]string{"--such", "/p", "--", "true", "--own-status=64=198"}, 193},
		{[]string{"--grace=long", "/p", "--own-status=64=198", "--", "true"}, 198},
	} {
		z := command(t, srv.Addr(), append([]string{"lock"}, c.args...)...)
		z.Env = append(z.Env, "ZKR_OWN_STATUS=64=193,124=197,127=196")
		require.NoError(t, z.Start())
		assert.Equal(t, c.want, z.status(t), z.err.String())
	}
}

// TestExit_AWaitThatTimesOut: only a queue with another contender ahead shows that the lock is busy.
func TestExit_AWaitThatTimesOut(t *testing.T) {
	t.Parallel()
	srv := zktest.Run(t)
	locked(t, srv, "/held", "alice")
	withLimit(t, "--wait", exit.Busy, []string{"alice"}, srv.Addr(), "lock", "/held", "--", "false")
	withLimit(t, "--wait", 0, nil, srv.Addr(), "lock", "--busy-ok", "/held", "--", "false")
	withLimit(t, "--wait", exit.Busy, nil, srv.Addr(), "wait", "/held")

	never := make(chan struct{})
	defer close(never)
	srv.Intercept(zktest.Match{Path: "^/late", Times: -1}, zktest.DelayUntil(never))
	for _, args := range [][]string{
		{"lock", "--wait=0.5", "--busy-ok", "/late", "--", "false"},
		{"elect", "--wait=0.5", "--busy-ok", "/late", "--", "false"},
		{"sem", "--wait=0.5", "--busy-ok", "/late", "--", "false"},
		{"wait", "--wait=0.5", "/late"},
	} {
		_, errs := ends(t, exit.Unreachable, srv.Addr(), args...)
		assert.Contains(t, errs, "the wait timed out")
	}

	servers := address(t, srv, "cut off")
	srv.Intercept(zktest.Match{From: zktest.Label("cut off"), Op: zktest.OpGetData, Path: "^/held/"},
		zktest.Before(func(zktest.Request) { // the waiter watches the holder
			srv.Refuse(zktest.Label("cut off"))
			srv.Cut(zktest.Label("cut off"))
		}))
	_, errs := ends(t, exit.Unreachable, servers, "lock", "--wait=6", "--busy-ok", "/held", "--", "false")
	assert.Contains(t, errs, "the wait timed out")
}

// TestRun_NobodyReadsItsMessages: zkr and its program survive the end of whatever read standard error or the events.
func TestRun_NobodyReadsItsMessages(t *testing.T) {
	srv := zktest.Run(t)
	read, write, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, read.Close())
	t.Cleanup(func() { assert.NoError(t, write.Close()) })
	for _, verb := range [][]string{
		{"lock", "-v", "/p"},
		{"lock", "--events=1", "/p"},
		{"elect", "-v", "/e"},
		{"register", "-v", "--port=1", "--check=none", "orders"},
	} {
		z := command(t, srv.Addr(), append(verb, "--", "sh", "-c", "exit 7")...)
		z.Stdout, z.Stderr = write, write
		require.NoError(t, z.Start())
		assert.Equal(t, 7, z.status(t), "%q", verb)
	}
	ran := filepath.Join(t.TempDir(), "ran")
	z := command(t, srv.Addr(), "shard", "-v", "--count=1", "/parts", "--", "touch", ran)
	z.Stderr = write
	require.NoError(t, z.Start())
	eventually(t, "the program has run", func() bool {
		_, err := os.Stat(ran)
		return err == nil
	})
	assert.Zero(t, z.after(t, syscall.SIGTERM))
}

// TestEnvironment_TheNameOfAnOuterZkr is none for a zkr below it.
func TestEnvironment_TheNameOfAnOuterZkr(t *testing.T) {
	srv := zktest.Run(t)
	out, _ := ends(t, 0, srv.Addr(), "elect", "--id=outer", "/l", "--shell",
		`"$ZKR" register --port=80 --check=none srv -- true && "$ZKR" lock /p --shell 'echo "$ZKR_ID"'`)
	host, err := os.Hostname()
	require.NoError(t, err)
	assert.Regexp(t, "^"+regexp.QuoteMeta(host)+`/\d+\n$`, out)
}
