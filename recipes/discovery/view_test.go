package discovery

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
)

func TestView_Same(t *testing.T) {
	of := func(change func(*View)) View {
		v := View{Entries: []Entry{{Path: "/a", Czxid: 5, Data: []byte("x")}}, Freshness: zkrecipes.Freshness{Current: true}}
		change(&v)
		return v
	}
	v := of(func(*View) {})
	require.True(t, v.same(of(func(v *View) { v.Zxid++ })), "a node that is not an instance has changed")
	for name, change := range map[string]func(*View){
		"another node":               func(v *View) { v.Entries[0].Path = "/b" }, // one transaction may make both
		"the node was made again":    func(v *View) { v.Entries[0].Czxid++ },
		"other data":                 func(v *View) { v.Entries[0].Data = nil },
		"one more":                   func(v *View) { v.Entries = append(v.Entries, v.Entries[0]) },
		"the connection is not live": func(v *View) { v.Current = false },
	} {
		require.False(t, v.same(of(change)), name)
	}
}
