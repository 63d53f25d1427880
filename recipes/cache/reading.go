package cache

import (
	"errors"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/session"
)

// read handles the answer to a reading.
func (e *engine) read(r *request, a *session.Answer) {
	n := r.node
	if n.parts[r.part]&asked == 0 {
		return // the node was found to be gone meanwhile
	}
	parity := e.settle(n, r.part)
	switch {
	case r.kind == probing && errors.Is(a.Err, zk.ErrNoNode): // and there is a watch
	case errors.Is(a.Err, zk.ErrNoNode):
		e.gone(n, parity)
	case a.Err != nil:
		e.fail(n, r.part, a.Err, parity)
	case r.kind == probing:
		e.present = true
		e.spoil(n, data, stale, parity)
	case r.part == list:
		e.listed(n, a, parity)
	default:
		e.got(n, a, parity)
	}
}

// got takes a node's data.
func (e *engine) got(n *node, a *session.Answer, parity part) {
	stat := &a.Stat
	same := n.known && !e.hasFailed(n, data) && n.czxid == stat.Czxid && n.mzxid == stat.Mzxid
	first := !n.known || n.czxid != stat.Czxid
	details := n.details()
	if first {
		details.counted(&zk.Stat{Pzxid: stat.Czxid}) // what was listed was of another node
	}
	leaf := first && stat.NumChildren == 0 && len(details.kids) == 0
	if leaf || !e.has(n, list) {
		details.counted(stat)
	}
	details.owner, details.aversion = stat.EphemeralOwner, stat.Aversion
	if !same {
		e.note(n)
		e.bytes += int64(len(a.Data) - len(n.data))
		if !n.known {
			e.known++
		}
		n.known = true
		n.data = slices.Clone(a.Data) // the answer is larger than that
		n.czxid, n.mzxid, n.ctime, n.mtime, n.version = stat.Czxid, stat.Mzxid, stat.Ctime, stat.Mtime, stat.Version
		e.forgive(n, data)
		e.checkSize()
	}
	n.detail(details)
	switch {
	case !e.has(n, list):
	case leaf:
		e.bare(n, list, a.Zxid, parity)
	case first, n.parts[list] == 0 && stat.Pzxid > details.pzxid:
		e.spoil(n, list, stale, parity)
	}
}

// failure says why a node could not be read last, by part.
type failure [2]error

func (f failure) err() error {
	if f[data] != nil {
		return f[data]
	}
	return f[list]
}

func (e *engine) hasFailed(n *node, p int) bool { return n.failed && e.errs[n][p] != nil }

func (e *engine) forgive(n *node, p int) {
	if !e.hasFailed(n, p) {
		return
	}
	e.note(n)
	left := e.errs[n]
	left[p] = nil
	e.failed--
	if n.failed = left.err() != nil; n.failed {
		e.errs[n] = left
	} else {
		delete(e.errs, n)
	}
}

// fail notes that a part cannot be read. A node whose data are too large may have a list that is not.
func (e *engine) fail(n *node, p int, err error, parity part) {
	e.note(n)
	if p == data && n.czxid == 0 && !n.failed && e.has(n, list) {
		e.spoil(n, list, stale, parity)
	}
	if !e.hasFailed(n, p) {
		e.failed++
	}
	if !n.known {
		n.known = true
		e.known++
	}
	n.failed = true
	all := e.errs[n]
	all[p] = err
	e.errs[n] = all
}

// listed takes the names of a node's children. If the node was made again since its data was read, the event of its deletion came
// before this list.
func (e *engine) listed(n *node, a *session.Answer, parity part) {
	e.forgive(n, list)
	details := n.details()
	details.counted(&a.Stat)
	n.detail(details)
	slices.Sort(a.Names)
	old := details.kids
	if len(a.Names) == 0 && len(old) == 0 {
		return
	}
	kids := make([]*node, 0, len(a.Names))
	for _, name := range a.Names {
		for len(old) > 0 && old[0].name < name {
			e.drop(old[0])
			old = old[1:]
		}
		if len(old) > 0 && old[0].name == name {
			kid := old[0]
			old = old[1:]
			kids = append(kids, kid)
			if !kid.known && kid.parts[data] == 0 { // it was deleted and is there again
				e.spoil(kid, data, stale, parity)
			}
			continue
		}
		kid := &node{parent: n, name: name}
		kids = append(kids, kid)
		e.nodes++
		e.bytes += int64(len(name))
		e.spoil(kid, data, stale, parity)
	}
	for _, kid := range old {
		e.drop(kid)
	}
	details.kids = kids
	n.detail(details)
	e.checkSize()
}

// gone notes that there is no such node. It stays in the list of its parent, which has changed, too, and is read again.
func (e *engine) gone(n *node, parity part) {
	for _, kid := range n.children() {
		e.drop(kid)
	}
	e.empty(n)
	if n == e.root {
		e.bare(n, data, e.zxid, parity)
	}
}

// drop takes a node and all below it out of the tree.
func (e *engine) drop(n *node) {
	for _, kid := range n.children() {
		e.drop(kid)
	}
	e.empty(n)
	e.nodes--
	e.bytes -= int64(len(n.name))
}

func (e *engine) empty(n *node) {
	if n.known {
		e.noteGone(n)
		e.known--
	}
	e.abandon(n)
	for _, err := range e.errs[n] {
		if err != nil {
			e.failed--
		}
	}
	delete(e.errs, n)
	n.failed = false
	e.bytes -= int64(len(n.data))
	n.known, n.data, n.czxid, n.mzxid, n.ctime, n.mtime, n.version, n.more = false, nil, 0, 0, 0, 0, 0, nil
}

func (e *engine) checkSize() {
	if e.err != nil {
		return
	}
	if most := e.cache.config.nodes; e.nodes > most {
		e.err = fmt.Errorf("%w: %d nodes below %s, of at most %d: cache less, or raise WithMaxNodes", ErrTooMuch, e.nodes, e.path, most)
	}
	if most := e.cache.config.bytes; e.bytes > most {
		e.err = fmt.Errorf("%w: %d bytes below %s, of at most %d: cache less, or raise WithMaxBytes", ErrTooMuch, e.bytes, e.path, most)
	}
}
