package semaphore_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/semaphore"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// TestErrors_NameTheSemaphoreTheHolderAndThePlace: wherever the caller waits. The holders together are the first place.
func TestErrors_NameTheSemaphoreTheHolderAndThePlace(t *testing.T) {
	for layout, opts := range map[string][]semaphore.Option{"Curator's": nil, "kazoo's": {semaphore.WithKazoo()}} {
		t.Run(layout, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := zktest.Run(t, zktest.InMemory())
				of := func(label string) *semaphore.Semaphore {
					return newSemaphore(t, bubble.Dial(t, srv, label), 2, opts...)
				}
				held := acquire(t, of("a"), 2)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				var waiting []*bubble.Attempt
				for _, label := range []string{"b", "c", "d"} {
					s := of(label)
					waiting = append(waiting, bubble.Start(ctx, func(ctx context.Context) (*zkrecipes.Hold, error) { return s.Acquire(ctx, 1) }))
					time.Sleep(time.Second)
				}
				_, err := of("e").TryAcquire(t.Context(), 1)
				var busy *zkrecipes.BusyError
				require.ErrorAs(t, err, &busy)
				require.Equal(t, path, busy.Path)
				require.Equal(t, "a", busy.Holder.Name)
				for i, w := range waiting {
					var gaveUp *zkrecipes.WaitError
					require.ErrorAs(t, w.Failed(t, time.Minute), &gaveUp)
					require.Equal(t, path, gaveUp.Path)
					require.Equal(t, 2+i, gaveUp.Position)
					require.Equal(t, "a", gaveUp.Holder.Name)
					require.Equal(t, held.Token(), gaveUp.Holder.Token)
					require.GreaterOrEqual(t, gaveUp.Of, gaveUp.Position)
				}
			})
		})
	}
}

// TestErrors_ClientClosed: the path is that of the semaphore.
func TestErrors_ClientClosed(t *testing.T) {
	pair(t, func(t *testing.T, _ *zktest.Server, a, _ *conn.Client) {
		s := newSemaphore(t, a, 2)
		require.NoError(t, a.Close())
		_, err := s.Acquire(t.Context(), 1)
		require.EqualError(t, err, path+": client closed")
	})
}
