//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/exit"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// TestLock_BelowItselfIsToldAtOnce holds even with another lock between the two. Any other nested zkr may wait.
func TestLock_BelowItselfIsToldAtOnce(t *testing.T) {
	srv := zktest.Run(t)
	for _, line := range []string{`"$ZKR" lock /n -- true`, `"$ZKR" lock /m -- "$ZKR" lock /n -- true`} {
		_, errs := ends(t, exit.Usage, srv.Addr(), "lock", "/n", "--shell", line)
		assert.Contains(t, errs,
			"was started by the one that holds /n, and would wait for it forever: run the inner program "+
				"without zkr, or limit the wait with --wait")
	}
	for _, args := range [][]string{
		{"lock", "--max-run=1m", "/n", "--shell", `"$ZKR" lock /n -- true`},
		{"lock", "/n", "--shell", `"$ZKR" lock /m --path /n -- true`},
		{"wlock", "/r", "--shell", `"$ZKR" rlock /r -- true`},
		{"rlock", "/r", "--shell", `"$ZKR" wlock /r -- true`},
		{"sem", "/s", "--shell", `"$ZKR" sem /s -- true`},
		{"sem", "-n=3", "/s", "--shell", `"$ZKR" sem -n 3 /s -- "$ZKR" sem -n 3 -k 2 /s -- true`},
	} {
		_, errs := ends(t, exit.Usage, srv.Addr(), args...)
		assert.Contains(t, errs, "would wait for it forever", "%q", args)
	}
	ends(t, 0, srv.Addr(), "sem", "-n=3", "/s", "--shell", `"$ZKR" sem -n 3 -k 2 /s -- true`)
	status, limit := exit.Unreachable, time.Second/2
	for ; status == exit.Unreachable && limit < 20*time.Second; limit *= 2 { // a slow zkr does not see the queue in time
		status, _, _ = run(t, srv.Addr(), "lock", "/n", "--shell", fmt.Sprintf(`"$ZKR" lock --wait=%v /n -- true`, limit))
	}
	assert.Equal(t, exit.Busy, status)
	ends(t, 0, srv.Addr(), "rlock", "/r", "--shell", `"$ZKR" rlock /r -- "$ZKR" lock /other -- true`)
}

// TestLock_BelowOneThatDoesNotWaitForItIsNoMistake: with --leftovers ignore, the outer zkr ends first.
func TestLock_BelowOneThatDoesNotWaitForItIsNoMistake(t *testing.T) {
	ran := filepath.Join(t.TempDir(), "ran")
	ends(t, 0, zktest.Run(t).Addr(), "lock", "--leftovers=ignore", "/n", "--shell",
		`"$ZKR" lock /n -- touch `+ran+` >/dev/null 2>&1 & sleep 1`)
	eventually(t, "the inner one has run", func() bool {
		_, err := os.Stat(ran)
		return err == nil
	})
}

// TestEnvironment_AMisspeltNameIsTold: variables that zkr itself sets for programs do not count as misspelled.
func TestEnvironment_AMisspeltNameIsTold(t *testing.T) {
	srv := zktest.Run(t)
	z := command(t, srv.Addr(), "lock", "/p", "--", "true")
	z.Env = append(z.Env, "ZKR_SESION_TIMEOUT=4s")
	require.NoError(t, z.Start())
	assert.Zero(t, z.status(t))
	assert.Contains(t, z.err.String(), "variable=ZKR_SESION_TIMEOUT")
	z = command(t, srv.Addr(), "shard", "/p", "--", "true")
	z.Env = append(z.Env, "ZKR_COUNT=3")
	require.NoError(t, z.Start())
	assert.Equal(t, exit.Usage, z.status(t))
	assert.Contains(t, z.err.String(), `its flag must be on the command line" variable=ZKR_COUNT`)
	_, errs := ends(t, 0, srv.Addr(), "lock", "/p", "--shell", `"$ZKR" lock /q -- "$ZKR" status /p`)
	assert.Empty(t, errs)
}

// TestHints_NameFlags: hints name flags, not options of the library, and the flag does what its hint says.
func TestHints_NameFlags(t *testing.T) {
	srv := zktest.Run(t)
	c := dial(t, srv, conn.WithIdentity("web1"))
	require.NoError(t, c.CreateAll(t.Context(), "/k", nil))
	_, err := c.Create(t.Context(), "/k/0123456789abcdef0123456789abcdef__lock__", nil, zk.FlagEphemeral|zk.FlagSequence)
	require.NoError(t, err)
	_, errs := ends(t, exit.Failure, srv.Addr(), "lock", "/k", "--", "true")
	assert.Contains(t, errs, "to share the path, use --kazoo")
	for _, verb := range [][]string{
		{"lock", "--kazoo"},
		{"rlock", "--kazoo"},
		{"wlock", "--kazoo"},
		{"elect", "--kazoo"},
	} {
		ends(t, exit.Busy, srv.Addr(), append(verb, "--try", "/k", "--", "true")...)
	}
	leading(t, srv, "/e", "web1")
	_, _, errs = run(t, srv.Addr(), "lock", "--try", "/e", "--", "true")
	assert.Contains(t, errs, "to share the path, use zkr elect")
}

// TestMisuse_IsToldBeforeServersAreAsked: each message says what to do next. A typo in a path used to look like an
// outage.
func TestMisuse_IsToldBeforeServersAreAsked(t *testing.T) {
	for line, want := range map[string]string{
		"lock":                            "put it at the end, after --: zkr lock PATH",
		"lock -- true":                    "want one PATH before --, or several with --path; got none",
		"lock jobs/x -- true":             `path "jobs/x" is relative: want /jobs/x`,
		"lock /x/ -- true":                `path "/x/" ends with a slash: want /x`,
		"lock --path /x --path y -- true": `path "y" is relative: want /y`,
		"elect x -- true":                 "want /x",
		"rlock x -- true":                 "want /x",
		"serve --elect x":                 "want /x",
		"serve --ui-root x":               "want /x",
		"leader":                          "want one PATH such as /app/lock; got none",
		"leader x":                        "want /x",
		"revoke x":                        "want /x",
		"sem -n 0 /x -- true":             "--limit 0: want 1 or more",
		"sem -n 1 -k 2 /x -- true":        "--permits 2: want 1 to the limit, which is 1",
		"lock --such /x -- true":          "unknown flag: --such: see zkr help lock",
		"--such":                          "unknown flag: --such: see zkr help",
		"lock --wait=5x /x -- true":       "want a duration such as 90s",
		"lok /x -- true":                  `unknown verb "lok": did you mean lock or rlock or wlock? zkr help lists them`,
		"lock --signal=HOPE /x -- true":   "want a signal such as TERM or USR1",
		"lock --forward=HOPE /x -- true":  "want all, none, or names of signals that zkr can pass on",
	} {
		_, errs := ends(t, exit.Usage, "127.0.0.1:1", strings.Fields(line)...)
		assert.Contains(t, errs, want, line)
	}
	_, errs := ends(t, exit.Unreachable, "127.0.0.1:1", "lock", "--connect-timeout=0.2", "/x", "--", "true")
	assert.Contains(t, errs, "see zkr doctor")
}

// TestFree_IsNotUnknown: the output distinguishes a free lock from a mistyped path.
func TestFree_IsNotUnknown(t *testing.T) {
	srv := zktest.Run(t)
	nodes(t, srv, "", "/free")
	_, out, _ := run(t, srv.Addr(), "status", "/free")
	assert.Equal(t, "/free: free\n", out)
	_, out, _ = run(t, srv.Addr(), "status", "/fre")
	assert.Contains(t, out, "/fre: free: there is no such node")
	_, out, _ = run(t, srv.Addr(), "status", "-o", "json", "/fre")
	assert.Contains(t, out, `"exists":false`)
	x := inTerminal(t, command(t, srv.Addr(), "wait", "/fre"))
	x.shows(t, "zkr: there is no node /fre")
	assert.Zero(t, x.status(t))
}
