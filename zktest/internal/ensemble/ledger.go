package ensemble

import (
	"math"

	"github.com/zkrecipes/zkrecipes/zktest/internal/tree"
)

// ledger separately counts what transactions do, and compares its counts with the tree after each one. A bug of zktest
// must not look like a bug of the code under test. The cost does not depend on the size of the tree.
type ledger struct {
	e       *Ensemble
	zxid    int64
	parents map[string]*family
	owned   map[int64]int // number of ephemeral nodes by session
	touched []string      // parents that the current transaction has changed
}

// family counts the children of one node.
type family struct {
	creates, deletes int32
	base             int32 // reported cversion before the first of them
	suffix           int64 // last sequence number handed out
}

func newLedger(e *Ensemble) ledger {
	return ledger{e: e, parents: map[string]*family{}, owned: map[int64]int{}}
}

// of counts births and deaths of a parent's children and returns the counts. New counts start from the previous state
// of the tree.
func (l *ledger) of(parent *tree.Node, births, deaths int32) *family {
	f := l.parents[parent.Path]
	if f == nil {
		f = &family{suffix: math.MinInt64}
		f.base = parent.Stat(l.e.Tree).Cversion - births - deaths
		l.parents[parent.Path] = f
	}
	f.creates += births
	f.deletes += deaths
	l.touched = append(l.touched, parent.Path)
	return f
}

// created counts a new node. A suffix of math.MinInt64 means none.
func (l *ledger) created(n *tree.Node, suffix int64) {
	f := l.of(n.Parent, 1, 0)
	if suffix >= math.MinInt32 {
		if suffix <= f.suffix && f.suffix != math.MaxInt32 {
			l.e.violate("sequence number %d of %s after %d", suffix, n.Path, f.suffix)
		}
		f.suffix = suffix
	}
	if n.Parent.Cversion <= 0 || n.Parent.Cversion == math.MaxInt32 {
		l.forget(n.Parent.Path) // the counter is exhausted, which invalidates the formula
	}
	if !l.e.Tree.Ephemeral(n.Owner) {
		return
	}
	l.owned[n.Owner]++
	if owner := l.e.Sessions[n.Owner]; owner == nil || owner.Closing {
		l.e.violate("ephemeral node %s of session %#x, which has ended", n.Path, uint64(n.Owner))
	}
}

func (l *ledger) deleted(n *tree.Node) {
	l.of(n.Parent, 0, 1)
	delete(l.parents, n.Path)
	if !l.e.Tree.Ephemeral(n.Owner) {
		return
	}
	if l.owned[n.Owner]--; l.owned[n.Owner] == 0 {
		delete(l.owned, n.Owner)
	}
}

// sessionEnded checks for nodes that a session has left behind.
func (l *ledger) sessionEnded(ses *Session) {
	if n := l.owned[ses.ID]; n != 0 {
		l.e.violate("session %#x has ended but owns %d nodes", uint64(ses.ID), n)
	}
}

// forget drops the counts of a parent.
func (l *ledger) forget(path string) { delete(l.parents, path) }

// check is called at the end of every transaction.
func (l *ledger) check(t *Txn) {
	if t.zxid <= l.zxid {
		l.e.violate("zxid %#x after %#x", t.zxid, l.zxid)
	}
	l.zxid = t.zxid
	for _, path := range l.touched {
		f, n := l.parents[path], l.e.Tree.Get(path)
		if f == nil || n == nil {
			continue
		}
		if got, want := n.Stat(l.e.Tree).Cversion, f.base+f.creates+f.deletes; got != want {
			l.e.violate("cversion of %s is %d after %d creates and %d deletes, not %d",
				path, got, f.creates, f.deletes, want)
		}
	}
	l.touched = l.touched[:0]
	if t.session != nil && l.owned[t.session.ID] != t.session.Ephemerals.Len() {
		l.e.violate("session %#x lists %d ephemeral nodes but owns %d",
			uint64(t.session.ID), t.session.Ephemerals.Len(), l.owned[t.session.ID])
	}
}
