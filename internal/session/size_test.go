package session_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/testkit/trial"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// The jute.maxbuffer of the servers is lower than the default: they hang up on every request above it.
func TestSet_ServersHangUpOnIt_IsRefusedAfterTwo(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		trial.Create(t, srv, "/a", "")
		c := trial.Dial(t, srv)
		hangups := srv.Intercept(zktest.Match{Op: zktest.OpSetData, Times: -1}, zktest.DropRequest())
		_, err := c.Set(trial.Within(t, time.Hour), "/a", make([]byte, 500_000), 0)
		require.ErrorIs(t, err, zkrecipes.ErrTooLarge)
		require.ErrorIs(t, err, zkrecipes.ErrUnknownOutcome)
		require.ErrorContains(t, err, "2 connections in a row ended during a request of 500000 bytes")
		require.ErrorContains(t, err, "jute.maxbuffer")
		require.Equal(t, 2, hangups.Hits())
		hangups.Remove()
		_, err = c.Set(trial.Within(t, time.Hour), "/a", make([]byte, 500_000), 0)
		require.NoError(t, err)
	})
}

// A small request that loses its connections is not to blame, and neither is a large one that loses a single
// connection.
func TestSet_ConnectionsEnd_IsRepeated(t *testing.T) {
	for size, times := range map[int]int{10: 5, 500_000: 1} {
		trial.Run(t, func(t *testing.T, srv *zktest.Server) {
			trial.Create(t, srv, "/a", "")
			c := trial.Dial(t, srv)
			srv.Intercept(zktest.Match{Op: zktest.OpSetData, Times: times}, zktest.DropRequest())
			_, err := c.Set(trial.Within(t, time.Hour), "/a", make([]byte, size), 0)
			require.NoError(t, err)
			n, _ := srv.Node("/a")
			require.Len(t, n.Data, size)
		})
	}
}

func TestMaxRequestSize_IsTheLimit(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c := trial.Dial(t, srv, conn.WithMaxRequestSize(10_000))
		_, err := c.Create(t.Context(), "/a", make([]byte, 9_900), 0)
		require.NoError(t, err)
		sent := srv.Intercept(zktest.Match{Times: -1}, zktest.Proceed())
		_, err = c.Create(t.Context(), "/b", make([]byte, 10_000), 0)
		require.ErrorIs(t, err, zkrecipes.ErrTooLarge)
		require.ErrorContains(t, err, "exceeds the limit of 10000 (WithMaxRequestSize)")
		require.ErrorIs(t, trial.Inner(c).CheckCreate("/b", make([]byte, 10_000), 1), zkrecipes.ErrTooLarge)
		require.Zero(t, sent.Hits())
	})
}

// A reply that is too large fails its own call, once. Other calls on the connection do not notice.
func TestMaxReplySize_LargerReply_FailsItsCall(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		for i := range 1000 {
			trial.Create(t, srv, fmt.Sprintf("/%s-%d", strings.Repeat("x", 90), i), "")
		}
		c := trial.Dial(t, srv, conn.WithMaxReplySize(50_000))
		seen := trial.States(t, c)
		lists := trial.Requests(srv, zktest.OpGetChildren2)
		_, err := c.Children(trial.Within(t, time.Hour), "/")
		require.ErrorIs(t, err, zkrecipes.ErrTooLarge)
		require.ErrorContains(t, err, "exceeds the limit of 50000 (WithMaxReplySize)")
		_, _, err = c.Get(t.Context(), "/")
		require.NoError(t, err)
		synctest.Wait()
		require.Len(t, lists.All(), 1)
		require.Equal(t, []zkrecipes.State{zkrecipes.Connected}, seen.Values())
	})
}

// Whether a write was executed is unknown if its reply cannot be received.
func TestMaxReplySize_ReplyOfAWrite_IsInDoubt(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c := trial.Dial(t, srv, conn.WithMaxReplySize(4<<10))
		var ops []zkrecipes.Op
		for i := range 100 {
			ops = append(ops, zkrecipes.OpCreate(fmt.Sprintf("/%s-%d", strings.Repeat("x", 90), i), nil, 0))
		}
		_, err := c.Multi(t.Context(), ops...)
		require.ErrorIs(t, err, zkrecipes.ErrTooLarge)
		require.ErrorIs(t, err, zkrecipes.ErrUnknownOutcome)
	})
}

// Some connections end under a large request, but those in between answer it: the size is not the reason.
func TestHangups_CountInARow(t *testing.T) {
	const size = 500_000
	var h session.Hangups
	for range 3 {
		require.NotErrorIs(t, h.Judge(size, zk.ErrConnectionClosed), zkrecipes.ErrTooLarge)
		require.NoError(t, h.Judge(size, nil))
	}
	require.NotErrorIs(t, h.Judge(size, zk.ErrConnectionClosed), zkrecipes.ErrTooLarge)
	require.ErrorIs(t, h.Judge(size, zk.ErrConnectionClosed), zkrecipes.ErrTooLarge)
}

// A write that failed on the server, or because of its size, would only fail again.
func TestReplyLost_OnlyWhatMayComeRight(t *testing.T) {
	for cause, lost := range map[error]bool{
		zk.ErrConnectionClosed: true, zkrecipes.Code(-5): false, zkrecipes.ErrTooLarge: false,
	} {
		require.Equal(t, lost, session.ReplyLost(fmt.Errorf("%w: %w", zkrecipes.ErrUnknownOutcome, cause)), "%v", cause)
		require.False(t, session.ReplyLost(cause), "%v", cause)
	}
}
