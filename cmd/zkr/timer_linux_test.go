package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/zkrecipes/zkrecipes/zktest"
)

// TestGuard_RunsWithoutATimer: if no timer was available, zkr used not to run the program.
func TestGuard_RunsWithoutATimer(t *testing.T) {
	srv := zktest.Run(t)
	z := command(t, srv.Addr(), "lock", "/p", "--", "sh", "-c", "exit 3")
	var before unix.Rlimit
	require.NoError(t, unix.Prlimit(0, unix.RLIMIT_SIGPENDING, nil, &before))
	require.NoError(t, unix.Prlimit(0, unix.RLIMIT_SIGPENDING, &unix.Rlimit{Max: before.Max}, nil))
	err := z.Start()
	require.NoError(t, unix.Prlimit(0, unix.RLIMIT_SIGPENDING, &before, nil))
	require.NoError(t, err)
	assert.Equal(t, 3, z.status(t))
	assert.Contains(t, z.err.String(), "the guard has no timer")
}
