//go:build unix

package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestConnect_NamesTheLimitAndWhatWasInTheWay(t *testing.T) {
	status, _, errs := run(t, "127.0.0.1:1", "status", "--connect-timeout=0.2", "/p")
	require.Equal(t, exitUnreachable, status)
	require.Equal(t, "zkr: connect to 127.0.0.1:1: no session within --connect-timeout, 200ms (connect to 127.0.0.1:1: dial tcp 127.0.0.1:1: connect: connection refused)\n", errs)
}
