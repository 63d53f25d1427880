package zktest

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/zkrecipes/zkrecipes/zktest/internal/access"
	"github.com/zkrecipes/zkrecipes/zktest/internal/proto"
)

// change is one effect of a transaction on the tree. All effects are decided before the first is applied.
type change struct {
	op       proto.Op // of the reply: create, create2, createContainer, createTTL, delete, setData, setACL or check
	path     string
	data     []byte
	acl      []proto.ACL
	owner    int64
	version  int32 // the new one of what changes
	cversion int32 // the new one of the parent
	suffix   bool  // the path ends in a number out of the parent's cversion
}

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
	n := t.s.tree.get(path)
	if n == nil {
		return view{}
	}
	return view{
		exists: true, version: n.version, cversion: n.cversion, aversion: n.aversion,
		owner: n.owner, children: n.children.Len(), size: len(n.data), acl: n.acl,
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
	return t.s.cfg.quotas && t.s.tree.exceeds(path, int64(nodes), int64(size))
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

func (t *txn) create(r createSpec) (change, proto.Code) {
	if code := t.checkMode(r); code != proto.CodeOK {
		return change{}, code
	}
	switch {
	case r.path == proto.Null: // the real server breaks on it
		return change{}, proto.CodeMarshallingError
	case !strings.Contains(r.path, "/"), strings.ContainsRune(r.path, 0):
		return change{}, proto.CodeBadArguments
	}
	acl, code := t.s.cfg.access.Fix(r.acl, t.ids)
	if code != proto.CodeOK {
		return change{}, code
	}
	above := parentPath(r.path)
	parent := t.look(above)
	if !parent.exists {
		return change{}, proto.CodeNoNode
	}
	if !t.may(parent.acl, proto.PermCreate) {
		return change{}, proto.CodeNoAuth
	}
	path := r.path
	if r.mode.Sequential() {
		path += fmt.Sprintf("%010d", parent.cversion)
	}
	if !validPath(path) {
		return change{}, proto.CodeBadArguments
	}
	if t.look(path).exists {
		return change{}, proto.CodeNodeExists
	}
	if t.s.tree.ephemeral(parent.owner) {
		return change{}, proto.CodeNoChildrenForEphemerals
	}
	if t.exceeds(path, 1, len(r.data)) {
		return change{}, proto.CodeQuotaExceeded
	}
	c := change{
		op: r.op, path: path, data: r.data, acl: acl, owner: t.owner(r),
		cversion: parent.cversion + 1, suffix: r.mode.Sequential(), // wraps where the real one does
	}
	parent.cversion, parent.children = c.cversion, parent.children+1
	t.note(above, parent)
	t.note(path, view{exists: true, owner: c.owner, size: len(r.data), acl: acl})
	return c, proto.CodeOK
}

func (t *txn) checkMode(r createSpec) proto.Code {
	switch {
	case !r.mode.Valid(), r.mode == proto.Container && t.s.cfg.noContainers:
		return proto.CodeBadArguments
	case r.mode.TTL() && !t.s.cfg.extended:
		return proto.CodeUnimplemented
	case r.mode.TTL() && (r.ttl < 1 || r.ttl > maxTTL), !r.mode.TTL() && r.ttl >= 0:
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
		return ownerContainer
	case r.op == proto.OpCreateTTL:
		return ownerTTLMask | r.ttl
	case r.mode.Ephemeral() && t.session != nil:
		return t.session.id
	}
	return 0
}

func (t *txn) delete(path string, version int32) (change, proto.Code) {
	if t.expired() {
		return change{}, proto.CodeSessionExpired
	}
	if code := deletable(path); code != proto.CodeOK {
		return change{}, code
	}
	parent := t.look(parentPath(path))
	if !parent.exists {
		return change{}, proto.CodeNoNode
	}
	if !t.may(parent.acl, proto.PermDelete) {
		return change{}, proto.CodeNoAuth
	}
	n := t.look(path)
	switch {
	case !n.exists:
		return change{}, proto.CodeNoNode
	case version != -1 && version != n.version:
		return change{}, proto.CodeBadVersion
	case n.children > 0:
		return change{}, proto.CodeNotEmpty
	}
	parent.children--
	t.note(parentPath(path), parent)
	t.note(path, view{})
	return change{op: proto.OpDelete, path: path}, proto.CodeOK
}

// deletable refuses paths that no client can delete. The real server breaks on null.
func deletable(path string) proto.Code {
	switch {
	case path == proto.Null:
		return proto.CodeMarshallingError
	case !strings.Contains(path, "/"), strings.ContainsRune(path, 0), special(path):
		return proto.CodeBadArguments
	}
	return proto.CodeOK
}

// deleteContainer checks a removal by the reaper. Like the real server it does not look at the counter again. A
// container that was made anew since the reaper chose it is removed although it was never used.
func (t *txn) deleteContainer(path string) (change, proto.Code) {
	n := t.look(path)
	switch {
	case !n.exists:
		return change{}, proto.CodeNoNode
	case n.children > 0:
		return change{}, proto.CodeNotEmpty
	case t.s.tree.ephemeral(n.owner):
		return change{}, proto.CodeBadVersion
	}
	return change{op: proto.OpDelete, path: path}, proto.CodeOK
}

func (t *txn) setData(path string, data []byte, version int32) (change, proto.Code) {
	n, code := t.target(path, proto.PermWrite)
	if code != proto.CodeOK {
		return change{}, code
	}
	switch {
	case t.exceeds(path, 0, len(data)-n.size):
		return change{}, proto.CodeQuotaExceeded
	case version != -1 && version != n.version:
		return change{}, proto.CodeBadVersion
	}
	n.version, n.size = n.version+1, len(data)
	t.note(path, n)
	return change{op: proto.OpSetData, path: path, data: data, version: n.version}, proto.CodeOK
}

func (t *txn) check(path string, version int32) (change, proto.Code) {
	n, code := t.target(path, proto.PermRead)
	if code == proto.CodeOK && version != -1 && version != n.version {
		code = proto.CodeBadVersion
	}
	return change{op: proto.OpCheck, path: path}, code
}

func (t *txn) setACL(path string, list []proto.ACL, aversion int32) (change, proto.Code) {
	if t.expired() {
		return change{}, proto.CodeSessionExpired
	}
	if !validPath(path) {
		return change{}, proto.CodeBadArguments
	}
	acl, code := t.s.cfg.access.Fix(list, t.ids)
	if code != proto.CodeOK {
		return change{}, code
	}
	n, code := t.target(path, proto.PermAdmin)
	if code != proto.CodeOK {
		return change{}, code
	}
	if aversion != -1 && aversion != n.aversion {
		return change{}, proto.CodeBadVersion
	}
	return change{op: proto.OpSetACL, path: path, acl: acl, version: n.aversion + 1}, proto.CodeOK
}

// target finds a node that is to be read or written.
func (t *txn) target(path string, perm int32) (view, proto.Code) {
	switch {
	case t.expired():
		return view{}, proto.CodeSessionExpired
	case !validPath(path):
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
func (t *txn) apply(c change) *node {
	if c.op == proto.OpCheck {
		return t.s.tree.get(c.path)
	}
	at := stamp{t.zxid, t.time.UnixMilli()}
	n := t.s.tree.apply(c, at)
	switch c.op {
	case proto.OpDelete:
		if owner := t.s.sessions[n.owner]; owner != nil {
			owner.ephemerals.Remove(c.path)
		}
		t.s.ledger.deleted(n)
		t.did(ChangeDelete, n)
	case proto.OpSetData:
		t.did(ChangeSet, n)
	case proto.OpSetACL:
		t.did(ChangeACL, n)
	default:
		if t.s.tree.ephemeral(n.owner) {
			t.session.ephemerals.Add(n.path)
		}
		suffix := int64(math.MinInt64)
		if c.suffix {
			suffix = int64(c.cversion - 1)
		}
		t.s.ledger.created(n, suffix)
		t.did(ChangeCreate, n)
	}
	for _, f := range t.s.fronts {
		f.see(c, n, at)
	}
	return n
}

func (t *txn) did(kind ChangeKind, n *node) {
	t.done = append(t.done, Change{Kind: kind, Path: n.path, Owner: n.owner})
}
