package znode_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/bubble"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// The servers hang up on a create with so much data: their jute.maxbuffer is lower than the default.
func TestAcquire_ServersHangUpOnTheCreate_IsRefusedAfterTwo(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		q := queue(t, srv, "a")
		large := entry
		large.Data = make([]byte, 500_000)
		creates := srv.Intercept(zktest.Match{Op: zktest.OpCreate, Path: "lock-", Times: -1}, zktest.DropRequest())
		start := time.Now()
		_, err := q.Acquire(t.Context(), large)
		require.ErrorIs(t, err, conn.ErrTooLarge)
		require.Equal(t, 2, creates.Hits())
		require.Less(t, time.Since(start), time.Minute)
		synctest.Wait()
		bubble.Clean(t, srv, path, path)
	})
}
