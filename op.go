package zkrecipes

import "github.com/go-zookeeper/zk"

// Op is one operation of a transaction: see [Hold.Txn] and conn.Client.Multi. [OpCreate], [OpSet], [OpDelete] and [OpCheck] make
// one, and so do the values and counters of recipes/value. An Op is plain data: to make one sends nothing, and it may be used
// several times.
type Op struct {
	Kind OpKind
	// Path of the node, below the root of the client that sends the transaction.
	Path string
	// Data are those of a create or a set.
	Data []byte
	// Version is the data version that a set, a delete or a check wants; -1 is any.
	Version int32
	// Exact says that Version was read, so that -1 is a version like others, and not any. Versions wrap, so a node may have it. A check for it
	// is refused before any request, because servers have none.
	Exact bool
	// Flags are those of a create, and ACL is its access list; an empty one is the client's.
	Flags int32
	ACL   []zk.ACL
	// Root, if it is not nil, is the only root under which Path means this node. A client with another root refuses the
	// transaction. An Op of a recipe has the root of the recipe's client.
	Root Root
}

// OpKind says what an [Op] does, as errors name it.
type OpKind string

// The kinds.
const (
	KindCreate OpKind = "create"
	KindSet    OpKind = "set"
	KindDelete OpKind = "delete"
	KindCheck  OpKind = "check"
)

// Root is where the paths of a client begin: its connection, and the node that it calls "/". Two roots are the same if they are
// equal. String names the root in errors.
type Root interface{ String() string }

// OpCreate makes a node. Flags are those of go-zookeeper, without those for a container or a time to live, which a transaction
// cannot make. Without an ACL the node takes the client's. Parents are not made.
func OpCreate(path string, data []byte, flags int32, acl ...zk.ACL) Op {
	return Op{Kind: KindCreate, Path: path, Data: data, Flags: flags, ACL: acl}
}

// OpSet replaces the data of a node if its version is the given one; -1 is any.
func OpSet(path string, data []byte, version int32) Op {
	return Op{Kind: KindSet, Path: path, Data: data, Version: version}
}

// OpDelete removes a node if its version is the given one; -1 is any.
func OpDelete(path string, version int32) Op {
	return Op{Kind: KindDelete, Path: path, Version: version}
}

// OpCheck changes nothing. The transaction fails unless the node exists and has the given version; -1 is any.
func OpCheck(path string, version int32) Op { return Op{Kind: KindCheck, Path: path, Version: version} }

// OpResult is what the [Op] at the same index has done.
type OpResult struct {
	// Path of the node. That of a new sequential node ends in its number.
	Path string
	// Stat of the node after a set. It is zero after the other kinds, of which servers tell none.
	Stat zk.Stat
}
