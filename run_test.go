package zkrecipes_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
	"github.com/zkrecipes/zkrecipes/recipes/rwlock"
	"github.com/zkrecipes/zkrecipes/recipes/semaphore"
	"github.com/zkrecipes/zkrecipes/zktest"
)

type (
	body   = func(ctx context.Context, h *zkrecipes.Hold) error
	runner = func(ctx context.Context, fn body) error
)

// runs runs a test in virtual time with each recipe that locks again after a loss.
func runs(t *testing.T, test func(t *testing.T, srv *zktest.Server, client *conn.Client, run runner)) {
	for name, of := range map[string]func(*conn.Client) (runner, error){
		"mutex": func(c *conn.Client) (runner, error) {
			m, err := mutex.New(c, "/app/it")
			return m.Run, err
		},
		"writer": func(c *conn.Client) (runner, error) {
			l, err := rwlock.New(c, "/app/it")
			return l.Run, err
		},
		"reader": func(c *conn.Client) (runner, error) {
			l, err := rwlock.New(c, "/app/it")
			return l.RRun, err
		},
		"semaphore": func(c *conn.Client) (runner, error) {
			s, err := semaphore.New(c, "/app/it", 3)
			return func(ctx context.Context, fn body) error { return s.Run(ctx, 2, fn) }, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := zktest.Run(t, zktest.InMemory())
				client := bubble.Dial(t, srv, "a")
				run, err := of(client)
				require.NoError(t, err)
				test(t, srv, client, run)
			})
		})
	}
}

// Run locks again after a loss, whatever the function returns about its context, even if it returns nil.
func TestRun_LocksAgainAfterALoss(t *testing.T) {
	runs(t, func(t *testing.T, srv *zktest.Server, _ *conn.Client, run runner) {
		says := []func(ctx context.Context, h *zkrecipes.Hold) error{
			func(ctx context.Context, _ *zkrecipes.Hold) error { return ctx.Err() },
			func(ctx context.Context, _ *zkrecipes.Hold) error {
				return fmt.Errorf("step 37 of 60: %w", context.Cause(ctx))
			},
			func(_ context.Context, h *zkrecipes.Hold) error {
				_, err := h.Txn(t.Context())
				return err
			},
			func(context.Context, *zkrecipes.Hold) error { return nil },
		}
		var tokens []zkrecipes.Token
		require.NoError(t, run(t.Context(), func(ctx context.Context, h *zkrecipes.Hold) error {
			require.NoError(t, ctx.Err())
			for _, before := range tokens {
				require.Greater(t, h.Token(), before)
			}
			round := len(tokens)
			tokens = append(tokens, h.Token())
			if round == len(says) {
				return nil
			}
			srv.Expire(srv.SessionOf("a"))
			<-ctx.Done()
			return says[round](ctx, h)
		}))
		require.Len(t, tokens, len(says)+1)
		bubble.Clean(t, srv, "/app/it", "locks", "leases")
	})
}

// Run ends when the function returns an error other than the loss, when its context ends, and when its client is
// closed.
func TestRun_Ends(t *testing.T) {
	failed := errors.New("disk full")
	runs(t, func(t *testing.T, srv *zktest.Server, client *conn.Client, run runner) {
		require.Equal(t, failed, run(t.Context(), func(context.Context, *zkrecipes.Hold) error { return failed }))
		short, stop := context.WithTimeout(t.Context(), time.Hour)
		defer stop()
		err := run(short, func(ctx context.Context, _ *zkrecipes.Hold) error {
			srv.Expire(srv.SessionOf("a"))
			<-ctx.Done()
			return failed
		})
		require.ErrorIs(t, err, failed)
		require.ErrorIs(t, err, zkrecipes.ErrLost)

		enough := errors.New("enough")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, enough)
		defer cancel()
		require.Equal(t, enough, run(ctx, func(ctx context.Context, _ *zkrecipes.Hold) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}))
		require.ErrorIs(t, run(ctx, func(context.Context, *zkrecipes.Hold) error { return nil }), enough)
		require.ErrorContains(t, run(t.Context(), nil), "the function is nil")

		require.ErrorIs(t, run(t.Context(), func(ctx context.Context, _ *zkrecipes.Hold) error {
			require.NoError(t, client.Close())
			<-ctx.Done()
			return ctx.Err()
		}), zkrecipes.ErrClosed)
	})
}

// Run backs off between short rounds, so that a hold that is lost repeatedly does not keep the servers busy.
func TestRun_PausesBetweenShortRounds(t *testing.T) {
	runs(t, func(t *testing.T, srv *zktest.Server, _ *conn.Client, run runner) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		rounds := 0
		_ = run(ctx, func(ctx context.Context, h *zkrecipes.Hold) error {
			rounds++
			synctest.Wait() // until the hold's node is watched
			require.NoError(t, srv.Delete(h.Path()))
			<-ctx.Done()
			return ctx.Err()
		})
		require.Greater(t, rounds, 10)
		require.Less(t, rounds, 40)
	})
}

// HoldFromContext finds the innermost hold in each context that a function under a hold has.
func TestHoldFromContext(t *testing.T) {
	_, ok := zkrecipes.HoldFromContext(t.Context())
	require.False(t, ok)
	runs(t, func(t *testing.T, _ *zktest.Server, client *conn.Client, run runner) {
		type key struct{}
		found := func(ctx context.Context, want *zkrecipes.Hold) {
			h, ok := zkrecipes.HoldFromContext(ctx)
			require.True(t, ok)
			require.Same(t, want, h)
		}
		require.NoError(t, run(t.Context(), func(ctx context.Context, outer *zkrecipes.Hold) error {
			child, cancel := context.WithCancel(context.WithValue(ctx, key{}, 1))
			defer cancel()
			found(child, outer)
			m, err := mutex.New(client, "/app/other")
			require.NoError(t, err)
			require.NoError(t, m.Do(child, func(ctx context.Context, inner *zkrecipes.Hold) error {
				found(ctx, inner)
				require.NoError(t, inner.Release(ctx))
				found(ctx, inner) // although it has ended
				require.ErrorIs(t, inner.Err(), zkrecipes.ErrReleased)
				return nil
			}))
			found(ctx, outer)
			return nil
		}))
	})
}
