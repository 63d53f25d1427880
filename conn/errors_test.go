package conn

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
)

// TestErrorOf_IsTheLibrarys: callers compare with go-zookeeper's variables.
func TestErrorOf_IsTheLibrarys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z, far := library(t)
		for code := int32(-130); code < 0; code++ {
			outcome := make(chan error, 1)
			go func() { outcome <- z.Delete("/a", -1) }()
			request := received(t, far)
			reply := appendInt32(make([]byte, prefixSize), int32At(request, prefixSize))
			_, err := far.Write(seal(appendInt32(binary.BigEndian.AppendUint64(reply, 1), code)))
			require.NoError(t, err)
			err = <-outcome
			if text := err.Error(); strings.HasPrefix(text, "unknown error: ") {
				require.Equal(t, Code(code), errorOf(code))
				require.ErrorContains(t, errorOf(code), fmt.Sprint(code))
			} else {
				require.ErrorIs(t, err, errorOf(code), "%d", code)
			}
		}
	})
	require.NoError(t, errorOf(0))
}

func TestOutcomeOf(t *testing.T) {
	for want, errs := range map[outcome][]error{
		refused: {
			zk.ErrNoNode, zk.ErrNoAuth, zk.ErrBadVersion, zk.ErrNoChildrenForEphemerals, zk.ErrNodeExists, zk.ErrNotEmpty,
			zk.ErrInvalidACL, zk.ErrAuthFailed, zk.ErrReconfigDisabled, zk.ErrBadArguments, fmt.Errorf("/door: %w", ErrNotLeft),
			CodeUnimplemented, CodeNotReadOnly, CodeNeedsSASL, CodeQuotaExceeded, Code(7),
		},
		unsent:  {zk.ErrNoServer, zk.ErrSessionMoved, CodeThrottled},
		expired: {zk.ErrSessionExpired},
		unknown: {
			zk.ErrConnectionClosed, zk.ErrClosing, zk.ErrAPIError, errGarbled, errors.New("whatever comes later"),
			Code(-1), Code(-2), Code(-3), Code(-4), Code(-5), Code(-7), CodeRequestTimeout,
		},
	} {
		for _, err := range errs {
			require.Equal(t, want, outcomeOf(err), "%v", err)
		}
	}
}

func TestRetryRead_OnlyWhatMayComeRight(t *testing.T) {
	lost := lost(zkrecipes.LossExpired, zero, nil)
	for _, yes := range []error{fmt.Errorf("%w: %w", errUnanswered, zk.ErrConnectionClosed), fmt.Errorf("%w: %w", errAgain, zk.ErrNoServer)} {
		require.True(t, retryRead(&OpError{"get", "/a", yes}))
	}
	for _, no := range []error{
		zk.ErrNoNode, lost, errGarbled, Code(-5), context.Canceled, context.DeadlineExceeded,
		unknownOutcome(zk.ErrConnectionClosed),
	} {
		require.False(t, retryRead(&OpError{"get", "/a", no}))
	}
}
