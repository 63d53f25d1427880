package election_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/election"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// There were no children when they were read, but there were when they were watched.
func TestWatch_CandidateComesBetweenTheReads(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		a := join(t, srv, "a")
		require.NoError(t, elected(t, campaign(t, a)).Release(t.Context())) // makes the parent
		srv.Intercept(zktest.Match{From: zktest.Label("w"), Op: zktest.OpGetChildren2, Skip: 1},
			zktest.Before(func(zktest.Request) {
				_, err := srv.Create(path+"/latch-0000000007", []byte("b"), zktest.Persistent)
				require.NoError(t, err)
			}))
		require.Equal(t, []string{"b"}, observe(t, join(t, srv, "w"))())
	})
}

// The parent of the queue appears or disappears, or the candidate at the head leaves, between the two reads. The view
// is the one after the change.
func TestWatch_QueueChangesBetweenTheReads(t *testing.T) {
	candidate := func(t *testing.T, srv *zktest.Server) {
		t.Helper()
		_, err := srv.Create(path+"/latch-0000000007", []byte("b"), zktest.Persistent)
		require.NoError(t, err)
	}
	parents := func(t *testing.T, srv *zktest.Server) {
		t.Helper()
		for _, p := range []string{"/app", path} {
			_, err := srv.Create(p, nil, zktest.Persistent)
			require.NoError(t, err)
		}
	}
	for name, c := range map[string]struct {
		before func(t *testing.T, srv *zktest.Server)
		match  zktest.Match
		change func(t *testing.T, srv *zktest.Server)
		told   string
	}{
		"parent comes": {
			func(*testing.T, *zktest.Server) {},
			zktest.Match{Op: zktest.OpExists, Path: "^" + path + "$"},
			func(t *testing.T, srv *zktest.Server) { parents(t, srv); candidate(t, srv) }, "b",
		},
		"parent goes": {
			parents,
			zktest.Match{Op: zktest.OpGetChildren2, Path: "^" + path + "$", Skip: 1},
			func(t *testing.T, srv *zktest.Server) { require.NoError(t, srv.DeleteAll(path)) }, "none",
		},
		"head goes": {
			func(t *testing.T, srv *zktest.Server) { parents(t, srv); candidate(t, srv) },
			zktest.Match{Op: zktest.OpGetData, Path: "latch-"},
			func(t *testing.T, srv *zktest.Server) { require.NoError(t, srv.DeleteAll(path)) }, "none",
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				c.before(t, srv)
				c.match.From = zktest.Label("w")
				changed := srv.Intercept(c.match, zktest.Before(func(zktest.Request) { c.change(t, srv) }))
				told := observe(t, join(t, srv, "w"))
				require.Equal(t, []string{c.told}, told())
				require.Equal(t, 1, changed.Hits())
			})
		})
	}
}

// A server that lags behind would name the previous leader.
func TestLeader_AsksTheLeaderOfTheEnsemble(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		elected(t, campaign(t, join(t, srv, "a")))
		e := join(t, srv, "w")
		caughtUp := make(chan struct{})
		sync := srv.Intercept(zktest.Match{From: zktest.Label("w"), Op: zktest.OpSync, Path: "^" + path},
			zktest.DelayUntil(caughtUp))
		reads := srv.Intercept(zktest.Match{From: zktest.Label("w"), Op: zktest.OpGetChildren2}, zktest.Proceed())
		answered := make(chan error, 1)
		go func() {
			_, err := e.Leader(t.Context())
			answered <- err
		}()
		synctest.Wait()
		require.Equal(t, 1, sync.Hits())
		require.Zero(t, reads.Hits(), "the queue is read behind the sync")
		close(caughtUp)
		require.NoError(t, <-answered)
	})
}

// If the list cannot be read, the error is the server's. If the session ends instead, the next one answers.
func TestLeader_ReadFails(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		elected(t, campaign(t, join(t, srv, "a")))
		c := bubble.Dial(t, srv, "w")
		w, err := election.New(c, path, election.WithData([]byte("w")))
		require.NoError(t, err)
		list := zktest.Match{From: zktest.Label("w"), Op: zktest.OpGetChildren2}
		srv.Intercept(list, zktest.Fail(zktest.CodeNoAuth))
		_, err = w.Leader(t.Context())
		require.ErrorIs(t, err, zk.ErrNoAuth)

		for _, m := range []zktest.Match{{Op: zktest.OpSync, Path: "^" + path}, {Op: zktest.OpGetData, Path: "latch-"}} {
			m.From = zktest.Label("w")
			srv.Intercept(m, zktest.Fail(zktest.CodeNoAuth))
			_, err = w.Leader(t.Context())
			require.ErrorIs(t, err, zk.ErrNoAuth, m.Op)
		}

		srv.Intercept(list, zktest.Before(func(r zktest.Request) { srv.Expire(r.Session) }))
		leader, err := w.Leader(t.Context())
		require.NoError(t, err)
		require.Equal(t, "a", leader.Name)

		srv.Intercept(list, zktest.HoldReply(time.Minute))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = w.Leader(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)

		time.Sleep(time.Minute) // the answer has come
		srv.Intercept(list, zktest.Before(func(r zktest.Request) {
			srv.Refuse(zktest.Label("w"))
			srv.Expire(r.Session)
		}))
		ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err = w.Leader(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded, "there is no next session")

		require.NoError(t, c.Close())
		_, err = w.Leader(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrClosed)
	})
}

// Between two leaders Watch yields a view without a leader, and yields nothing more to a caller that stops there.
func TestWatch_CallerStopsBetweenTwoLeaders(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		first := elected(t, campaign(t, join(t, srv, "a")))
		campaign(t, join(t, srv, "b"))
		w := join(t, srv, "w")
		var told []string
		for now, err := range w.Watch(t.Context()) {
			require.NoError(t, err)
			told = append(told, now.Leader.Name)
			if !now.Exists {
				break
			}
			require.NoError(t, first.Release(t.Context()))
		}
		require.Equal(t, []string{"a", ""}, told)
	})
}
