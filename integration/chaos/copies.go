package chaos

import (
	"bytes"
	"maps"
	"slices"

	"github.com/zkrecipes/zkrecipes/integration/chaos/journal"
	"github.com/zkrecipes/zkrecipes/zktest/check"
)

// copies judges caches. What a cache shows has existed, and each path only moves forward. A node that was deleted and
// recreated is reported as deleted and created. When the cache reports that it is current, it has reported everything
// that its server had at that point. After Sync it has at least everything that was committed before.
func (t *trial) copies(g Group) {
	path := Root + "/" + g.Recipe + "/tree"
	paths := append(t.past.below(path), path) // a small part of everything that the servers did
	for _, id := range t.processes(g.Recipe) {
		t.changes(id, paths)
		for _, op := range t.clients[id] {
			if op.answer.Kind == check.Granted && op.answer.View != nil {
				t.complete(id, paths, "after Sync", op.answer.View.Nodes, op.answer.View.Zxid)
			}
		}
	}
}

// existed checks one node of a view.
func (t *trial) existed(id string, n journal.Node) {
	was := t.past.find(n.Path, n.Czxid)
	if was == nil {
		t.violated("%s: shows %s of %#x, which never was", id, n.Path, n.Czxid)
		return
	}
	w := was.writes[max(0, was.write(n.Mzxid))]
	if w.zxid != n.Mzxid || !bytes.Equal(w.data, n.Data) {
		t.violated("%s: shows %s of %#x with %q, written by %#x: it never had that", id, n.Path, n.Czxid, n.Data, n.Mzxid)
	}
}

func (t *trial) changes(id string, paths []string) {
	there := map[string]journal.Node{}
	newest := map[string]int64{} // mzxid by path
	for _, v := range t.views[id] {
		if len(v.Nodes) == 0 {
			if v.Change == "current" {
				t.complete(id, paths, "C12: current", slices.Collect(maps.Values(there)), t.known(v.AsOf))
			}
			continue
		}
		n := v.Nodes[0]
		was, known := there[n.Path]
		if v.Change == "deleted" {
			if !known || was.Czxid != n.Czxid {
				t.violated("%s: at %d it is told that %s of %#x is deleted: it had %+v", id, v.at, n.Path, n.Czxid, was)
			}
			delete(there, n.Path)
			continue
		}
		t.existed(id, n)
		if known != (v.Change == "updated") || known && was.Czxid != n.Czxid {
			t.violated("%s: at %d it is told that %s of %#x is %s: it had %+v", id, v.at, n.Path, n.Czxid, v.Change, was)
		}
		if n.Mzxid <= newest[n.Path] {
			t.violated("%s: at %d %s goes back from %#x to %#x", id, v.at, n.Path, newest[n.Path], n.Mzxid)
		}
		newest[n.Path], there[n.Path] = n.Mzxid, n
	}
}

// complete checks that the nodes, which are everything shown of the paths, are at least as new as a transaction.
func (t *trial) complete(id string, paths []string, when string, nodes []journal.Node, zxid int64) {
	got := map[string]journal.Node{}
	for _, n := range nodes {
		got[n.Path] = n
		t.existed(id, n)
	}
	for _, path := range paths {
		n, shown := got[path]
		was := t.past.at(path, zxid)
		switch {
		case was == nil && shown && n.Czxid <= zxid:
			t.violated("%s: %s, it shows %s of %#x, which was gone at %#x", id, when, path, n.Czxid, zxid)
		case was != nil && shown && n.Mzxid < was.writes[was.write(zxid)].zxid:
			t.violated("%s: %s, it shows %s as of %#x: at %#x it was newer", id, when, path, n.Mzxid, zxid)
		case was != nil && !shown && was.gone == 0:
			t.violated("%s: %s, it lacks %s of %#x, which was there at %#x", id, when, path, was.czxid, zxid)
		}
	}
}
