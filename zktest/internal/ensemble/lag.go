package ensemble

import (
	"github.com/zkrecipes/zkrecipes/zktest/internal/javaset"
	"github.com/zkrecipes/zkrecipes/zktest/internal/tree"
)

// lag is the state of a front that is behind: its own tree, and what must happen when it catches up.
type lag struct {
	tree    *tree.Tree
	zxid    int64
	pending []func() // in the order of transactions
	over    chan struct{}
}

func newLag(e *Ensemble) *lag {
	return &lag{tree: e.Tree.Clone(), zxid: e.Zxid, over: make(chan struct{})}
}

// FallBehind freezes what clients of the front read.
func (f *Front) FallBehind() {
	if f.lag == nil {
		f.lag = newLag(f.Ensemble)
	}
}

// Rejoin ends FallBehind, unless the front is not part of the majority.
func (f *Front) Rejoin() {
	if f.Role.serves() {
		f.catchUp()
	}
}

// Lags reports whether the front is behind a majority that it is part of.
func (f *Front) Lags() bool { return f.lag != nil && f.Role.serves() }

// catchUp brings the front up to date.
func (f *Front) catchUp() {
	if f.lag == nil {
		return
	}
	for _, do := range f.lag.pending {
		do()
	}
	close(f.lag.over)
	f.lag = nil
}

// Nodes returns the tree that clients of the front read.
func (f *Front) Nodes() *tree.Tree {
	if f.lag != nil {
		return f.lag.tree
	}
	return f.Ensemble.Tree
}

// Ephemerals lists the nodes of a session as clients of the front read them, in the order of Java's hash table.
func (f *Front) Ephemerals(ses *Session) []string {
	set := ses.Ephemerals
	if f.lag != nil {
		set = javaset.New(ephemeralBuckets)
		for _, n := range f.lag.tree.OwnedBy(ses.ID) {
			set.Add(n.Path)
		}
	}
	return set.Clone().List() // as DataTree.getEphemerals clones it
}

// LastZxid returns the last transaction that the front knows.
func (f *Front) LastZxid() int64 {
	if f.lag != nil {
		return f.lag.zxid
	}
	return f.Ensemble.Zxid
}

// see reports an applied change to the front. n is the node in the server's tree.
func (f *Front) see(c tree.Change, n *tree.Node, at tree.Stamp) {
	if f.lag == nil {
		f.fire(c, n, at.Zxid)
		return
	}
	f.lag.pending = append(f.lag.pending, func() {
		n := f.lag.tree.Apply(c, at)
		f.lag.zxid = at.Zxid
		f.fire(c, n, at.Zxid)
	})
}

// Later runs do when the front is up to date, that is, now, unless it lags. It returns a channel that is closed then,
// or nil.
func (f *Front) Later(do func()) <-chan struct{} {
	if f.lag == nil {
		do()
		return nil
	}
	f.lag.pending = append(f.lag.pending, do)
	return f.lag.over
}
