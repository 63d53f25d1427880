package zktest

import (
	"time"

	"github.com/zkrecipes/zkrecipes/zktest/internal/ensemble"
	"github.com/zkrecipes/zkrecipes/zktest/internal/proto"
)

// Txn is one transaction of the server's history: a write, successful or not, or the start or end of a session.
type Txn struct {
	Zxid    int64
	Time    time.Time
	Session int64  // 0 for the server itself: operators and the container reaper
	Client  string // label of the connection, see [Server.DialAs]
	Op      Op
	Path    string // as the client wrote it; empty for a multi and for sessions
	Err     Code   // CodeOK if it was applied
	Changes []Change
}

// Change is one effect of a transaction on the tree.
type Change struct {
	Kind  ChangeKind
	Path  string
	Owner int64 // session of an ephemeral node
}

// ChangeKind is the kind of a [Change].
type ChangeKind int

// The kinds of changes.
const (
	ChangeCreate ChangeKind = iota + 1
	ChangeDelete
	ChangeSet
	ChangeACL
)

// String returns the kind as one word.
func (k ChangeKind) String() string {
	return [...]string{"none", "create", "delete", "set", "acl"}[k]
}

// history keeps the newest transactions in a ring.
type history struct {
	limit int
	ring  []Txn
	next  int // index of the oldest, once the ring is full
}

func (h *history) add(t Txn) {
	if h.limit <= 0 {
		return
	}
	if len(h.ring) < h.limit {
		h.ring = append(h.ring, t)
		return
	}
	h.ring[h.next] = t
	h.next = (h.next + 1) % h.limit
}

// list returns the transactions, oldest first.
func (h *history) list() []Txn {
	list := make([]Txn, 0, len(h.ring))
	list = append(list, h.ring[h.next:]...)
	return append(list, h.ring[:h.next]...)
}

// remember adds a transaction to the history.
func (s *Server) remember(r ensemble.Record) {
	t := Txn{Zxid: r.Zxid, Time: r.Time, Op: r.Op, Path: r.Path, Err: r.Code}
	if r.Session != nil {
		t.Session, t.Client = r.Session.ID, r.Session.Label
	}
	if len(r.Effects) > 0 {
		t.Changes = make([]Change, len(r.Effects))
	}
	for i, x := range r.Effects {
		t.Changes[i] = Change{Kind: changeKinds[x.Op], Path: x.Path, Owner: x.Owner}
	}
	s.history.add(t)
}

// changeKinds maps requests to what they do to nodes.
var changeKinds = map[proto.Op]ChangeKind{
	proto.OpCreate: ChangeCreate, proto.OpDelete: ChangeDelete, proto.OpSetData: ChangeSet, proto.OpSetACL: ChangeACL,
}
