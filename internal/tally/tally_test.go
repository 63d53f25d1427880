package tally_test

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/tally"
)

const (
	empty    = 48
	ofPath   = 4
	ofNumber = 11

	path, number = "/queue/_c_guid-lock-", "0000000007"
)

// create is a create of the path that was admitted and answered.
func create(t *testing.T, count *tally.Tally, flags int32, created string, err error) {
	t.Helper()
	node, ok := tally.NodeOf(path, flags|zk.FlagEphemeral)
	require.True(t, ok)
	require.NoError(t, count.Admit("create", path, node.Bytes()))
	count.CreatedOne(node, created, err)
}

func TestTally_CountsWhatMayExist(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(*tally.Tally)
		want int
	}{
		"created": {func(count *tally.Tally) {
			create(t, count, zk.FlagSequence, path+number, nil)
		}, ofPath + len(path+number)},
		"refused": {func(count *tally.Tally) { create(t, count, 0, "", zk.ErrNodeExists) }, 0},
		"in doubt twice, and it can exist once": {func(count *tally.Tally) {
			create(t, count, 0, "", zk.ErrConnectionClosed)
			create(t, count, 0, "", zk.ErrConnectionClosed)
		}, ofPath + len(path)},
		"in doubt twice, with a number each": {func(count *tally.Tally) {
			create(t, count, zk.FlagSequence, "", zk.ErrConnectionClosed)
			create(t, count, zk.FlagSequence, "", zk.ErrConnectionClosed)
		}, 2 * (ofPath + len(path) + ofNumber)},
		"in doubt, and found": {func(count *tally.Tally) {
			create(t, count, zk.FlagSequence, "", zk.ErrConnectionClosed)
			count.Found("/queue/_c_guid", path+number)
			count.Found("/queue/_c_guid", path+number)
		}, ofPath + len(path+number)},
		"in doubt, and another was found": {func(count *tally.Tally) {
			create(t, count, zk.FlagSequence, "", zk.ErrConnectionClosed)
			count.Settled("/queue/_c_other")
		}, ofPath + len(path) + ofNumber},
		"in doubt, and not there": {func(count *tally.Tally) {
			create(t, count, zk.FlagSequence, "", zk.ErrConnectionClosed)
			count.Settled("/queue/_c_guid")
		}, 0},
		"gone": {func(count *tally.Tally) {
			create(t, count, 0, path, nil)
			count.Gone(path)
			count.Gone(path)
		}, 0},
	} {
		count := tally.New(1<<20, slog.New(slog.DiscardHandler))
		c.do(count)
		require.Equal(t, empty+c.want, count.Bytes(), name)
	}
}

func TestNodeOf_OnlyEphemeralNodesCount(t *testing.T) {
	_, ok := tally.NodeOf("/a", zk.FlagSequence)
	require.False(t, ok)
}

// A session is full at three quarters of what servers read, to the byte.
func TestTally_Full(t *testing.T) {
	const juteMax = 4000
	count := tally.New(juteMax, slog.New(slog.DiscardHandler))
	require.NoError(t, count.Admit("create", "/a", 2*juteMax*3/4-empty))
	err := count.Admit("create", "/a", 1)
	require.ErrorIs(t, err, zkrecipes.ErrSessionFull)
	require.ErrorContains(t, err, fmt.Sprintf("%d bytes, above the limit of %d", 2*juteMax*3/4+1, 2*juteMax*3/4))
}
