package chaos

import (
	"bytes"
	"slices"
	"strings"

	"github.com/zkrecipes/zkrecipes/integration/chaos/journal"
)

// members judges views of a group. Each is one instant of the servers: those members, in those incarnations, by seniority.
// For one client, views never go back, and neither does the payload of a member.
func (t *trial) members(g Group) {
	path := Root + "/" + g.Recipe
	lists := t.past.lists(path)
	for _, id := range t.processes(g.Recipe) {
		zxid := int64(0)
		payloads := map[int64]int{} // by czxid, the number of the write
		for _, v := range t.views[id] {
			t.fresh(id, v)
			if want, known := lists[v.Zxid]; !known && v.Zxid != 0 || !slices.Equal(want, czxids(v.Nodes)) {
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
		return // told above
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

// lists returns, for each transaction that changed the list of the children of a node, their czxids after it, in order.
func (p *past) lists(path string) map[int64][]int64 {
	type step struct{ zxid, czxid int64 } // comes, or goes if the zxid is another
	var steps []step
	at := map[int64][]int64{}
	for _, n := range p.nodes[path] {
		at[n.czxid] = nil
	}
	for name, all := range p.nodes {
		if !strings.HasPrefix(name, path+"/") || strings.Contains(name[len(path)+1:], "/") {
			continue
		}
		for _, n := range all {
			steps = append(steps, step{n.czxid, n.czxid})
			if n.gone != 0 {
				steps = append(steps, step{n.gone, n.czxid})
			}
		}
	}
	slices.SortStableFunc(steps, func(a, b step) int { return int(a.zxid - b.zxid) })
	var now []int64
	for _, s := range steps {
		now = slices.DeleteFunc(slices.Clone(now), func(czxid int64) bool { return czxid == s.czxid })
		if s.zxid == s.czxid {
			now = append(now, s.czxid)
		}
		at[s.zxid] = now
	}
	return at
}
