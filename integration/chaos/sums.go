package chaos

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/zkrecipes/zkrecipes/zktest/check"
)

// addition is a write that the servers have applied.
type addition struct {
	session  int64
	zxid     int64
	sum, was int64
}

// value judges a value that is a number, to which clients add with Update and CompareAndSet, and its watchers.
func (t *trial) value(g Group) {
	t.sums(g)
	path := Root + "/" + g.Recipe + "/it"
	for _, id := range t.processes(g.Recipe) {
		newest := int64(0)
		for _, v := range t.views[id] {
			t.fresh(id, v)
			for _, n := range v.Nodes {
				was := t.past.find(path, n.Czxid)
				if was == nil || was.write(n.Mzxid) < 0 || was.writes[was.write(n.Mzxid)].zxid != n.Mzxid ||
					number(was.writes[was.write(n.Mzxid)].data) != number(n.Data) {
					t.violated("%s: at %d it is told %+v, which never was", id, v.at, n)
				}
				if n.Mzxid < newest {
					t.violated("%s: at %d its view goes back from %#x to %#x", id, v.at, newest, n.Mzxid)
				}
				newest = max(newest, n.Mzxid)
			}
		}
	}
}

// counter judges a counter. Only the end of the session, or of the client, may leave an outcome unknown.
func (t *trial) counter(g Group) {
	t.sums(g)
	for _, id := range t.processes(g.Recipe) {
		ops := t.clients[id]
		for i, op := range ops {
			if op.answer.Kind != check.Granted && op.answer.Kind != check.Failed && !op.orphaned && i < len(ops)-1 {
				t.violated("%s: the outcome of operation %d is unknown, and the session was alive: %s", id,
					op.number, op.answer.Reason)
			}
		}
	}
}

// sums compares the additions that the servers have applied with those that the clients know of. Each confirmed one was
// applied once, to the number before it, with the sum that its client got, so the blocks of Counter.Next are disjoint.
// Each unknown one was applied at most once, and failed ones not at all.
func (t *trial) sums(g Group) {
	applied, strangers := t.additions(Root + "/" + g.Recipe + "/it")
	f := t.Follows[g.Recipe]
	unknown, more := 0, 0
	for _, id := range t.processes(g.Recipe) {
		own := applied[id]
		open, extra := 0, 0 // outcomes unknown so far, and additions that belong to no known one
		for _, op := range t.clients[id] {
			if op.answer.Kind == check.Failed {
				continue
			}
			if op.answer.Kind != check.Granted {
				open++
				continue
			}
			of := func(a addition) bool { return a.sum == op.answer.Number && a.sum-a.was == int64(op.called.Weight) }
			at := slices.IndexFunc(own, of)
			switch other := slices.IndexFunc(strangers, of); {
			case at >= 0:
				extra += at
				own = own[at+1:]
			case other >= 0: // the session ended between the answer and the line
				strangers = slices.Delete(strangers, other, other+1)
			default:
				t.violated("%s: operation %d added %d and made %d, and the servers have not done that", id, op.number,
					op.called.Weight, op.answer.Number)
			}
			if extra > open {
				t.violated("%s: up to operation %d the servers have applied %d additions more than confirmed, and %d were unknown",
					id, op.number, extra, open)
				extra = open // report it once
			}
		}
		if extra += len(own); extra > open {
			t.violated("%s: the servers have applied %d additions more than confirmed, and %d were unknown", id, extra, open)
		}
		unknown, more = unknown+open, more+extra
	}
	if more += len(strangers); more > unknown {
		t.violated("%s: the servers have applied %d additions more than confirmed, and %d were unknown",
			g.Recipe, more, unknown)
	}
	f.Applied = more
	t.Follows[g.Recipe] = f
}

// additions returns what was added to a number, by client, and what sessions have added that no client has reported.
func (t *trial) additions(path string) (by map[string][]addition, strangers []addition) {
	owners := t.owners()
	by = map[string][]addition{}
	for _, n := range t.past.nodes[path] {
		was := []byte(nil)
		for _, w := range n.writes {
			a := addition{w.session, w.zxid, number(w.data), number(was)}
			id, known := owners[w.session]
			switch {
			case w.zxid == n.czxid && a.sum == 0, bytes.Equal(was, w.data):
			case known:
				by[id] = append(by[id], a)
			default:
				strangers = append(strangers, a)
			}
			was = w.data
		}
	}
	return by, strangers
}

// number decodes the bytes of a counter; no bytes mean 0.
func number(data []byte) int64 {
	if len(data) != 8 {
		return 0
	}
	return int64(binary.BigEndian.Uint64(data))
}
