package election_test

import (
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/election"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func TestWithKazoo_OneLeaderInBothLanguages(t *testing.T) {
	for _, layout := range []election.Layout{election.Latch, election.Selector} {
		inBubble(t, func(t *testing.T, srv *zktest.Server) {
			e := join(t, srv, "go", election.WithKazoo(), election.WithLayout(layout))
			python := bubble.Dial(t, srv, "python")
			term := elected(t, campaign(t, e))
			leader, err := python.Create(t.Context(), path+"/9f0a5c5f1c0a4f0d8f2b7f3a6d1e4c2b__lock__", []byte("py"),
				zk.FlagEphemeral|zk.FlagSequence)
			require.NoError(t, err)
			waiting := campaign(t, e)
			require.NoError(t, term.Release(t.Context()))
			now, err := e.Leader(t.Context())
			require.NoError(t, err)
			require.Equal(t, "py", now.Name)
			candidates, err := e.Queue(t.Context())
			require.NoError(t, err)
			require.Len(t, candidates, 2)
			require.Empty(t, waiting)
			require.NoError(t, srv.Delete(leader))
			require.NoError(t, elected(t, waiting).Release(t.Context()))
		})
	}
}
