package zktest

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestScale_TenThousandWaiters_EachReleaseWakesOne: ten thousand waiters on one lock are as many children of one
// parent, each watching the one before it.
func TestScale_TenThousandWaiters_EachReleaseWakesOne(t *testing.T) {
	const waiters, clients = 10_000, 20
	synctest.Test(t, func(t *testing.T) {
		s := Run(t, InMemory())
		_, err := s.Create("/lock", nil, Container)
		require.NoError(t, err)
		raws := make([]*raw, clients)
		for i := range raws {
			raws[i] = attachRaw(t, s, "", 40*time.Second)
		}
		for i := range waiters {
			r := raws[i%clients]
			path, code := r.create("/lock/c-", EphemeralSequential)
			require.Equal(t, CodeOK, code)
			require.Equal(t, fmt.Sprintf("/lock/c-%010d", i), path)
			if i > 0 {
				require.Equal(t, CodeOK, r.do(OpGetData, watchBody(fmt.Sprintf("/lock/c-%010d", i-1), true)))
			}
		}
		total, paths := s.Watches()
		require.Equal(t, []int{waiters - 1, waiters - 1}, []int{total, paths})
		f, _ := raws[0].call(OpGetChildren, watchBody("/lock", false))
		require.Len(t, f.body.Strs(), waiters)
		for i := range waiters - 1 {
			path := fmt.Sprintf("/lock/c-%010d", i)
			raws[i%clients].ask(OpDelete, versionBody(path, -1))
			require.Equal(t, event{NodeDeleted, path}, raws[(i+1)%clients].next().event())
			require.Equal(t, CodeOK, raws[i%clients].next().code)
		}
		total, _ = s.Watches()
		require.Zero(t, total)
	})
}

// TestScale_ManyWatchersOfOneNode: a thousand clients watch one node, and leave. No cost may grow with the square of
// their number.
func TestScale_ManyWatchersOfOneNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Run(t, InMemory())
		raws := make([]*raw, 1000)
		for i := range raws {
			raws[i] = attachRaw(t, s, "", 40*time.Second)
			raws[i].run(OpExists, watchBody("/x", true))
		}
		_, err := s.Create("/x", nil, Persistent)
		require.NoError(t, err)
		for _, r := range raws {
			require.Equal(t, event{NodeCreated, "/x"}, r.next().event())
		}
	})
}
