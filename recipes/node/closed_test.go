package node_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// After Close, calls return ErrClosed at once, even if the removal is not permitted, or its answer is missing.
func TestClose_RemovalContinues_CallsReturnErrClosed(t *testing.T) {
	for name, hinder := range map[string]func(srv *zktest.Server, cancel context.CancelFunc) (is error){
		"not permitted": func(srv *zktest.Server, _ context.CancelFunc) error {
			srv.Intercept(zktest.Match{Op: zktest.OpDelete, Times: -1}, zktest.Fail(zktest.CodeNoAuth))
			return zk.ErrNoAuth
		},
		"canceled": func(srv *zktest.Server, cancel context.CancelFunc) error {
			srv.Stall(zktest.Label("a"), zktest.Both)
			cancel()
			return context.Canceled
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				n := ready(t, keepOf(t, bubble.Dial(t, srv, "a"), "1"))
				is := hinder(srv, cancel)
				require.ErrorIs(t, n.Close(ctx), is)
				began := time.Now()
				require.True(t, srv.Exists(path))
				require.ErrorIs(t, n.Ready(t.Context()), zkrecipes.ErrClosed)
				require.ErrorIs(t, n.Set(t.Context(), []byte("2")), zkrecipes.ErrClosed)
				var last error
				for _, last = range n.Watch(t.Context()) {
				}
				require.ErrorIs(t, last, zkrecipes.ErrClosed)
				require.Zero(t, time.Since(began))
			})
		})
	}
}
