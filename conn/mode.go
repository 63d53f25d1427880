package conn

import "github.com/go-zookeeper/zk"

// The modes of [Client.Create], [Session.Create] and [zkrecipes.OpCreate]. Each is the flags of go-zookeeper for the same node, which
// may be passed instead.
const (
	// Persistent is a node that stays until a client deletes it.
	Persistent int32 = 0
	// PersistentSequential is a node whose name the server ends with a number that grows.
	PersistentSequential int32 = zk.FlagSequence
	// Ephemeral is a node that goes with the session that made it. It has no children.
	Ephemeral int32 = zk.FlagEphemeral
	// EphemeralSequential is both.
	EphemeralSequential int32 = zk.FlagEphemeral | zk.FlagSequence
	// Container is a node that the server deletes some time after its last child. A transaction cannot create it.
	Container int32 = zk.FlagContainer
)
