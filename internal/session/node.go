package session

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"
)

// Node is what a server knows about a path.
type Node struct {
	Data   []byte
	Stat   zk.Stat
	Exists bool
}

// Same reports whether both are the same node with the same data. A node that was deleted and recreated is a different
// one.
func (n Node) Same(m Node) bool {
	return n.Exists == m.Exists && n.Stat.Czxid == m.Stat.Czxid && n.Stat.Mzxid == m.Stat.Mzxid
}

// NodeW reads a node that may be missing. Only if it is missing does NodeW set a watch that the server keeps until the
// node is created.
func (s *Session) NodeW(ctx context.Context, path string) (Node, *Watch, error) {
	for {
		data, stat, w, err := s.GetW(ctx, path)
		if !errors.Is(err, zk.ErrNoNode) {
			return Node{data, stat, err == nil}, w, err
		}
		exists, _, w, err := s.ExistsW(ctx, path)
		if !exists {
			return Node{}, w, err // including that of the exists
		}
		s.Unwatch(w) // it was created between the two
	}
}
