package nightly

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func TestOnce_ThreeProcessesRunItOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory())
		runs := 0
		job := func(ctx context.Context, _ *zkrecipes.Hold) error {
			runs++
			time.Sleep(time.Hour)
			return ctx.Err()
		}
		var processes sync.WaitGroup
		for _, id := range []string{"a", "b", "c"} {
			client, err := conn.Dial(t.Context(), srv.Addr(), conn.WithDialer(srv.DialAs(id)))
			require.NoError(t, err)
			t.Cleanup(func() { _ = client.Close() })
			processes.Go(func() { require.NoError(t, Once(t.Context(), client, "2026-11-22", job)) })
		}
		processes.Wait()
		require.Equal(t, 1, runs)
	})
}

func TestOnce_AFailedJobRunsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory())
		client, err := conn.Dial(t.Context(), srv.Addr(), conn.WithDialer(srv.DialAs("a")))
		require.NoError(t, err)
		defer client.Close()
		failure, runs := errors.New("disk full"), 0
		job := func(context.Context, *zkrecipes.Hold) error {
			if runs++; runs == 1 {
				return failure
			}
			return nil
		}
		require.ErrorIs(t, Once(t.Context(), client, "2026-11-22", job), failure)
		for range 2 {
			require.NoError(t, Once(t.Context(), client, "2026-11-22", job))
		}
		require.NoError(t, Once(t.Context(), client, "2026-11-23", job))
		require.Equal(t, 3, runs)
	})
}
