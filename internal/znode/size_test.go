package znode_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/recipe"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/internal/znode"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Each waiter used to keep the listing that it went by, so 1,000 that came one by one kept 500,000 names.
func TestAcquire_WaitersThatComeOneByOne_AreSmall(t *testing.T) {
	inBubbleWith(t, true, func(t *testing.T, srv *zktest.Server) {
		q := queue(t, srv, "a")
		acquire(t.Context(), q).Granted(t, time.Hour)
		come := func(n int) (each int64) {
			before := bubble.Heap()
			for range n {
				acquire(t.Context(), q).Waits(t)
			}
			return (bubble.Heap() - before) / int64(n)
		}
		come(50)
		for range 2 {
			each := come(300)
			t.Log(each, "bytes for each waiter, with the server's part")
			require.Less(t, each, int64(6<<10))
		}
	})
}

// TestAcquire_ManyPathsOnceEach_LeaveNothing: the client keeps no object that was used.
func TestAcquire_ManyPathsOnceEach_LeaveNothing(t *testing.T) {
	inBubbleWith(t, true, func(t *testing.T, srv *zktest.Server) {
		c := dial(t, srv, "a")
		var forgotten []func() bool
		for i := range 50 {
			q, err := znode.New(c, fmt.Sprintf("/app/many-%d", i), recipe.Config{}, znode.Lock)
			require.NoError(t, err)
			section(t, q)
			section(t, q)
			object := weak.Make(q)
			forgotten = append(forgotten, func() bool { return object.Value() == nil })
		}
		bubble.Heap()
		for _, gone := range forgotten {
			require.True(t, gone())
		}
	})
}

// The servers hang up on a create with this much data: their jute.maxbuffer is lower than the default.
func TestAcquire_ServersHangUpOnTheCreate_IsRefusedAfterTwo(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		q := queueWith(t, dial(t, srv, "a"), make([]byte, 500_000))
		creates := srv.Intercept(zktest.Match{Op: zktest.OpCreate, Path: "lock-", Times: -1}, zktest.DropRequest())
		start := time.Now()
		_, err := q.Acquire(t.Context(), entry)
		require.ErrorIs(t, err, zkrecipes.ErrTooLarge)
		require.Equal(t, 2, creates.Hits())
		require.Less(t, time.Since(start), time.Minute)
		synctest.Wait()
		bubble.Clean(t, srv, path, path)
	})
}
