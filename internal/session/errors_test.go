package session

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/wire"
)

func TestOutcomeOf(t *testing.T) {
	for want, errs := range map[outcome][]error{
		refused: {
			zk.ErrNoNode, zk.ErrNoAuth, zk.ErrBadVersion, zk.ErrNoChildrenForEphemerals, zk.ErrNodeExists, zk.ErrNotEmpty,
			zk.ErrInvalidACL, zk.ErrAuthFailed, zk.ErrReconfigDisabled, zk.ErrBadArguments,
			fmt.Errorf("/door: %w", ErrNotDeleted),
			zkrecipes.CodeUnimplemented, zkrecipes.CodeNotReadOnly, zkrecipes.CodeNeedsSASL, zkrecipes.CodeQuotaExceeded,
			zkrecipes.Code(7),
		},
		unsent:  {zk.ErrNoServer, zk.ErrSessionMoved, zkrecipes.CodeThrottled},
		expired: {zk.ErrSessionExpired},
		unknown: {
			zk.ErrConnectionClosed, zk.ErrClosing, zk.ErrAPIError, wire.ErrGarbled, errors.New("whatever comes later"),
			zkrecipes.Code(-1), zkrecipes.Code(-2), zkrecipes.Code(-3), zkrecipes.Code(-4), zkrecipes.Code(-5),
			zkrecipes.Code(-7), zkrecipes.CodeRequestTimeout,
		},
	} {
		for _, err := range errs {
			require.Equal(t, want, outcomeOf(err), "%v", err)
		}
	}
}

func TestRepeatable_OnlyWhatMayComeRight(t *testing.T) {
	lost := &zkrecipes.LostError{Reason: zkrecipes.LossExpired}
	for _, yes := range []error{
		fmt.Errorf("%w: %w", errUnanswered, zk.ErrConnectionClosed), fmt.Errorf("%w: %w", errAgain, zk.ErrNoServer),
	} {
		require.True(t, repeatable(&OpError{Op: "get", Path: "/a", Err: yes}))
	}
	for _, no := range []error{
		zk.ErrNoNode, lost, wire.ErrGarbled, zkrecipes.Code(-5), context.Canceled, context.DeadlineExceeded,
		unknownOutcome(zk.ErrConnectionClosed), unknownOutcome(errAgain), unknownOutcome(errUnanswered),
	} {
		require.False(t, repeatable(&OpError{Op: "get", Path: "/a", Err: no}))
	}
}
