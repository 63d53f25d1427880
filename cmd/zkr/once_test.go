//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/exit"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func TestOnce_RunsOncePerValue(t *testing.T) {
	srv := zktest.Run(t)
	file := filepath.Join(t.TempDir(), "runs")
	for _, c := range []struct {
		value, line string
		want        int
	}{
		{"2026-11-22", "echo failed >>" + file + "; exit 3", 3},
		{"2026-11-22", "echo 22 >>" + file, 0},
		{"2026-11-22", "echo again >>" + file, 0},
		{"2026-11-23", "echo 23 >>" + file, 0},
		{"2026-11-22", "echo late >>" + file, exit.Failure},
		{"", "true", exit.Usage},
	} {
		_, errs := ends(t, c.want, srv.Addr(), "lock", "--once", c.value, "/jobs/nightly", "--shell", c.line)
		if c.want == exit.Failure {
			assert.Contains(t, errs, "/jobs/nightly-done says that 2026-11-23 is done")
		}
	}
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, "failed\n22\n23\n", string(text))
	data, _, err := dial(t, srv).Get(t.Context(), "/jobs/nightly-done")
	require.NoError(t, err)
	assert.Equal(t, "2026-11-23", string(data))
}

func TestOnce_AWaiterFindsItDone(t *testing.T) {
	t.Parallel()
	srv := zktest.Run(t)
	file := filepath.Join(t.TempDir(), "go on")
	first := start(t, srv, "a", "lock", "--once=1", "/p", "--shell", `until test -e "`+file+`"; do sleep 0.02; done`)
	first.until(t, "started")
	second := start(t, srv, "b", "lock", "--once=1", "/p", "--", "false")
	second.until(t, "waiting")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	assert.Equal(t, 0, first.status(t))
	second.until(t, "done")
	assert.Equal(t, 0, second.status(t))
}

// TestOnce_ARunThatWasAskedToStopIsNotRecorded: many programs exit with 0 after SIGTERM.
func TestOnce_ARunThatWasAskedToStopIsNotRecorded(t *testing.T) {
	for name, ask := range map[string]func(t *testing.T, srv *zktest.Server, z *told){
		"signal": func(t *testing.T, _ *zktest.Server, z *told) { require.NoError(t, z.Process.Signal(syscall.SIGTERM)) },
		"revoke": func(t *testing.T, srv *zktest.Server, _ *told) {
			ends(t, 0, srv.Addr(), "revoke", "/p")
		},
	} {
		t.Run(name, func(t *testing.T) {
			srv := zktest.Run(t)
			z := start(t, srv, "a", "lock", "--once=1", "--on-revoke=term", "/p", "--shell",
				`trap "exit 0" TERM; echo ready; while :; do sleep 0.02; done`)
			eventually(t, "the program handles the signal", func() bool { return strings.Contains(z.out.String(), "ready") })
			ask(t, srv, z)
			z.until(t, "unrecorded")
			assert.Equal(t, 0, z.status(t))
			data, _, err := dial(t, srv).Get(t.Context(), "/p-done")
			require.NoError(t, err)
			assert.Empty(t, data)
		})
	}
}

func TestOnce_TakesOnePath(t *testing.T) {
	_, errs := ends(t, exit.Usage, zktest.Run(t).Addr(), "lock", "--once=1", "--path=/a", "--path=/b", "--", "true")
	assert.Contains(t, errs, "--once with 2 paths")
}

// theWrite matches the transaction that writes the record.
var theWrite = zktest.Match{Op: zktest.OpMulti, Path: "^/p-done$"}

func TestOnce_ALostLockWritesNoRecord(t *testing.T) {
	srv := zktest.Run(t)
	rule := srv.Intercept(theWrite, zktest.Before(func(r zktest.Request) {
		for _, node := range srv.Ephemerals(r.Session) {
			assert.NoError(t, srv.Delete(node))
		}
	}))
	_, errs := ends(t, exit.Lost, srv.Addr(), "lock", "--once=1", "/p", "--", "true")
	assert.Contains(t, errs, "the program succeeded, but this is not recorded in /p-done")
	assert.Equal(t, 1, rule.Hits())
	data, _, err := dial(t, srv).Get(t.Context(), "/p-done")
	require.NoError(t, err)
	assert.Empty(t, data)
}

func TestOnce_AnUnknownOutcomeIsRead(t *testing.T) {
	srv := zktest.Run(t)
	rule := srv.Intercept(theWrite, zktest.DropReply())
	ends(t, 0, srv.Addr(), "lock", "--once=1", "/p", "--", "true")
	assert.Equal(t, 1, rule.Hits())
	data, _, err := dial(t, srv).Get(t.Context(), "/p-done")
	require.NoError(t, err)
	assert.Equal(t, "1", string(data))
}
