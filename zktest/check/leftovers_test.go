package check_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/zktest/check"
)

func TestLeftovers_RejectsAContenderThatStayed(t *testing.T) {
	listing := []string{"/", "/locks-of-others", "/locks", "/locks/a", "/locks/sem", "/locks/sem/leases", "/zookeeper"}
	require.NoError(t, check.Leftovers("/locks/a", listing))
	require.NoError(t, check.Leftovers("/locks/sem", listing, "leases", "locks"))
	require.NoError(t, check.Leftovers("/gone", listing))
	require.NoError(t, check.Leftovers("/", []string{"/"}), "the root may stay")
	require.ErrorContains(t, check.Leftovers("/locks/sem", listing), "/locks/sem/leases")

	listing = append(listing, "/locks/sem/leases/_c_1-lease-0000000004")
	assert.EqualError(t, check.Leftovers("/locks/sem", listing, "leases"),
		"leftovers below /locks/sem: 1 nodes: /locks/sem/leases/_c_1-lease-0000000004")
}

func TestLeftovers_ShowsTheFirstFew(t *testing.T) {
	var listing []string
	for i := range 12 {
		listing = append(listing, fmt.Sprintf("/l/lock-%02d", 11-i))
	}
	assert.EqualError(t, check.Leftovers("/", listing),
		"leftovers below /: 12 nodes: /l/lock-00, /l/lock-01, /l/lock-02, /l/lock-03, /l/lock-04 and 7 more")
}
