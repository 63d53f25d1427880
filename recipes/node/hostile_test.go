package node_test

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// The number of the parent's children does not matter to a kept node, which reads only itself; see TestCost.
// TestSession_ExpiresEachSecond covers sessions that expire every second, and TestDeleted_InALoop deletions in a loop.

// A node of nearly 1 MiB is kept, set and created again, and its data is sent once for each.
func TestHostile_Megabyte(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory(), zktest.WithHistory(0))
		data := func(b byte) string { return string(bytes.Repeat([]byte{b}, 1<<20-8<<10)) }
		n := ready(t, keep(t, srv, data('a')))
		before := bubble.Heap()
		writes := srv.Intercept(zktest.Match{From: zktest.Label("a"), Times: -1, Where: func(r zktest.Request) bool {
			return r.Op == zktest.OpMulti || r.Op == zktest.OpSetData
		}}, zktest.Proceed())
		const times = 20
		for i := range times {
			want := data(byte('b' + i))
			require.NoError(t, n.Set(t.Context(), []byte(want)))
			srv.Expire(srv.SessionOf("a"))
			time.Sleep(10 * time.Second) // there are pauses between sessions that end soon
			requireNode(t, srv, n, want)
		}
		require.LessOrEqual(t, writes.Hits(), 2*times)
		require.Less(t, bubble.Heap()-before, int64(8<<20))
	})
}

// The node is deleted each time after it has existed for long, so it is created again at once.
func TestHostile_DeletedTenThousandTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory(), zktest.WithHistory(0))
		n := ready(t, keep(t, srv, "1"))
		times := 10_000
		if bubble.Race || testing.Short() {
			times = 500
		}
		time.Sleep(time.Minute)
		before, goroutines, count := bubble.Heap(), bubble.Goroutines(), bubble.Requests(srv)
		for range times {
			require.NoError(t, srv.Delete(path))
			time.Sleep(11 * time.Second)
			require.True(t, srv.Exists(path))
		}
		requireNode(t, srv, n, "1")
		require.LessOrEqual(t, count.Hits(), 4*times, "look, make, look")
		require.Less(t, bubble.Heap()-before, int64(1<<20))
		require.LessOrEqual(t, bubble.Goroutines(), goroutines+1)
	})
}
