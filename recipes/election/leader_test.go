package election_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Leader reads once and follows nothing, so it leaves no watch on the servers.
func TestLeader_LeavesNoWatch(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		w := join(t, srv, "w")
		requireNone := func() {
			t.Helper()
			before, _ := srv.Watches()
			_, err := w.Leader(t.Context())
			require.ErrorIs(t, err, zkrecipes.ErrNoLeader)
			after, _ := srv.Watches()
			require.Equal(t, before, after)
		}
		requireNone() // there is no queue
		term := elected(t, campaign(t, join(t, srv, "a")))
		watches := srv.Watchers(term.Path())
		_, err := w.Leader(t.Context())
		require.NoError(t, err)
		require.Equal(t, watches, srv.Watchers(term.Path()))
		require.NoError(t, term.Release(t.Context()))
		requireNone() // the queue is empty
	})
}

// The leader resigns while it is read. The next candidate is found, even if it was not in the list.
func TestLeader_ResignsMeanwhile(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		term := elected(t, campaign(t, join(t, srv, "a")))
		w, b := join(t, srv, "w"), join(t, srv, "b")
		srv.Intercept(zktest.Match{From: zktest.Label("w"), Op: zktest.OpGetData}, zktest.Before(func(zktest.Request) {
			require.NoError(t, term.Release(t.Context()))
			elected(t, campaign(t, b))
		}))
		leader, err := w.Leader(t.Context())
		require.NoError(t, err)
		require.Equal(t, "b", leader.Name)
	})
}

// The caller's context ends between two leaders. Nothing follows.
func TestWatch_ContextEndsBetweenTwoLeaders(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		first := elected(t, campaign(t, join(t, srv, "a")))
		campaign(t, join(t, srv, "b"))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var views []string
		for now, err := range join(t, srv, "w").Watch(ctx) {
			require.NoError(t, err)
			if views = append(views, now.Leader.Name); !now.Exists {
				cancel()
			} else {
				require.NoError(t, first.Release(t.Context()))
			}
		}
		require.Equal(t, []string{"a", ""}, views)
	})
}
