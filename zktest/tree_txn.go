package zktest

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/zkrecipes/zkrecipes/zktest/internal/access"
	"github.com/zkrecipes/zkrecipes/zktest/internal/proto"
	"github.com/zkrecipes/zkrecipes/zktest/internal/tree"
)

// view is a node as the checks of a transaction see it: in a multi, as the operations before would leave it.
type view struct {
	exists                      bool
	version, cversion, aversion int32
	owner                       int64
	children                    int
	size                        int // of the data
	acl                         []proto.ACL
}

// txn checks and applies one write. The checks come first, change nothing, and follow the order of the real server: a
// request that is wrong in two ways must get the same answer from both. Applying cannot fail.
//
// Source: PrepRequestProcessor.pRequest2Txn for the checks, DataTree for what follows.
type txn struct {
	s       *Server
	zxid    int64
	time    time.Time
	session *session // nil for the server itself
	ids     []access.Identity
	shadow  map[string]view // decisions of earlier operations of a multi; nil outside of one
	done    []Change
}

// begin takes a zxid: every write does, even one that fails.
func (s *Server) begin(ses *session, ids []access.Identity) *txn {
	s.zxid++
	return &txn{s: s, zxid: s.zxid, time: time.Now(), session: ses, ids: ids}
}

func (t *txn) look(path string) view {
	if path == "" {
		path = "/"
	}
	if v, ok := t.shadow[path]; ok {
		return v
	}
	n := t.s.tree.Get(path)
	if n == nil {
		return view{}
	}
	return view{
		exists: true, version: n.Version, cversion: n.Cversion, aversion: n.Aversion,
		owner: n.Owner, children: n.Children.Len(), size: len(n.Data), acl: n.ACL,
	}
}

// note records a decision for the later operations of the same multi.
func (t *txn) note(path string, v view) {
	if t.shadow == nil {
		return
	}
	if path == "" {
		path = "/"
	}
	t.shadow[path] = v
}

func (t *txn) exceeds(path string, nodes, size int) bool {
	return t.s.cfg.quotas && t.s.tree.Exceeds(path, int64(nodes), int64(size))
}

func (t *txn) may(acl []proto.ACL, perm int32) bool { return t.s.cfg.access.Allowed(acl, perm, t.ids) }

func (t *txn) expired() bool { return t.session != nil && t.session.closing }

// createSpec is a create as it came in.
type createSpec struct {
	op   proto.Op
	path string
	data []byte
	acl  []proto.ACL
	mode proto.Mode
	ttl  int64
}

func (t *txn) create(r createSpec) (tree.Change, proto.Code) {
	if code := t.checkMode(r); code != proto.CodeOK {
		return tree.Change{}, code
	}
	switch {
	case r.path == proto.Null: // the real server breaks on it
		return tree.Change{}, proto.CodeMarshallingError
	case !strings.Contains(r.path, "/"), strings.ContainsRune(r.path, 0):
		return tree.Change{}, proto.CodeBadArguments
	}
	acl, code := t.s.cfg.access.Fix(r.acl, t.ids)
	if code != proto.CodeOK {
		return tree.Change{}, code
	}
	above := tree.ParentPath(r.path)
	parent := t.look(above)
	if !parent.exists {
		return tree.Change{}, proto.CodeNoNode
	}
	if !t.may(parent.acl, proto.PermCreate) {
		return tree.Change{}, proto.CodeNoAuth
	}
	path := r.path
	if r.mode.Sequential() {
		path += fmt.Sprintf("%010d", parent.cversion)
	}
	if !tree.ValidPath(path) {
		return tree.Change{}, proto.CodeBadArguments
	}
	if t.look(path).exists {
		return tree.Change{}, proto.CodeNodeExists
	}
	if t.s.tree.Ephemeral(parent.owner) {
		return tree.Change{}, proto.CodeNoChildrenForEphemerals
	}
	if t.exceeds(path, 1, len(r.data)) {
		return tree.Change{}, proto.CodeQuotaExceeded
	}
	c := tree.Change{
		Op: r.op, Path: path, Data: r.data, ACL: acl, Owner: t.owner(r),
		Cversion: parent.cversion + 1, Suffix: r.mode.Sequential(), // wraps where the real one does
	}
	parent.cversion, parent.children = c.Cversion, parent.children+1
	t.note(above, parent)
	t.note(path, view{exists: true, owner: c.Owner, size: len(r.data), acl: acl})
	return c, proto.CodeOK
}

func (t *txn) checkMode(r createSpec) proto.Code {
	switch {
	case !r.mode.Valid(), r.mode == proto.Container && t.s.cfg.noContainers:
		return proto.CodeBadArguments
	case r.mode.TTL() && !t.s.cfg.extended:
		return proto.CodeUnimplemented
	case r.mode.TTL() && (r.ttl < 1 || r.ttl > tree.MaxTTL), !r.mode.TTL() && r.ttl >= 0:
		return proto.CodeBadArguments
	case t.expired():
		return proto.CodeSessionExpired
	}
	return proto.CodeOK
}

// owner follows the op, not the flag: a plain create with the container flag makes a persistent node.
func (t *txn) owner(r createSpec) int64 {
	switch {
	case r.op == proto.OpCreateContainer:
		return tree.OwnerContainer
	case r.op == proto.OpCreateTTL:
		return tree.OwnerWithTTL(r.ttl)
	case r.mode.Ephemeral() && t.session != nil:
		return t.session.id
	}
	return 0
}

func (t *txn) delete(path string, version int32) (tree.Change, proto.Code) {
	if t.expired() {
		return tree.Change{}, proto.CodeSessionExpired
	}
	if code := deletable(path); code != proto.CodeOK {
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

// deletable refuses paths that no client can delete. The real server breaks on null.
func deletable(path string) proto.Code {
	switch {
	case path == proto.Null:
		return proto.CodeMarshallingError
	case !strings.Contains(path, "/"), strings.ContainsRune(path, 0), tree.Special(path):
		return proto.CodeBadArguments
	}
	return proto.CodeOK
}

// deleteContainer checks a removal by the reaper. Like the real server it does not look at the counter again. A
// container that was made anew since the reaper chose it is removed although it was never used.
func (t *txn) deleteContainer(path string) (tree.Change, proto.Code) {
	n := t.look(path)
	switch {
	case !n.exists:
		return tree.Change{}, proto.CodeNoNode
	case n.children > 0:
		return tree.Change{}, proto.CodeNotEmpty
	case t.s.tree.Ephemeral(n.owner):
		return tree.Change{}, proto.CodeBadVersion
	}
	return tree.Change{Op: proto.OpDelete, Path: path}, proto.CodeOK
}

func (t *txn) setData(path string, data []byte, version int32) (tree.Change, proto.Code) {
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

func (t *txn) check(path string, version int32) (tree.Change, proto.Code) {
	n, code := t.target(path, proto.PermRead)
	if code == proto.CodeOK && version != -1 && version != n.version {
		code = proto.CodeBadVersion
	}
	return tree.Change{Op: proto.OpCheck, Path: path}, code
}

func (t *txn) setACL(path string, list []proto.ACL, aversion int32) (tree.Change, proto.Code) {
	if t.expired() {
		return tree.Change{}, proto.CodeSessionExpired
	}
	if !tree.ValidPath(path) {
		return tree.Change{}, proto.CodeBadArguments
	}
	acl, code := t.s.cfg.access.Fix(list, t.ids)
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

// target finds a node that is to be read or written.
func (t *txn) target(path string, perm int32) (view, proto.Code) {
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

// apply applies a change and sends its events, in the order of DataTree. It returns the node for the reply.
func (t *txn) apply(c tree.Change) *tree.Node {
	if c.Op == proto.OpCheck {
		return t.s.tree.Get(c.Path)
	}
	at := tree.Stamp{Zxid: t.zxid, Millis: t.time.UnixMilli()}
	n := t.s.tree.Apply(c, at)
	switch c.Op {
	case proto.OpDelete:
		if owner := t.s.sessions[n.Owner]; owner != nil {
			owner.ephemerals.Remove(c.Path)
		}
		t.s.ledger.deleted(n)
		t.did(ChangeDelete, n)
	case proto.OpSetData:
		t.did(ChangeSet, n)
	case proto.OpSetACL:
		t.did(ChangeACL, n)
	default:
		if t.s.tree.Ephemeral(n.Owner) {
			t.session.ephemerals.Add(n.Path)
		}
		suffix := int64(math.MinInt64)
		if c.Suffix {
			suffix = int64(c.Cversion - 1)
		}
		t.s.ledger.created(n, suffix)
		t.did(ChangeCreate, n)
	}
	for _, f := range t.s.fronts {
		f.see(c, n, at)
	}
	return n
}

func (t *txn) did(kind ChangeKind, n *tree.Node) {
	t.done = append(t.done, Change{Kind: kind, Path: n.Path, Owner: n.Owner})
}
