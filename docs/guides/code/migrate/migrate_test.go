package migrate

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func dial(t *testing.T, srv *zktest.Server, id string) *conn.Client {
	client, err := conn.Dial(t.Context(), srv.Addr(), conn.WithDialer(srv.DialAs(id)),
		conn.WithSessionTimeout(10*time.Second))
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() }) // always nil
	return client
}

// The work ends with the caller's context, or with the lock.
func TestInvoices_Stops(t *testing.T) {
	type job = func(context.Context, zkrecipes.Token) error
	for name, run := range map[string]func(context.Context, *conn.Client, job) error{
		"go-zookeeper": Invoices, "libkv": Locked,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := zktest.Run(t, zktest.InMemory())
				client := dial(t, srv, "a")
				until := func(ctx context.Context, _ zkrecipes.Token) error {
					select {
					case <-ctx.Done():
						return ctx.Err()
					case <-time.After(time.Hour):
						return nil
					}
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				err := run(ctx, client, until)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.NotErrorIs(t, err, zkrecipes.ErrLost)

				err = run(t.Context(), client, func(ctx context.Context, token zkrecipes.Token) error {
					srv.Expire(srv.SessionOf("a"))
					return until(ctx, token)
				})
				require.ErrorIs(t, err, zkrecipes.ErrLost)
				require.NotErrorIs(t, err, context.Canceled)
			})
		})
	}
}

// A follower does not go on announcing a leader when the parent is gone, and every candidate with it.
func TestFollowBesideLibkv_ParentGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory())
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan error, 1)
		var last string
		client := dial(t, srv, "a")
		go func() {
			over <- FollowBesideLibkv(ctx, client, func(leader string) { last = leader })
		}()
		_, err := srv.Create("/service", nil, zktest.Persistent)
		require.NoError(t, err)
		_, err = srv.Create("/service/leader", []byte("node-1"), zktest.Persistent)
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, "node-1", last)
		require.NoError(t, srv.Delete("/service/leader"))
		synctest.Wait()
		require.Equal(t, "nobody", last)
		cancel()
		require.NoError(t, <-over)
	})
}
