package conn

import (
	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
)

// Node is a view of a node, or of a path where there is none; see [Client.Watch].
type Node struct {
	// Data and Stat are those of the node, if it exists.
	Data []byte
	Stat zk.Stat
	// Exists reports whether the node exists.
	Exists bool
	zkrecipes.Freshness
}
