package supervise

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/child"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/exit"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/signals"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// TestTerms_AStartThatIsLateEndsOnlyTheTerm: zkr was stopped between the grant and the start of the program.
func TestTerms_AStartThatIsLateEndsOnlyTheTerm(t *testing.T) {
	client, err := conn.Dial(t.Context(), zktest.Run(t).Addr())
	require.NoError(t, err)
	r := &Runner{options: Options{Grace: -1, Lead: -1, Wait: -1}, client: client, signals: &signals.Signals{}}
	r.events, err = newEvents(slog.New(slog.DiscardHandler), -1)
	require.NoError(t, err)
	defer r.Close()
	terms, last := 0, errors.New("last")
	campaign := func(context.Context) (*Grant, error) {
		if terms++; terms == 1 {
			return nil, exit.With(exit.Lost, &os.PathError{Op: "start", Path: "/bin/true", Err: child.ErrLate})
		}
		return nil, last
	}
	_, err = r.Terms(t.Context(), &Target{Kind: leader, Paths: []string{"/e"}, Lock: campaign},
		func(end Ending) bool { return end.Lost })
	require.ErrorIs(t, err, last)
}

// TestTerms_AWaitIsNoTerm: pauses grow while terms are short, however long the candidate waits for each of them.
func TestTerms_AWaitIsNoTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory())
		_, err := srv.Create("/l-done", []byte("1"), zktest.Persistent) // ends each term at once
		require.NoError(t, err)
		client := bubble.Dial(t, srv, "a")
		m, err := mutex.New(client, "/l")
		require.NoError(t, err)
		r := &Runner{options: Options{Grace: -1, Lead: -1, Wait: -1}, client: client, signals: &signals.Signals{}}
		r.events, err = newEvents(slog.New(slog.DiscardHandler), -1)
		require.NoError(t, err)
		defer r.Close()
		var pauses []time.Duration
		ended := time.Now()
		target := &Target{Paths: []string{"/l"}, Once: NewOnce(client, "/l", "1")}
		target.Lock = func(ctx context.Context) (*Grant, error) {
			pauses = append(pauses, time.Since(ended))
			<-time.After(2 * longTerm)
			return Single(m.Lock(ctx))
		}
		_, err = r.Terms(t.Context(), target, func(Ending) bool {
			ended = time.Now()
			return len(pauses) < 4
		})
		require.NoError(t, err)
		require.Equal(t, []time.Duration{0, firstPause, 2 * firstPause, 4 * firstPause}, pauses)
	})
}
