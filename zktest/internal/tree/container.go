package tree

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// The owner field of a node also encodes that it is a container or has a time to live. Source: EphemeralType.
const (
	OwnerContainer = math.MinInt64
	ownerTTLMask   = -1 << 56
)

// MaxTTL is the longest time to live, in milliseconds.
const MaxTTL = 1<<40 - 1

// OwnerWithTTL returns the owner field of a node with a time to live, in milliseconds.
func OwnerWithTTL(ms int64) int64 { return ownerTTLMask | ms }

// Ephemeral reports whether the owner field names a session.
func (t *Tree) Ephemeral(owner int64) bool {
	return owner != 0 && owner != OwnerContainer && !t.hasTTL(owner)
}

func (t *Tree) hasTTL(owner int64) bool { return t.extended && owner&ownerTTLMask == ownerTTLMask }

// Lifetime returns the time to live of a node, or 0 if it has none.
func (t *Tree) Lifetime(n *Node) time.Duration {
	if !t.hasTTL(n.Owner) {
		return 0
	}
	return time.Duration(n.Owner&^ownerTTLMask) * time.Millisecond
}

// Reapable returns the empty containers and the nodes whose time to live is over, oldest first. A container that never
// had a child stays, or is returned once it is older than neverUsed, if that is not 0.
func (t *Tree) Reapable(now time.Time, neverUsed time.Duration) []string {
	var list []*Node
	for n := range t.containers {
		age := time.Duration(now.UnixMilli()-n.Mtime) * time.Millisecond
		switch {
		case n.Children.Len() > 0:
		case n.Owner != OwnerContainer:
			if age > t.Lifetime(n) {
				list = append(list, n)
			}
		case n.Cversion > 0, neverUsed > 0 && age > neverUsed:
			list = append(list, n)
		}
	}
	slices.SortFunc(list, func(a, b *Node) int { return cmp.Compare(a.Czxid, b.Czxid) })
	paths := make([]string, len(list))
	for i, n := range list {
		paths[i] = n.Path
	}
	return paths
}
