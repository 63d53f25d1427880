package zkrecipes

import (
	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/root"
)

// Op is one operation of a transaction; see [Hold.Txn] and conn.Client.Multi. Create one with [OpCreate], [OpSet],
// [OpDelete] or [OpCheck], or from a value or counter of recipes/value. An Op is plain data: creating one sends no
// request, and you can use it more than once.
type Op struct {
	Kind OpKind
	// Path of the node, relative to the root of the client that sends the transaction.
	Path string
	// Data of a create or a set.
	Data []byte
	// Version is the data version that a set, delete or check requires; -1 matches any version.
	Version int32
	// Exact means that Version was read from the node, so that -1 is a version like any other instead of a wildcard.
	// Because versions wrap, a node can actually have it. Servers cannot check for version -1, so a check for it is
	// rejected before sending any request.
	Exact bool
	// Flags and ACL apply to a create. If ACL is empty, the node gets the client's.
	Flags int32
	ACL   []zk.ACL
	// Root, unless it is zero, is the root that Path is relative to; a client with a different root rejects the
	// transaction. An Op created by a recipe has the root of the recipe's client.
	Root Root
}

// OpKind is the kind of an [Op], as it appears in errors.
type OpKind string

// The kinds.
const (
	KindCreate OpKind = "create"
	KindSet    OpKind = "set"
	KindDelete OpKind = "delete"
	KindCheck  OpKind = "check"
)

// Root identifies where a client's paths begin: its connection, and the node that it calls "/". Two clients have equal
// roots if both use the same connection and the same node. Only recipes create roots.
type Root root.Root

// String names the servers, the node and the session, as errors do; empty for the zero Root.
func (r Root) String() string { return root.Root(r).String() }

// OpCreate creates a node. Flags are a mode of package conn, such as conn.Ephemeral, or the flags of go-zookeeper,
// except those for containers and nodes with a time to live, which a transaction cannot create. Without an ACL, the
// node gets the client's. Missing parents are not created.
func OpCreate(path string, data []byte, flags int32, acl ...zk.ACL) Op {
	return Op{Kind: KindCreate, Path: path, Data: data, Flags: flags, ACL: acl}
}

// OpSet replaces a node's data if the node has the given version; -1 matches any version.
func OpSet(path string, data []byte, version int32) Op {
	return Op{Kind: KindSet, Path: path, Data: data, Version: version}
}

// OpDelete deletes a node if the node has the given version; -1 matches any version.
func OpDelete(path string, version int32) Op {
	return Op{Kind: KindDelete, Path: path, Version: version}
}

// OpCheck has no effect of its own, but makes the transaction fail unless the node exists and has the given version; -1
// matches any version.
func OpCheck(path string, version int32) Op { return Op{Kind: KindCheck, Path: path, Version: version} }

// OpResult is the result of the [Op] at the same index.
type OpResult struct {
	// Path of the node. For a new sequential node it includes the sequence number.
	Path string
	// Stat of the node after a set. It is zero for the other kinds, for which servers return none.
	Stat zk.Stat
}
