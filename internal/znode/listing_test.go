package znode

import (
	"slices"
	"testing"
	"unsafe"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/session"
)

func contendersOf(keys ...string) (list []Contender) {
	for _, key := range keys {
		list = append(list, Contender{Name: "lock-" + key, Kind: Lock, Key: key})
	}
	return list
}

// Several waiters read a shared listing at once, so its order must not change once the first of them has sorted it.
func TestListing_Shared_IsPutInOrderOnce(t *testing.T) {
	t.Parallel()
	l := &listing{queue: contendersOf("5", "3", "1", "4", "2"), callers: 2}
	require.Equal(t, 1, l.locate(contendersOf("2")))
	require.Equal(t, contendersOf("1", "2", "3", "4", "5"), l.queue, "behind the waiter as well")
	seen := slices.Clone(l.queue)
	for _, c := range seen {
		l.locate([]Contender{c})
		require.Equal(t, seen, l.queue)
	}
	l.queue[0], l.queue[1] = l.queue[1], l.queue[0]
	l.sort()
	require.NotEqual(t, seen, l.queue, "it is not sorted again")
}

func TestReader_SecondCallerOfAListing_SharesIt(t *testing.T) {
	t.Parallel()
	r := &sharedQueue{queue: &Queue{}, listings: batches{running: newListing()}}
	next := r.list()
	require.Equal(t, 1, next.callers)
	require.Same(t, next, r.list())
	require.Equal(t, 2, next.callers)
}

// The watch that counts was on the parent before the delete: one that was set later may be on another parent.
func TestPlace_TakesTheWatchFromBeforeTheDelete(t *testing.T) {
	t.Parallel()
	c := contendersOf("0000000007")[0]
	before := &session.Watch{}
	for _, watch := range []*session.Watch{nil, before} {
		s := &shortcut{first: c.Name, parentWatch: watch}
		p := &place{shared: &sharedQueue{shortcut: s}, contender: [1]Contender{c}, czxid: 70}
		p.Deleting()
		s.parentWatch = &session.Watch{}
		p.Deleted()
		if watch == nil {
			require.False(t, s.vacant.exists())
			continue
		}
		require.Same(t, before, s.vacant.parentWatch)
		require.Equal(t, 7, s.vacant.number)
		require.EqualValues(t, 70, s.vacant.czxid)
	}
}

// TestLine_KeepsItsNamesAlone: the names of a list share their memory, and the line is kept as long as the queue is in
// use.
func TestLine_KeepsItsNamesAlone(t *testing.T) {
	t.Parallel()
	name := "_c_x-" + Lock + "0000000007"
	var l Line
	require.True(t, l.take(&Queue{kinds: []string{Lock}}, []string{name}, zk.Stat{}))
	require.Equal(t, []string{name}, l.names)
	require.NotSame(t, unsafe.StringData(name), unsafe.StringData(l.names[0]))
}
