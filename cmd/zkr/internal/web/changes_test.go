package web

import (
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/survey"
)

func TestSuccession_InWords(t *testing.T) {
	list := func(ids ...string) (all []*survey.Contender) {
		for _, id := range ids {
			all = append(all, &survey.Contender{ID: id, Node: "/q/" + id, Token: int64(len(id))})
		}
		return all
	}
	for _, c := range []struct {
		before, after []*survey.Contender
		want          string
	}{
		{nil, nil, ""},
		{list("a"), list("a"), ""},
		{list("a"), list("b"), "a → b"},
		{list("a"), nil, "a → free"},
		{nil, list("a", "b"), "free → a, b"},
		{list("a", "b"), list("a"), "b leaves"},
		{list("a"), list("b", "a", "c"), "b, c joins"},
		{list("a", "b", "c", "d", "e"), nil, "a, b, c, 2 more → free"},
		{list("a"), []*survey.Contender{{ID: "a", Node: "/q/a", Token: 7}}, "a → a"}, // deleted and created again
	} {
		require.Equal(t, c.want, succession(c.before, c.after))
	}
}

func TestChanges_AreBounded(t *testing.T) {
	var none, c changes
	for i := range 3 * keptChanges {
		before := c
		c = c.with(change{Path: fmt.Sprint(i)})
		fresh := c.since(before)
		require.Len(t, fresh, 1)
		require.Equal(t, fmt.Sprint(i), fresh[0].Path)
	}
	require.Len(t, c.since(none), keptChanges)
	require.Equal(t, fmt.Sprint(3*keptChanges-1), c.kept[keptChanges-1].Path)
	require.Empty(t, c.since(c))
}

// TestChanges_ABusyQueueHidesNoOther: the changes of other queues are kept, and none is reported twice.
func TestChanges_ABusyQueueHidesNoOther(t *testing.T) {
	c := changes{}.with(change{Path: "/rare"})
	before := c
	for range 3 * keptChanges {
		c = c.with(change{Path: "/busy"})
	}
	require.Len(t, c.kept, 1+keptOfPath)
	require.Equal(t, "/rare", c.kept[0].Path)
	require.Len(t, c.since(before), keptOfPath, "the older ones of the busy queue were dropped")
	for _, one := range c.since(before) {
		require.Equal(t, "/busy", one.Path)
	}
}

// TestPage_SaysWhyInWordsOfZkr: the page used to name options of the library, which an operator of zkr cannot set.
func TestPage_SaysWhyInWordsOfZkr(t *testing.T) {
	explain := func(err error) string { return "for zkr: " + err.Error() }
	now := time.Now()
	v := pageView{begun: true}
	v.note(conn.Status{State: zkrecipes.Suspended, Since: now, LastError: io.EOF, LastErrorAt: now}, explain)
	require.Equal(t, "for zkr: EOF", v.cause)
	v.note(conn.Status{State: zkrecipes.Connected}, explain)
	require.Equal(t, "no connection to ZooKeeper: for zkr: EOF", v.changes.kept[0].Words)
}
