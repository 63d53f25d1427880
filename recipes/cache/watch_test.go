package cache_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/recipes/cache"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// A node was deleted and recreated, which takes two changes. The caller's context ends at the first. Nothing follows.
func TestWatch_ContextEndsBetweenTwoChanges(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		create(t, srv, root)
		c := ready(t, open(t, srv, cache.Node))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var kinds []cache.Kind
		for change, err := range c.Watch(ctx) {
			require.NoError(t, err)
			switch kinds = append(kinds, change.Kind); change.Kind {
			case cache.Current:
				require.NoError(t, srv.Delete(root))
				create(t, srv, root)
				synctest.Wait()
			case cache.Deleted:
				cancel()
			default:
			}
		}
		require.Equal(t, []cache.Kind{cache.Created, cache.Current, cache.Deleted}, kinds)
	})
}
