package supervise

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// TestAcquire_SaysSoonThatItWaits: if zkr was not in the queue after 250 ms, because the servers are far away, it said
// only after a minute which holder it waits for.
func TestAcquire_SaysSoonThatItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := bubble.Dial(t, zktest.Run(t, zktest.InMemory()), "a")
		session, err := client.Session(t.Context())
		require.NoError(t, err)
		r := &Runner{options: Options{Grace: -1, Lead: -1, Wait: 10 * time.Minute}, client: client}
		r.events, err = newEvents(slog.New(slog.DiscardHandler), -1)
		require.NoError(t, err)
		defer r.Close()
		began := time.Now()
		var looks []time.Duration
		queue := func(context.Context) ([]zkrecipes.Participant, error) {
			looks = append(looks, time.Since(began))
			if len(looks) < 4 {
				return nil, nil
			}
			return []zkrecipes.Participant{{Session: 1}, {Session: session.ID()}}, nil
		}
		_, err = r.acquire(t.Context(), &Target{
			Paths: []string{"/p"}, Queues: []Queue{queue},
			Lock: func(ctx context.Context) (*Grant, error) {
				<-ctx.Done()
				return nil, context.Cause(ctx)
			},
		})
		require.Error(t, err)
		const first = 250 * time.Millisecond
		require.Equal(t, []time.Duration{first, 3 * first, 7 * first, 15 * first, 15*first + time.Minute}, looks[:5])
	})
}
