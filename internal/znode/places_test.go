package znode

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// A parent that is created again numbers its contenders from 0, so a number may recur before a waiter for it has run.
func TestPlaces_NumberComesTwice(t *testing.T) {
	var p places
	p.add(Contender{Name: "x-0000000000", Key: "0000000000"})
	p.added["0000000007"] = make(chan struct{})
	p.add(Contender{Name: "x-0000000007", Key: "0000000007"})
	p.add(Contender{Name: "y-0000000007", Key: "0000000007"})
	require.Equal(t, "y-0000000007", p.justAhead(t.Context(), Contender{Key: "0000000008"}, nil))
}

// The latest contender to hand over its place counts only if it has the number before.
func TestPlaces_JustAhead_AnotherHasHandedOver(t *testing.T) {
	var p places
	last := Contender{Name: "x-0000000003", Key: "0000000003"}
	p.add(last)
	p.passOn(last, p.remove(last))
	require.Equal(t, last.Name, p.justAhead(t.Context(), Contender{Key: "0000000004"}, nil))
	synctest.Test(t, func(t *testing.T) {
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		require.Empty(t, p.justAhead(gone, Contender{Key: "0000000008"}, nil))
	})
}
