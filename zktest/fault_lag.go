package zktest

import "github.com/zkrecipes/zkrecipes/zktest/internal/tree"

// lag is the state of a front that is behind: a tree of its own, and what is to happen when it catches up.
type lag struct {
	tree    *tree.Tree
	zxid    int64
	pending []func() // in the order of transactions
	over    chan struct{}
}

func newLag(s *Server) *lag {
	return &lag{tree: s.tree.Clone(), zxid: s.zxid, over: make(chan struct{})}
}

// Lag makes the front fall behind, until [Front.CatchUp]. Its clients read what is there now, get no events, and wait for
// the replies to writes and to sync. A client that has seen a later transaction elsewhere is turned away.
func (f *Front) Lag() {
	f.s.lock()
	defer f.s.unlock()
	if f.lag == nil {
		f.lag = newLag(f.s)
	}
}

// CatchUp ends [Front.Lag]: events and replies go out in the order of the transactions. A front that is not part of the
// majority cannot catch up.
func (f *Front) CatchUp() {
	f.s.lock()
	defer f.s.unlock()
	if f.role.serves() {
		f.catchUp()
	}
}

// catchUp brings the front up to date. The caller holds mu.
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

// tree is what clients of the front read.
func (f *Front) tree() *tree.Tree {
	if f.lag != nil {
		return f.lag.tree
	}
	return f.s.tree
}

// zxid is the last transaction that the front knows.
func (f *Front) zxid() int64 {
	if f.lag != nil {
		return f.lag.zxid
	}
	return f.s.zxid
}

// see tells the front of a change that has been applied. n is the node in the server's tree.
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

// later runs do when the front is up to date: now, unless it lags. The caller holds mu.
func (f *Front) later(c *conn, do func()) {
	if f.lag == nil {
		do()
		return
	}
	f.lag.pending = append(f.lag.pending, do)
	c.behind = f.lag.over
}
