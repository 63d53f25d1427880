package session

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHosts_Next_VisitsAllServersWithoutAPause(t *testing.T) {
	servers := []string{"a:1", "b:1", "c:1"}
	h := newHosts(servers)
	require.NoError(t, h.Init(nil))
	require.Equal(t, 3, h.Len())
	var seen []string
	for range 6 {
		server, pause := h.Next()
		require.False(t, pause)
		seen = append(seen, server)
	}
	require.ElementsMatch(t, servers, seen[:3])
	require.Equal(t, seen[:3], seen[3:])
	require.Equal(t, []string{"a:1", "b:1", "c:1"}, servers, "the caller's list stays as it is")
}
