package election_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/election"
	"github.com/zkrecipes/zkrecipes/zktest"
)

const path = "/app/leader"

func join(t *testing.T, srv *zktest.Server, id string, opts ...election.Option) *election.Election {
	t.Helper()
	e, err := election.New(bubble.Dial(t, srv, id), path, opts...)
	require.NoError(t, err)
	return e
}

// TestPartition: the leader is cut off. Its term ends on the deadline, to the virtual millisecond, and before the
// server lets the next one in.
func TestPartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory())
		a, b := join(t, srv, "a"), join(t, srv, "b")
		term, err := a.Campaign(t.Context())
		require.NoError(t, err)
		next := make(chan *election.Term, 1)
		go func() {
			term, err := b.Campaign(t.Context())
			require.NoError(t, err)
			next <- term
		}()
		time.Sleep(time.Minute)
		require.NoError(t, term.Err())

		srv.Stall(zktest.Label("a"), zktest.Both)
		cut := time.Now()
		<-term.Done()
		until := term.ValidUntil()
		require.Zero(t, time.Since(until), "lost at the deadline")
		require.Less(t, time.Since(cut), 10*time.Second)
		var lost *zkrecipes.LostError
		require.ErrorAs(t, term.Err(), &lost)
		require.Equal(t, zkrecipes.LossDeadline, lost.Reason)
		require.Equal(t, lost, context.Cause(term.Context()))
		select {
		case <-next:
			t.Fatal("two leaders")
		default:
		}
		successor := <-next
		require.Greater(t, successor.Token(), term.Token())
		require.ErrorIs(t, term.Resign(t.Context()), zkrecipes.ErrLost)
		t.Logf("lost %v after the cut, next elected after %v", lost.At.Sub(cut), time.Since(cut))
	})
}
