package lifetime_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/trial"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/conn"
	bubbles "github.com/zkrecipes/zkrecipes/internal/bubble"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// A list of 1 MB takes 50 s to arrive, five session timeouts, and a sync waits behind it.
func TestReads_ReplyThatArrivesSlowly_ComesInTheEnd(t *testing.T) {
	for _, retained := range []bool{false, true} {
		trial.Run(t, func(t *testing.T, srv *zktest.Server) {
			for i := range 10_000 {
				_, err := srv.Create(fmt.Sprintf("/%s-%05d", strings.Repeat("x", 90), i), nil, zktest.Persistent)
				require.NoError(t, err)
			}
			var line bubbles.Line
			c := trial.Dial(t, srv, conn.WithDialer(line.Dial(srv, trial.Label)))
			s := trial.Live(t, c)
			if retained {
				defer s.Retain()()
			}
			seen := trial.States(t, c)
			lists := trial.Requests(srv, zktest.OpGetChildren2)
			line.Set(20_000)
			look := make(chan time.Duration, 1)
			time.AfterFunc(30*time.Second, func() { look <- s.NewAge().LookAgain() })
			var names []string
			var err error
			took := trial.After(func() { names, err = c.Children(trial.Within(t, time.Hour), "/") })
			require.NoError(t, err)
			require.Greater(t, len(names), 10_000)
			require.InDelta(t, 50, took.Seconds(), 10)
			require.Len(t, lists.All(), 1)
			require.Equal(t, []conn.State{conn.Connected}, seen.Values())
			require.NoError(t, s.Err())
			require.Equal(t, trial.Timeout/8, <-look, "no request of the last 10 s was answered, and the next answer may come at any time")
			line.Set(0)
			require.NoError(t, s.Prove(trial.Within(t, trial.Timeout)))
		})
	}
}

// A reply that stops in the middle does not keep the connection.
func TestReads_ReplyThatStops_IsAskedForElsewhere(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		for i := range 1000 {
			_, err := srv.Create(fmt.Sprintf("/%s-%05d", strings.Repeat("x", 90), i), nil, zktest.Persistent)
			require.NoError(t, err)
		}
		var line bubbles.Line
		c := trial.Dial(t, srv, conn.WithDialer(line.Dial(srv, trial.Label)))
		s := trial.Live(t, c)
		defer s.Retain()()
		losses := trial.OnLoss(t, s, false)
		time.Sleep(20 * time.Second)
		line.Set(10_000)
		took := trial.After(func() {
			time.AfterFunc(2*time.Second, func() { line.Set(-1) })
			_, err := c.Children(trial.Within(t, time.Hour), "/")
			require.NoError(t, err)
		})
		require.LessOrEqual(t, took, trial.Timeout*3/4)
		require.Empty(t, losses.All())
	})
}

// Once a large reply is complete, a server that leaves syncs unanswered is dropped again, whatever else it answers.
func TestHeartbeat_AfterALargeReply_SyncUnanswered_AnotherServerIsTried(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		for i := range 1000 {
			_, err := srv.Create(fmt.Sprintf("/%s-%05d", strings.Repeat("x", 90), i), nil, zktest.Persistent)
			require.NoError(t, err)
		}
		c := trial.Dial(t, srv)
		s := trial.Live(t, c)
		defer s.Retain()()
		time.Sleep(20 * time.Second)
		_, err := c.Children(t.Context(), "/")
		require.NoError(t, err)
		seen := trial.States(t, c)
		srv.Intercept(zktest.Match{Op: zktest.OpSync}, zktest.Ignore())
		for range int(trial.Timeout / 2 / (100 * time.Millisecond)) {
			time.Sleep(100 * time.Millisecond)
			_, _, err := c.Exists(t.Context(), "/")
			require.NoError(t, err)
		}
		require.Equal(t, []conn.State{conn.Connected, conn.Suspended, conn.Connected}, seen.Values())
	})
}
