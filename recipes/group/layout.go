package group

import (
	"crypto/rand"
	"fmt"
	"strings"
)

// Layout is how members are laid out in ZooKeeper.
type Layout int

// The supported layouts.
const (
	// Curator is the layout of Curator's GroupMember: a node's name is the member's ID, and its data is the payload. IDs
	// are unique.
	Curator Layout = iota
	// KazooParty is the layout of kazoo's Party: a node has a random name and holds the member's ID as its data. Several
	// members may share an ID, and they have no payloads.
	KazooParty
	// KazooShallowParty is the layout of kazoo's ShallowParty: a node has a random name that ends in the member's ID.
	// Several members may share an ID, and they have no payloads.
	KazooShallowParty
)

const party = "__party__"

// node returns the name and the data of a new member's node.
func (l Layout) node(id string, data []byte) (name string, payload []byte) {
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails
	switch l {
	case KazooParty:
		return fmt.Sprintf("%x", random) + party, []byte(id)
	case KazooShallowParty:
		return fmt.Sprintf("%x-%s", random, id), []byte(id)
	default:
		return id, data
	}
}

// isMember reports whether a child with this name is a member.
func (l Layout) isMember(name string) bool { return l != KazooParty || strings.Contains(name, party) }

// id returns the ID of the member whose node has this name and data.
func (l Layout) id(name string, data []byte) string {
	switch l {
	case KazooParty:
		return string(data)
	case KazooShallowParty:
		return name[strings.IndexByte(name, '-')+1:] // as in kazoo, even without a hyphen
	default:
		return name
	}
}
