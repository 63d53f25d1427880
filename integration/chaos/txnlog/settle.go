package txnlog

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/zkrecipes/zkrecipes/zktest"
)

// ahead is how many transactions are considered to decide whether the end of an epoch was adopted.
const ahead = 10_000

// settle adds the ends of epochs that fit what came later, and the deletions of ephemeral nodes by the end of their
// session. It returns how many transactions it cannot decide, and how many changes do not fit those before.
func settle(history []Txn, tails map[int64][]Txn) (settled []Txn, unknown, misfits int) {
	now := tree{}
	add := func(t Txn) {
		gone, n := now.apply(t)
		misfits += n
		if t.Changes = slices.Concat(t.Changes, gone); len(t.Changes) > 0 {
			settled = append(settled, t)
		}
	}
	epochs := slices.Sorted(maps.Keys(tails))
	for i, t := range history {
		for len(epochs) > 0 && tails[epochs[0]][0].Zxid < t.Zxid {
			tail, next := tails[epochs[0]], history[i:min(i+ahead, len(history))]
			epochs = epochs[1:]
			switch with, without := now.misfits(tail, next), now.misfits(next); {
			case with < without:
				for _, t := range tail {
					add(t)
				}
			case with == without:
				unknown += len(tail)
			}
		}
		add(t)
	}
	for _, epoch := range epochs {
		unknown += len(tails[epoch])
	}
	return settled, unknown, misfits
}

// tree is the nodes after a transaction.
type tree map[string]node

type node struct {
	owner             int64
	version, children int32
}

// misfits counts the changes of later transactions that cannot be applied to the tree.
func (t tree) misfits(later ...[]Txn) (n int) {
	t = maps.Clone(t)
	for _, part := range later {
		for _, txn := range part {
			_, more := t.apply(txn)
			n += more
		}
	}
	return n
}

// apply changes the tree. It returns what disappears with the session, if the transaction ends it.
func (t tree) apply(txn Txn) (gone []Change, misfits int) {
	if txn.Ends {
		for path, n := range t {
			if n.owner == txn.Session {
				gone = append(gone, Change{Kind: zktest.ChangeDelete, Path: path})
			}
		}
		slices.SortFunc(gone, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	}
	for _, c := range slices.Concat(txn.Changes, gone) {
		if !t.change(c) {
			misfits++
		}
	}
	return gone, misfits
}

// change reports whether the change fits.
func (t tree) change(c Change) (fits bool) {
	n, there := t[c.Path]
	switch c.Kind {
	case zktest.ChangeCreate:
		t[c.Path], fits = node{owner: c.Owner}, !there
		if parent, ok := t[path.Dir(c.Path)]; ok {
			fits = fits && c.Version == parent.children+1
			parent.children = c.Version
			t[path.Dir(c.Path)] = parent
		}
	case zktest.ChangeSet:
		fits = there && c.Version == n.version+1
		n.version = c.Version
		t[c.Path] = n
	default:
		delete(t, c.Path)
		fits = there
	}
	return fits
}
