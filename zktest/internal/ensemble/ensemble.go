// Package ensemble implements what the servers of an ensemble agree on: sessions, transactions, watches, and who leads.
// It is a state machine: it has no network, no goroutine and no lock, and it receives its clock from its caller.
package ensemble

import (
	"fmt"
	"time"

	"github.com/zkrecipes/zkrecipes/zktest/internal/access"
	"github.com/zkrecipes/zkrecipes/zktest/internal/proto"
	"github.com/zkrecipes/zkrecipes/zktest/internal/tree"
)

// Settings configures an ensemble.
type Settings struct {
	Tick, MinTimeout, MaxTimeout time.Duration
	NeverUsed                    time.Duration // how long a container that never had a child is kept; 0 means forever
	Size                         int           // number of fronts
	MaxBuffer                    int           // maximum bytes of a request; a transaction may have twice that
	Extended                     bool          // nodes can have a time to live
	NoContainers                 bool
	Quotas                       bool // hard limits are enforced
	ReadOnly                     bool // fronts without a majority serve reads
	Reconfig                     bool
	Access                       access.Policy
	Traits                       proto.Traits

	Now      func() time.Time
	Recorded func(Record)
	Violated func(error)                      // receives what contradicts the ledger
	Misused  func(format string, args ...any) // receives what damages a real server
}

// Ensemble is what the servers of an ensemble agree on: nodes, sessions, and who leads. It has no goroutine and no
// lock: callers serialize the calls of its methods.
type Ensemble struct {
	Settings
	Tree        *tree.Tree
	Zxid        int64 // of the last transaction
	Sessions    map[int64]*Session
	Tracker     *Tracker
	Fronts      []*Front
	members     members // according to the last reconfiguration
	leader      *Front  // nil without a majority
	Paused      bool    // no session or container ends
	lastSession int64
	lastClient  uint64
	TraceMask   int64 // has no effect
	ledger      ledger
	Traffic
}

// New returns an ensemble whose servers run. The caller sets the addresses of its fronts and then calls Start.
func New(of Settings) *Ensemble {
	e := &Ensemble{
		Settings: of, Tree: tree.New(of.Extended), Sessions: map[int64]*Session{}, Tracker: newTracker(of.Tick, of.Now),
		// The server id, 1, in the top byte, followed by the time. Source: SessionTrackerImpl.initializeNextSessionId.
		lastSession: int64(uint64(of.Now().UnixMilli())<<24>>8 | 1<<56),
	}
	e.TraceMask = 306
	e.ledger = newLedger(e)
	for id := range of.Size {
		e.Fronts = append(e.Fronts, newFront(e, id+1))
	}
	e.members = e.membersOf(e.Fronts)
	e.leader = e.Fronts[of.Size-1]
	for _, f := range e.Fronts {
		f.Role = e.roleOf(f)
	}
	return e
}

// Start begins the first epoch of an ensemble whose fronts have their addresses. A standalone server has no epochs.
func (e *Ensemble) Start() {
	if len(e.Fronts) > 1 {
		e.nextEpoch()
		e.members = e.membersOf(e.Fronts) // now with their addresses
		e.fillConfig()
	}
}

// Ticks reports whether sessions and containers end.
func (e *Ensemble) Ticks() bool { return !e.Paused && e.leader != nil }

// Record is one completed transaction: a write, successful or not, or the birth or end of a session.
type Record struct {
	Zxid    int64
	Time    time.Time
	Session *Session // nil for the server itself
	Op      proto.Op
	Path    string
	Code    proto.Code
	Effects []Effect
}

// Effect is what a transaction did to a node.
type Effect struct {
	Op    proto.Op // create, delete, setData or setACL
	Path  string
	Owner int64
}

// Record completes a transaction.
func (e *Ensemble) Record(t *Txn, op proto.Op, path string, code proto.Code) {
	e.Recorded(Record{t.zxid, t.time, t.session, op, path, code, t.done})
	e.ledger.check(t)
}

// Write runs one change as a separate transaction. It returns the changed node.
func (e *Ensemble) Write(
	ses *Session, ids []access.Identity, op proto.Op, path string, prepare func(*Txn) (tree.Change, proto.Code),
) (n *tree.Node, code proto.Code) {
	t := e.Begin(ses, ids)
	c, code := prepare(t)
	if code == proto.CodeOK {
		n = t.Apply(c)
	}
	e.Record(t, op, path, code)
	return n, code
}

// Reap removes a container, or a node whose time to live is over.
func (e *Ensemble) Reap(path string) bool {
	_, code := e.Write(nil, nil, proto.OpDeleteContainer, path,
		func(t *Txn) (tree.Change, proto.Code) { return t.DeleteContainer(path) })
	return code == proto.CodeOK
}

// Reapable returns what Reap should remove now.
func (e *Ensemble) Reapable() []string { return e.Tree.Reapable(e.Now(), e.NeverUsed) }

// SetCversion sets the sequence number of the next child.
func (e *Ensemble) SetCversion(n *tree.Node, cversion int32) {
	n.Cversion = cversion
	e.ledger.forget(n.Path)
}

// SetZxid sets the zxid of the last transaction.
func (e *Ensemble) SetZxid(zxid int64) { e.Zxid, e.ledger.zxid = zxid, zxid }

func (e *Ensemble) violate(format string, args ...any) { e.Violated(fmt.Errorf(format, args...)) }
