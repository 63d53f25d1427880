package conn

import "github.com/go-zookeeper/zk"

// The modes of [Client.Create], [Session.Create] and [zkrecipes.OpCreate]. They equal the flags of go-zookeeper, which
// may be passed instead.
const (
	// Persistent is a node that stays until a client deletes it.
	Persistent int32 = 0
	// PersistentSequential is a persistent node whose name the server completes with an increasing number.
	PersistentSequential int32 = zk.FlagSequence
	// Ephemeral is a node that is deleted with the session that created it. It cannot have children.
	Ephemeral int32 = zk.FlagEphemeral
	// EphemeralSequential is an ephemeral node whose name the server completes with an increasing number.
	EphemeralSequential int32 = zk.FlagEphemeral | zk.FlagSequence
	// Container is a node that the server deletes some time after its last child. A transaction cannot create it.
	Container int32 = zk.FlagContainer
)
