package ensemble

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/zkrecipes/zkrecipes/zktest/internal/access"
	"github.com/zkrecipes/zkrecipes/zktest/internal/proto"
	"github.com/zkrecipes/zkrecipes/zktest/internal/tree"
)

// view is a node as the checks of a transaction see it: in a multi, as the preceding operations would leave it.
type view struct {
	exists                      bool
	version, cversion, aversion int32
	owner                       int64
	children                    int
	size                        int // of the data
	acl                         []proto.ACL
}

// Txn checks and applies one write. The checks come first, change nothing, and follow the order of the real server: a
// request that is wrong in two ways must get the same answer from both. Applying cannot fail.
//
// Source: PrepRequestProcessor.pRequest2Txn for the checks, DataTree for what follows.
type Txn struct {
	e       *Ensemble
	zxid    int64
	time    time.Time
	session *Session // nil for the server itself
	ids     []access.Identity
	shadow  map[string]view // decisions of earlier operations of a multi; nil outside of one
	done    []Effect
}

// Begin takes a zxid, as every write does, even one that fails.
func (e *Ensemble) Begin(ses *Session, ids []access.Identity) *Txn {
	e.Zxid++
	return &Txn{e: e, zxid: e.Zxid, time: e.Now(), session: ses, ids: ids}
}

func (t *Txn) look(path string) view {
	if path == "" {
		path = "/"
	}
	if v, ok := t.shadow[path]; ok {
		return v
	}
	n := t.e.Tree.Get(path)
	if n == nil {
		return view{}
	}
	return view{
		exists: true, version: n.Version, cversion: n.Cversion, aversion: n.Aversion,
		owner: n.Owner, children: n.Children.Len(), size: len(n.Data), acl: n.ACL,
	}
}

// note records a decision for the later operations of the same multi.
func (t *Txn) note(path string, v view) {
	if t.shadow == nil {
		return
	}
	if path == "" {
		path = "/"
	}
	t.shadow[path] = v
}

// KeepDecisions lets each operation of a multi see what the earlier ones have decided.
func (t *Txn) KeepDecisions() { t.shadow = map[string]view{} }

func (t *Txn) exceeds(path string, nodes, size int) bool {
	return t.e.Quotas && t.e.Tree.Exceeds(path, int64(nodes), int64(size))
}

func (t *Txn) may(acl []proto.ACL, perm int32) bool { return t.e.Access.Allowed(acl, perm, t.ids) }

func (t *Txn) expired() bool { return t.session != nil && t.session.Closing }

// Create is a create request as received.
type Create struct {
	Op   proto.Op
	Path string
	Data []byte
	ACL  []proto.ACL
	Mode proto.Mode
	TTL  int64
}

// Create checks a create.
func (t *Txn) Create(r Create) (tree.Change, proto.Code) {
	if code := t.checkMode(r); code != proto.CodeOK {
		return tree.Change{}, code
	}
	switch {
	case r.Path == proto.Null: // the real server breaks on it
		return tree.Change{}, proto.CodeMarshallingError
	case !strings.Contains(r.Path, "/"), strings.ContainsRune(r.Path, 0):
		return tree.Change{}, proto.CodeBadArguments
	}
	acl, code := t.e.Access.Fix(r.ACL, t.ids)
	if code != proto.CodeOK {
		return tree.Change{}, code
	}
	above := tree.ParentPath(r.Path)
	parent := t.look(above)
	if !parent.exists {
		return tree.Change{}, proto.CodeNoNode
	}
	if !t.may(parent.acl, proto.PermCreate) {
		return tree.Change{}, proto.CodeNoAuth
	}
	path := r.Path
	if r.Mode.Sequential() {
		path += fmt.Sprintf("%010d", parent.cversion)
	}
	if !tree.ValidPath(path) {
		return tree.Change{}, proto.CodeBadArguments
	}
	if t.look(path).exists {
		return tree.Change{}, proto.CodeNodeExists
	}
	if t.e.Tree.Ephemeral(parent.owner) {
		return tree.Change{}, proto.CodeNoChildrenForEphemerals
	}
	if t.exceeds(path, 1, len(r.Data)) {
		return tree.Change{}, proto.CodeQuotaExceeded
	}
	c := tree.Change{
		Op: r.Op, Path: path, Data: r.Data, ACL: acl, Owner: t.owner(r),
		// Cversion wraps where the real one does.
		Cversion: parent.cversion + 1, Suffix: r.Mode.Sequential(),
	}
	parent.cversion, parent.children = c.Cversion, parent.children+1
	t.note(above, parent)
	t.note(path, view{exists: true, owner: c.Owner, size: len(r.Data), acl: acl})
	return c, proto.CodeOK
}

func (t *Txn) checkMode(r Create) proto.Code {
	switch {
	case !r.Mode.Valid(), r.Mode == proto.Container && t.e.NoContainers:
		return proto.CodeBadArguments
	case r.Mode.TTL() && !t.e.Extended:
		return proto.CodeUnimplemented
	case r.Mode.TTL() && (r.TTL < 1 || r.TTL > tree.MaxTTL), !r.Mode.TTL() && (r.TTL >= 0 || r.Op == proto.OpCreateTTL):
		return proto.CodeBadArguments
	case t.expired():
		return proto.CodeSessionExpired
	}
	return proto.CodeOK
}

// owner follows the op, not the flag: a plain create with the container flag creates a persistent node.
func (t *Txn) owner(r Create) int64 {
	switch {
	case r.Op == proto.OpCreateContainer:
		return tree.OwnerContainer
	case r.Op == proto.OpCreateTTL:
		return tree.OwnerWithTTL(r.TTL)
	case r.Mode.Ephemeral() && t.session != nil:
		return t.session.ID
	}
	return 0
}

// Delete checks a delete.
func (t *Txn) Delete(path string, version int32) (tree.Change, proto.Code) {
	if t.expired() {
		return tree.Change{}, proto.CodeSessionExpired
	}
	if code := Deletable(path); code != proto.CodeOK {
		return tree.Change{}, code
	}
	parent := t.look(tree.ParentPath(path))
	if !parent.exists {
		return tree.Change{}, proto.CodeNoNode
	}
	if !t.may(parent.acl, proto.PermDelete) {
		return tree.Change{}, proto.CodeNoAuth
	}
	n := t.look(path)
	switch {
	case !n.exists:
		return tree.Change{}, proto.CodeNoNode
	case version != -1 && version != n.version:
		return tree.Change{}, proto.CodeBadVersion
	case n.children > 0:
		return tree.Change{}, proto.CodeNotEmpty
	}
	parent.children--
	t.note(tree.ParentPath(path), parent)
	t.note(path, view{})
	return tree.Change{Op: proto.OpDelete, Path: path}, proto.CodeOK
}

// Deletable rejects paths that no client can delete. The real server breaks on null.
func Deletable(path string) proto.Code {
	switch {
	case path == proto.Null:
		return proto.CodeMarshallingError
	case !strings.Contains(path, "/"), strings.ContainsRune(path, 0), tree.Special(path):
		return proto.CodeBadArguments
	}
	return proto.CodeOK
}

// DeleteContainer checks a removal by the reaper. Like the real server, it does not check the counter again: a
// container that was recreated after the reaper chose it is removed although it was never used.
func (t *Txn) DeleteContainer(path string) (tree.Change, proto.Code) {
	n := t.look(path)
	switch {
	case !n.exists:
		return tree.Change{}, proto.CodeNoNode
	case n.children > 0:
		return tree.Change{}, proto.CodeNotEmpty
	case t.e.Tree.Ephemeral(n.owner):
		return tree.Change{}, proto.CodeBadVersion
	}
	return tree.Change{Op: proto.OpDelete, Path: path}, proto.CodeOK
}

// SetData checks a setData.
func (t *Txn) SetData(path string, data []byte, version int32) (tree.Change, proto.Code) {
	n, code := t.target(path, proto.PermWrite)
	if code != proto.CodeOK {
		return tree.Change{}, code
	}
	switch {
	case t.exceeds(path, 0, len(data)-n.size):
		return tree.Change{}, proto.CodeQuotaExceeded
	case version != -1 && version != n.version:
		return tree.Change{}, proto.CodeBadVersion
	}
	n.version, n.size = n.version+1, len(data)
	t.note(path, n)
	return tree.Change{Op: proto.OpSetData, Path: path, Data: data, Version: n.version}, proto.CodeOK
}

// Check checks the version of a node.
func (t *Txn) Check(path string, version int32) (tree.Change, proto.Code) {
	n, code := t.target(path, proto.PermRead)
	if code == proto.CodeOK && version != -1 && version != n.version {
		code = proto.CodeBadVersion
	}
	return tree.Change{Op: proto.OpCheck, Path: path}, code
}

// SetACL checks a setACL.
func (t *Txn) SetACL(path string, list []proto.ACL, aversion int32) (tree.Change, proto.Code) {
	if t.expired() {
		return tree.Change{}, proto.CodeSessionExpired
	}
	if !tree.ValidPath(path) {
		return tree.Change{}, proto.CodeBadArguments
	}
	acl, code := t.e.Access.Fix(list, t.ids)
	if code != proto.CodeOK {
		return tree.Change{}, code
	}
	n, code := t.target(path, proto.PermAdmin)
	if code != proto.CodeOK {
		return tree.Change{}, code
	}
	if aversion != -1 && aversion != n.aversion {
		return tree.Change{}, proto.CodeBadVersion
	}
	return tree.Change{Op: proto.OpSetACL, Path: path, ACL: acl, Version: n.aversion + 1}, proto.CodeOK
}

// target returns the node that is going to be read or written.
func (t *Txn) target(path string, perm int32) (view, proto.Code) {
	switch {
	case t.expired():
		return view{}, proto.CodeSessionExpired
	case !tree.ValidPath(path):
		return view{}, proto.CodeBadArguments
	}
	n := t.look(path)
	switch {
	case !n.exists:
		return view{}, proto.CodeNoNode
	case !t.may(n.acl, perm):
		return view{}, proto.CodeNoAuth
	}
	return n, proto.CodeOK
}

// Apply applies a change and sends its events, in the order of DataTree. It returns the node for the reply.
func (t *Txn) Apply(c tree.Change) *tree.Node {
	if c.Op == proto.OpCheck {
		return t.e.Tree.Get(c.Path)
	}
	at := tree.Stamp{Zxid: t.zxid, Millis: t.time.UnixMilli()}
	n := t.e.Tree.Apply(c, at)
	switch c.Op {
	case proto.OpDelete:
		if owner := t.e.Sessions[n.Owner]; owner != nil {
			owner.Ephemerals.Remove(c.Path)
		}
		t.e.ledger.deleted(n)
		t.did(proto.OpDelete, n)
	case proto.OpSetData:
		t.did(proto.OpSetData, n)
	case proto.OpSetACL:
		t.did(proto.OpSetACL, n)
	default:
		if t.e.Tree.Ephemeral(n.Owner) {
			t.session.Ephemerals.Add(n.Path)
		}
		suffix := int64(math.MinInt64)
		if c.Suffix {
			suffix = int64(c.Cversion - 1)
		}
		t.e.ledger.created(n, suffix)
		t.did(proto.OpCreate, n)
	}
	for _, f := range t.e.Fronts {
		f.see(c, n, at)
	}
	return n
}

func (t *Txn) did(op proto.Op, n *tree.Node) {
	t.done = append(t.done, Effect{op, n.Path, n.Owner})
}
