package faults_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/zktest"
)

// TestF57_DeleteIgnored: the server never answers the delete of a release, but answers later requests. The release
// returns soon, and so does the next acquisition.
func TestF57_DeleteIgnored(t *testing.T) {
	each(t, func(w *world) {
		a := w.take("a")
		a.requireGranted(0)
		w.until(time.Second)
		ignored := w.srv.Intercept(w.deletes(), zktest.Ignore())
		ctx, cancel := context.WithTimeout(w.Context(), timeout/4)
		defer cancel()
		require.NoError(w, a.hold.Release(ctx))
		require.Equal(w, 1, ignored.Hits())
		w.take("a").requireGranted(0)
	})
}

// TestF57_CreateOrListIgnored: the same for the requests of an acquisition.
func TestF57_CreateOrListIgnored(t *testing.T) {
	for name, match := range map[string]func(w *world) zktest.Match{
		"create": func(w *world) zktest.Match { return w.creates() },
		"list":   func(w *world) zktest.Match { return w.lists() },
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(w *world) {
				w.client("a")
				ignored := w.srv.Intercept(match(w), zktest.Ignore())
				w.take("a").requireGranted(timeout / 4)
				require.Equal(w, 1, ignored.Hits())
			})
		})
	}
}
