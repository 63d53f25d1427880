package session

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHosts_Next_VisitsAllServersInTurn(t *testing.T) {
	t.Parallel()
	servers := []string{"a:1", "b:1", "c:1"}
	h := newHosts(servers)
	var first []string
	for range servers {
		first = append(first, h.next())
	}
	require.ElementsMatch(t, servers, first)
	for range 3 {
		for _, server := range first {
			require.Equal(t, server, h.next())
		}
	}
	firsts := map[string]bool{}
	for range 200 {
		firsts[newHosts(servers).next()] = true
	}
	require.Len(t, firsts, 3)
	require.True(t, slices.IsSorted(servers), "untouched")
}
