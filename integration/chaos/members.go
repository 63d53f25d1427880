package chaos

import (
	"bytes"
	"cmp"
	"slices"
	"sort"
	"strings"

	"github.com/zkrecipes/zkrecipes/integration/chaos/journal"
)

// members judges views of a group. Each view is one instant of the servers: exactly those members, in those
// incarnations, by seniority. For one client, views never go back, and neither does the payload of a member.
//
// The zxid of a view need not be that of a change. If the end of a session finds that a node is already gone, the
// server still counts it as a change of the list. Source: DataTree.deleteNode.
func (t *trial) members(g Group) {
	path := Root + "/" + g.Recipe
	lists := t.past.lists(path)
	for _, id := range t.processes(g.Recipe) {
		zxid := int64(0)
		payloads := map[int64]int{} // by czxid, the number of the write
		for _, v := range t.views[id] {
			t.fresh(id, v)
			if want := lists.at(v.Zxid); !slices.Equal(want, czxids(v.Nodes)) {
				t.violated("%s: at %d it sees %#x as of %#x: there were %#x", id, v.at, czxids(v.Nodes), v.Zxid, want)
			}
			if v.Zxid != 0 && v.Zxid < zxid { // 0 if the path is gone
				t.violated("%s: at %d its view goes back from %#x to %#x", id, v.at, zxid, v.Zxid)
			}
			zxid = max(zxid, v.Zxid)
			for _, n := range v.Nodes {
				t.payload(id, v, n, payloads)
			}
		}
	}
}

func (t *trial) payload(id string, v view, n journal.Node, newest map[int64]int) {
	was := t.past.find(n.Path, n.Czxid)
	if was == nil {
		return // reported above
	}
	number := slices.IndexFunc(was.writes, func(w write) bool { return bytes.Equal(w.data, n.Data) })
	switch {
	case was.owner != n.Session:
		t.violated("%s: at %d it says that session %#x has %s: it is of %#x", id, v.at, n.Session, n.Path, was.owner)
	case number < 0:
		t.violated("%s: at %d it says that %s has the data %q: it never had", id, v.at, n.Path, n.Data)
	case number < newest[n.Czxid]:
		t.violated("%s: at %d the data of %s goes back to %q", id, v.at, n.Path, n.Data)
	default:
		newest[n.Czxid] = number
	}
}

func czxids(nodes []journal.Node) []int64 {
	var list []int64
	for _, n := range nodes {
		list = append(list, n.Czxid)
	}
	return list
}

// list is the children of a node after a transaction.
type list struct {
	zxid   int64
	czxids []int64 // in order
}

type lists []list

// at returns the list after a transaction.
func (l lists) at(zxid int64) []int64 {
	later := sort.Search(len(l), func(i int) bool { return l[i].zxid > zxid })
	if later == 0 {
		return nil
	}
	return l[later-1].czxids
}

// lists returns the successive children of a node, in order.
func (p *past) lists(path string) (all lists) {
	type step struct{ zxid, czxid int64 } // appears, or disappears if the zxid is another one
	var steps []step
	for name, nodes := range p.nodes {
		if !strings.HasPrefix(name, path+"/") || strings.Contains(name[len(path)+1:], "/") {
			continue
		}
		for _, n := range nodes {
			steps = append(steps, step{n.czxid, n.czxid})
			if n.gone != 0 {
				steps = append(steps, step{n.gone, n.czxid})
			}
		}
	}
	slices.SortStableFunc(steps, func(a, b step) int { return cmp.Compare(a.zxid, b.zxid) })
	var now []int64
	for _, s := range steps {
		now = slices.DeleteFunc(slices.Clone(now), func(czxid int64) bool { return czxid == s.czxid })
		if s.zxid == s.czxid {
			now = append(now, s.czxid)
		}
		all = append(all, list{s.zxid, now})
	}
	return all
}
