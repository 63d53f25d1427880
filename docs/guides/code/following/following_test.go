package following

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
	"github.com/zkrecipes/zkrecipes/recipes/value"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func dial(t *testing.T, srv *zktest.Server, id string) *conn.Client {
	client, err := conn.Dial(t.Context(), srv.Addr(), conn.WithDialer(srv.DialAs(id)))
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() }) // always nil
	return client
}

func open(t *testing.T, client *conn.Client) *value.Value[Config] {
	v, err := Open(client)
	require.NoError(t, err)
	return v
}

func TestFollow_EachChangeArrives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory())
		editor, reader := open(t, dial(t, srv, "editor")), open(t, dial(t, srv, "reader"))
		limit := make(chan int, 16)
		ctx, stop := context.WithCancel(t.Context())
		var following sync.WaitGroup
		following.Go(func() { require.NoError(t, Follow(ctx, reader, func(c Config) { limit <- c.Limit })) })
		defer func() { stop(); following.Wait() }()

		for want := range 2 {
			require.NoError(t, Raise(ctx, editor))
			require.Equal(t, want+1, <-limit)
		}
		// The reader is disconnected during a change. It applies the newest one when it has reconnected.
		srv.Refuse(zktest.Label("reader"))
		srv.Cut(zktest.Label("reader"))
		require.NoError(t, Raise(ctx, editor))
		time.Sleep(5 * time.Second)
		require.Empty(t, limit)
		srv.Accept(zktest.Label("reader"))
		require.Equal(t, 3, <-limit)
	})
}

func TestEdit_TheStaleEditorChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory())
		client := dial(t, srv, "editor")
		v := open(t, client)
		m, err := mutex.New(client, "/app/config-lock")
		require.NoError(t, err)
		h, err := m.Lock(t.Context())
		require.NoError(t, err)
		to := func(limit int) func(Config) Config { return func(Config) Config { return Config{Limit: limit} } }
		require.NoError(t, Edit(t.Context(), v, h, to(7)))
		require.NoError(t, h.Release(t.Context()))
		require.ErrorIs(t, Edit(t.Context(), v, h, to(8)), zkrecipes.ErrFenced)
		c, _, err := v.Get(t.Context())
		require.NoError(t, err)
		require.Equal(t, 7, c.Limit)
	})
}

func TestTree_ReadsAndFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory())
		client := dial(t, srv, "reader")
		for _, path := range []string{"/app", "/app/settings", "/app/settings/limit"} {
			_, err := client.Create(t.Context(), path, []byte("1"), 0)
			require.NoError(t, err)
		}
		all, err := Tree(t.Context(), client)
		require.NoError(t, err)
		defer func() { require.NoError(t, all.Close(t.Context())) }()
		_, err = client.Set(t.Context(), "/app/settings/limit", []byte("2"), -1)
		require.NoError(t, err)
		require.NoError(t, all.Sync(t.Context()))
		e, ok := all.Get("/app/settings/limit")
		require.True(t, ok)
		require.Equal(t, "2", string(e.Data))
	})
}
