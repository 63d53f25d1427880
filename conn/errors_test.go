package conn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
)

func TestClassify_EveryErrorOfTheLibrary(t *testing.T) {
	table := map[outcome][]error{
		refused: {
			zk.ErrNoNode, zk.ErrNoAuth, zk.ErrBadVersion, zk.ErrNoChildrenForEphemerals, zk.ErrNodeExists, zk.ErrNotEmpty,
			zk.ErrInvalidACL, zk.ErrInvalidFlags, zk.ErrAuthFailed, zk.ErrNothing, zk.ErrReconfigDisabled, zk.ErrBadArguments,
			zk.ErrInvalidPath, zk.ErrUnhandledFieldType, zk.ErrPtrExpected, zk.ErrShortBuffer,
			fmt.Errorf("Create with TTL flag disallowed: %w", zk.ErrInvalidFlags),
		},
		unsent:  {zk.ErrNoServer, zk.ErrSessionMoved},
		expired: {zk.ErrSessionExpired},
		unknown: {
			zk.ErrConnectionClosed, zk.ErrClosing, zk.ErrUnknown, zk.ErrAPIError, zk.ErrDeadlock, zk.ErrNotLocked,
			&net.OpError{Op: "write", Err: os.ErrDeadlineExceeded}, net.ErrClosed, io.EOF, io.ErrUnexpectedEOF,
			errors.New("something that a later release says"), errors.New("unknown error: many"),
		},
	}
	for want, errs := range table {
		for _, err := range errs {
			got, outcome := classify(err)
			require.Equal(t, want, outcome, "%v", err)
			require.ErrorIs(t, got, err)
		}
	}
}

func TestClassify_CodesWithoutASentinel_BecomeCodes(t *testing.T) {
	table := map[outcome][]int{
		refused: {-1, -2, -3, -5, -6, -9, -13, -14, -119, -120, -121, -124, -125, -128, 7},
		unsent:  {-127},
		unknown: {-4, -7, -122},
	}
	for want, codes := range table {
		for _, code := range codes {
			err, outcome := classify(fmt.Errorf("unknown error: %v", zk.ErrCode(code)))
			require.Equal(t, want, outcome, "%d", code)
			require.ErrorIs(t, err, Code(code))
			require.ErrorContains(t, err, fmt.Sprint(code))
		}
	}
	_, outcome := classify(errors.New("unknown error: 99999999999"))
	require.Equal(t, unknown, outcome, "not a code")
}

func TestRetryRead_OnlyWhatMayComeRight(t *testing.T) {
	lost := lost(zkrecipes.LossExpired, zero, nil)
	for _, yes := range []error{unknownOutcome(zk.ErrConnectionClosed), fmt.Errorf("%w: %w", errAgain, zk.ErrNoServer)} {
		require.True(t, retryRead(&OpError{"get", "/a", yes}))
	}
	for _, no := range []error{zk.ErrNoNode, unknownOutcome(lost), unknownOutcome(context.Canceled), unknownOutcome(context.DeadlineExceeded)} {
		require.False(t, retryRead(&OpError{"get", "/a", no}))
	}
}
