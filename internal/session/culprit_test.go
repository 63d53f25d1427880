package session

import (
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
)

// A server that was closing the session reported that for the first operation of a transaction, and an inconsistency for
// the others. The error did not match the loss, so callers did not go on in the next session.
func TestCulprit_SessionEnds_IsNoOperation(t *testing.T) {
	ops := []zkrecipes.Op{zkrecipes.OpCheck("/a", 1), zkrecipes.OpSet("/b", nil, 1)}
	lost := &zkrecipes.LostError{Reason: zkrecipes.LossExpired}
	ended := []zk.MultiResponse{{Error: zk.ErrSessionExpired}, {Error: zkrecipes.Code(-2)}}
	require.Same(t, lost, culprit(ops, []int{0, 1}, ended, lost))
	refused := []zk.MultiResponse{{}, {Error: zk.ErrBadVersion}}
	require.ErrorContains(t, culprit(ops, []int{0, 1}, refused, zk.ErrBadVersion), "/b")
}
