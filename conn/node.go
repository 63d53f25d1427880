package conn

import (
	"time"

	"github.com/go-zookeeper/zk"
)

// Node is a view of a node, or of a path where there is none; see [Client.Follow].
type Node struct {
	// Data and Stat are those of the node, if there is one.
	Data []byte
	Stat zk.Stat
	// Exists says that there is a node.
	Exists bool
	// Current says that the client is connected and will be told of the next change. If it is false, the node may have
	// changed since AsOf.
	Current bool
	// AsOf is the local time of the newest request whose answer agrees with this view.
	AsOf time.Time
}
