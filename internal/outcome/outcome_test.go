package outcome_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/outcome"
	"github.com/zkrecipes/zkrecipes/internal/wire"
)

func TestOf(t *testing.T) {
	for want, errs := range map[outcome.Outcome][]error{
		outcome.Refused: {
			zk.ErrNoNode, zk.ErrNoAuth, zk.ErrBadVersion, zk.ErrNoChildrenForEphemerals, zk.ErrNodeExists, zk.ErrNotEmpty,
			zk.ErrInvalidACL, zk.ErrAuthFailed, zk.ErrReconfigDisabled, zk.ErrBadArguments,
			fmt.Errorf("/door: %w", outcome.ErrNotDeleted),
			zkrecipes.CodeUnimplemented, zkrecipes.CodeNotReadOnly, zkrecipes.CodeNeedsSASL, zkrecipes.CodeQuotaExceeded,
			zkrecipes.Code(7),
		},
		outcome.NotExecuted: {zk.ErrNoServer, zk.ErrSessionMoved, zkrecipes.CodeThrottled},
		outcome.Expired:     {zk.ErrSessionExpired},
		outcome.Unknown: {
			zk.ErrConnectionClosed, zk.ErrClosing, zk.ErrAPIError, wire.ErrGarbled, errors.New("whatever comes later"),
			zkrecipes.Code(-1), zkrecipes.Code(-2), zkrecipes.Code(-3), zkrecipes.Code(-4), zkrecipes.Code(-5),
			zkrecipes.Code(-7), zkrecipes.CodeRequestTimeout,
		},
	} {
		for _, err := range errs {
			require.Equal(t, want, outcome.Of(err), "%v", err)
		}
	}
}
