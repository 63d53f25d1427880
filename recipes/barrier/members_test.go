package barrier_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/barrier"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// A round knows its members by the ranks that they keep, and knows which have left.
func TestRound_Members(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		doubles := map[string]*barrier.Double{}
		for _, label := range []string{"a", "b", "c", "late"} {
			d, err := barrier.NewDouble(bubble.Dial(t, srv, label), path, 3, barrier.WithData([]byte("of "+label)))
			require.NoError(t, err)
			doubles[label] = d
		}
		seen := func(r *barrier.Round) (names []string, ranks []int) {
			members, err := r.Members(t.Context())
			require.NoError(t, err)
			for _, m := range members {
				require.Equal(t, m.Name, string(m.Data))
				names, ranks = append(names, m.Name), append(ranks, m.Rank)
				require.Equal(t, r.Path() == m.Path, r.Rank() == m.Rank)
				require.Equal(t, r.Path() == m.Path, r.Token() == m.Token)
			}
			return names, ranks
		}
		entries := []*entry{
			enter(t.Context(), doubles["b"]), enter(t.Context(), doubles["c"]), enter(t.Context(), doubles["a"]),
		}
		enter(t.Context(), doubles["late"]).requireWaits(t)
		for rank, e := range entries {
			r := e.requireIn(t)
			require.Equal(t, rank, r.Rank(), "the order in which they came")
			names, ranks := seen(r)
			require.Equal(t, []string{"of b", "of c", "of a"}, names)
			require.Equal(t, []int{0, 1, 2}, ranks)
		}
		left := begin(func() error { return entries[0].round.Leave(t.Context()) })
		requireWaits(t, left)
		names, ranks := seen(entries[2].round)
		require.Equal(t, []string{"of c", "of a"}, names)
		require.Equal(t, []int{1, 2}, ranks)
	})
}

// Members of a later round may have the same numbers if the parent was deleted.
func TestRound_Members_NumbersBeganAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := double(t, srv, "a", 1), double(t, srv, "b", 1)
		first := enter(t.Context(), a).requireIn(t)
		for _, name := range srv.Children(path) {
			require.NoError(t, srv.Delete(path+"/"+name))
		}
		require.NoError(t, srv.Delete(path))
		second := enter(t.Context(), b).requireIn(t)
		members, err := first.Members(t.Context())
		require.NoError(t, err)
		require.Empty(t, members)
		members, err = second.Members(t.Context())
		require.NoError(t, err)
		require.Len(t, members, 1)
	})
}
