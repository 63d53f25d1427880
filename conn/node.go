package conn

import (
	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
)

// Node is a view of a node, or of a path that has none; see [Client.Watch].
type Node struct {
	// Data and Stat are the node's, if it exists.
	Data []byte
	Stat zk.Stat
	// Exists reports whether the node exists.
	Exists bool
	zkrecipes.Freshness
}
