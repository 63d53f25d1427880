//go:build unix

package main

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/exit"
	"github.com/zkrecipes/zkrecipes/recipes/election"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// TestElect_ResignsWhenUnhealthy: another candidate leads once the program is gone, and this one rejoins behind it.
func TestElect_ResignsWhenUnhealthy(t *testing.T) {
	srv := zktest.Run(t)
	h := newHealth(t, http.StatusOK)
	z := start(t, srv, "a", "elect", "--check="+h.URL, "--check-interval=0.02", "/e", "--shell",
		`trap 'exit 0' TERM; echo up; while :; do sleep 0.02; done`)
	eventually(t, "the program is up", func() bool { return strings.Contains(z.out.String(), "up") })
	e, err := election.New(dial(t, srv), "/e")
	require.NoError(t, err)
	elected := make(chan *election.Term, 1)
	go func() { // ends with the context of the test
		if term, err := e.Campaign(t.Context()); err == nil {
			elected <- term
		}
	}()
	eventually(t, "another candidate", func() bool { return len(srv.Children("/e")) == 2 })
	h.pass(t)
	require.Len(t, elected, 0, "the program is healthy")
	h.status.Store(http.StatusServiceUnavailable)
	require.Contains(t, z.until(t, "term")["reason"], "the check fails: GET "+h.URL+": 503 Service Unavailable")
	z.until(t, "exited")
	z.until(t, "released")
	term := <-elected
	z.until(t, "again")
	h.status.Store(http.StatusOK)
	eventually(t, "it stands again", func() bool { return len(srv.Children("/e")) == 2 })
	require.NoError(t, term.Release(context.Background()))
	eventually(t, "the program is up again", func() bool { return strings.Count(z.out.String(), "up") == 2 })
	require.Equal(t, 0, z.after(t, syscall.SIGTERM), z.err.String())
}

// TestElect_UnhealthyWhileStopping: a program that has been asked to stop may fail its check, as one does that finishes
// its work behind a closed port. It is not stopped a second time.
func TestElect_UnhealthyWhileStopping(t *testing.T) {
	t.Parallel()
	h := newHealth(t, http.StatusOK)
	file := filepath.Join(t.TempDir(), "finished")
	z := start(t, zktest.Run(t), "a", "elect", "--check="+h.URL, "--check-interval=0.02", "--grace=0.1", "/e", "--shell",
		`trap 'echo stopping; until test -e `+file+`; do sleep 0.02; done; exit 0' TERM; echo up; `+
			`while :; do sleep 0.02; done`)
	eventually(t, "the program is up", func() bool { return strings.Contains(z.out.String(), "up") })
	h.pass(t)
	require.NoError(t, z.Process.Signal(syscall.SIGTERM))
	eventually(t, "the program is stopping", func() bool { return strings.Contains(z.out.String(), "stopping") })
	h.status.Store(http.StatusServiceUnavailable)
	before := h.checks.Load()
	eventually(t, "failures", func() bool { return h.checks.Load() >= before+2 })
	<-time.After(200 * time.Millisecond) // zkr hears of the third
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.Equal(t, 0, z.status(t), z.err.String())
	require.Equal(t, []string{"acquired", "started", "exited", "released"}, z.rest(t))
}

// TestElect_NeverHealthy: a program that hangs before it becomes healthy leads for at most --check-start and the grace.
// The command of a check does not count as part of the program.
func TestElect_NeverHealthy(t *testing.T) {
	t.Parallel()
	z := start(t, zktest.Run(t), "a", "elect", "--once", "--min-hold=1h", "--check=exec:sleep 0.05; exit 3",
		"--check-interval=0.01", "--check-timeout=1m", "--check-start=4", "--grace=0.2",
		"/e", "--shell", `trap '' TERM; while :; do sleep 0.02; done`)
	require.Equal(t, exit.Failure, z.status(t), z.err.String())
	require.Contains(t, z.err.String(),
		"the check fails: it did not pass within --check-start, 4s: the check exited with status 3")
	require.Equal(t, []string{"acquired", "started", "term", "kill", "exited", "released"}, z.rest(t))
	require.NotContains(t, z.err.String(), "left processes behind")
}

// TestElect_ProgramEndsDuringACheck: the command of a check does not count as a leftover of the program.
func TestElect_ProgramEndsDuringACheck(t *testing.T) {
	file := filepath.Join(t.TempDir(), "checked")
	z := start(t, zktest.Run(t), "a", "elect", "--check=exec:touch "+file+"; sleep 300", "--check-timeout=1h", "/e",
		"--shell",
		`while ! test -e `+file+`; do sleep 0.02; done; exit 4`)
	require.Equal(t, 4, z.status(t), z.err.String())
	require.NotContains(t, z.err.String(), "left processes behind")
}

// TestElect_ChecksAreLookedAt: an invalid check is rejected before any server is contacted.
func TestElect_ChecksAreLookedAt(t *testing.T) {
	for _, flag := range []string{
		"--check=tcp", "--check=/healthz", "--check=such", "--check-failures=0",
		"--check-interval=0",
	} {
		_, errs := ends(t, exit.Usage, "127.0.0.1:1", "elect", flag, "/e", "--", "true")
		require.Contains(t, errs, strings.SplitN(flag, "=", 2)[0])
	}
}
