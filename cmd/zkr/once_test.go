//go:build unix

package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
		{"2026-11-22", "echo late >>" + file, exitFailure},
		{"", "true", exitUsage},
	} {
		status, _, errs := run(t, srv.Addr(), "lock", "--once", c.value, "/jobs/nightly", "--shell", c.line)
		assert.Equal(t, c.want, status, errs)
		if c.want == exitFailure {
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
	srv := zktest.Run(t)
	first := start(t, srv, "a", "lock", "--once=1", "/p", "--shell", `trap "exit 0" TERM; while :; do sleep 0.02; done`)
	first.until(t, "started")
	second := start(t, srv, "b", "lock", "--once=1", "/p", "--", "false")
	second.until(t, "waiting")
	require.NoError(t, first.Process.Signal(syscall.SIGTERM))
	assert.Equal(t, 0, first.status(t))
	second.until(t, "done")
	assert.Equal(t, 0, second.status(t))
}

// theWrite selects the transaction that writes the record.
var theWrite = zktest.Match{Op: zktest.OpMulti, Path: "^/p-done$"}

func TestOnce_ALostLockWritesNoRecord(t *testing.T) {
	srv := zktest.Run(t)
	rule := srv.Intercept(theWrite, zktest.Before(func(r zktest.Request) {
		for _, node := range srv.Ephemerals(r.Session) {
			assert.NoError(t, srv.Delete(node))
		}
	}))
	status, _, errs := run(t, srv.Addr(), "lock", "--once=1", "/p", "--", "true")
	assert.Equal(t, exitLost, status)
	assert.Contains(t, errs, "the program has succeeded, but /p-done does not say so")
	assert.Equal(t, 1, rule.Hits())
	data, _, err := dial(t, srv).Get(t.Context(), "/p-done")
	require.NoError(t, err)
	assert.Empty(t, data)
}

func TestOnce_AnUnknownOutcomeIsRead(t *testing.T) {
	srv := zktest.Run(t)
	rule := srv.Intercept(theWrite, zktest.DropReply())
	status, _, errs := run(t, srv.Addr(), "lock", "--once=1", "/p", "--", "true")
	assert.Equal(t, 0, status, errs)
	assert.Equal(t, 1, rule.Hits())
	data, _, err := dial(t, srv).Get(t.Context(), "/p-done")
	require.NoError(t, err)
	assert.Equal(t, "1", string(data))
}
