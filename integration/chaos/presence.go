package chaos

import (
	"time"

	"github.com/zkrecipes/zkrecipes/integration/chaos/journal"
)

// presence judges persistent nodes. A state that reports Exists is about a node that existed at AsOf, and that was
// created by the session it names. No client writes or deletes another's node. Once a node is closed, nothing is left.
func (t *trial) presence(g Group) {
	owners := t.owners()
	for _, id := range t.processes(g.Recipe) {
		for _, v := range t.views[id] {
			t.fresh(id, v)
			for _, n := range v.Nodes {
				t.present(id, v, n)
			}
		}
		for _, op := range t.clients[id] {
			t.closed(id, op, owners)
		}
	}
	for _, path := range t.past.below(Root + "/" + g.Recipe) {
		before := (*incarnation)(nil)
		for _, n := range t.past.nodes[path] {
			t.untouched(n, before, owners)
			before = n
		}
	}
}

func (t *trial) present(id string, v view, n journal.Node) {
	was := t.past.find(n.Path, n.Czxid)
	switch {
	case was == nil:
		t.violated("%s: C13: at %d it says that %s is there since %#x: it never was", id, v.at, n.Path, n.Czxid)
	case was.owner != n.Session || was.maker != n.Session:
		t.violated("%s: C13: at %d it says that session %#x has %s since %#x: it is of session %#x", id, v.at, n.Session,
			n.Path, n.Czxid, was.owner)
	case v.Current && was.gone != 0 && v.AsOf > t.lag(was.goneAt):
		t.violated("%s: C12: at %d it says that %s was there at %d: it was gone %v before", id, v.at, n.Path, v.AsOf,
			time.Duration(v.AsOf-was.goneAt))
	}
}

// closed checks that a client whose Close has returned has left nothing behind. If its session ended meanwhile, the
// servers still have to delete the node.
func (t *trial) closed(id string, op *operation, owners map[int64]string) {
	if op.released == nil || op.orphaned {
		return
	}
	for _, n := range t.past.nodes[op.answer.Path] {
		ours := owners[n.maker] == id && n.made < op.released.At
		if ours && (n.gone == 0 || n.goneAt > op.released.At+int64(slack)) {
			t.violated("%s: closed at %d, and %s of %#x is still there", id, op.released.At, n.path, n.czxid)
		}
	}
}

// raced is how long a client may not know that the node of its previous session is gone.
const raced = 200 * time.Millisecond

// untouched checks that no client has changed another's node. The operator may.
//
// ZooKeeper cannot compare incarnations. Within the round trip between its read and its write, a client may therefore
// change the node of another that has followed its own with the same version. Its own may have been deleted by an
// operator, or along with the previous session. Package node documents this. Such changes are counted.
func (t *trial) untouched(n, before *incarnation, owners map[int64]string) {
	within := slack
	if before != nil && before.goneWith == before.owner {
		within = raced
	}
	changed := func(session, at int64, how string) {
		who, known := owners[session]
		switch {
		case !known || who == owners[n.owner]:
		case before != nil && owners[before.owner] == who && before.goneWith != session && at < before.goneAt+int64(within):
			t.Overtaken++
		default:
			t.violated("C13: %s has %s %s of %#x, which %s had", who, how, n.path, n.czxid, owners[n.owner])
		}
	}
	for _, w := range n.writes {
		changed(w.session, w.at, "written")
	}
	if n.gone != 0 {
		changed(n.goneWith, n.goneAt, "deleted")
	}
}
