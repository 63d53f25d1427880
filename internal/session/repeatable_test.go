package session

import (
	"context"
	"fmt"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/outcome"
	"github.com/zkrecipes/zkrecipes/internal/wire"
)

func TestRepeatable_OnlyWhatMayComeRight(t *testing.T) {
	lost := &zkrecipes.LostError{Reason: zkrecipes.LossExpired}
	for _, yes := range []error{
		fmt.Errorf("%w: %w", errUnanswered, zk.ErrConnectionClosed), fmt.Errorf("%w: %w", errAgain, zk.ErrNoServer),
	} {
		require.True(t, Repeatable(&OpError{Op: "get", Path: "/a", Err: yes}))
	}
	for _, no := range []error{
		zk.ErrNoNode, lost, wire.ErrGarbled, zkrecipes.Code(-5), context.Canceled, context.DeadlineExceeded,
		outcome.InDoubt(zk.ErrConnectionClosed), outcome.InDoubt(errAgain), outcome.InDoubt(errUnanswered),
	} {
		require.False(t, Repeatable(&OpError{Op: "get", Path: "/a", Err: no}))
	}
}
