// Package ephemeral creates and removes ephemeral nodes without leaving any behind, and permanent ones
// ([Parent.Lasting]) in the same way (create.go). If the reply to a create is lost, the node is found by the GUID in
// its name (search.go). If the caller has given up, its node is removed. A removal continues until it is done or the
// session has ended (node.go).
package ephemeral

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/client"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// Parent is the node under which the nodes are created.
type Parent struct {
	Client *client.Client
	Path   string
	// Whether a missing parent is created as a plain node rather than as a container.
	Plain     bool
	Seed      []byte // the data of a plain parent when it is created
	MustExist bool   // a missing parent is not created
	// The nodes below belong to the caller: they have this ACL, unless it is empty, and remain when the session ends if
	// Lasting is set.
	ACL     []zk.ACL
	Lasting bool
}

// owner returns the ephemeral owner of the nodes that s creates.
func (p *Parent) owner(s *session.Session) int64 {
	if p.Lasting {
		return 0
	}
	return s.ID()
}

// Child returns the path of a child. The parent may be "/", like the root of a client made by Sub.
func (p *Parent) Child(name string) string { return strings.TrimSuffix(p.Path, "/") + "/" + name }

// make creates the missing parent, and everything missing above it. It returns the containers that it has created.
func (p *Parent) make(ctx context.Context, s *session.Session) (made []string, err error) {
	if p.Plain {
		return nil, s.Ensure(ctx, p.Path, p.Seed)
	}
	return s.TryContainers(ctx, p.Path)
}

const lengthOfGUID = 36

// NewGUID returns a random UUID, version 4, formatted like Java's.
func NewGUID() string {
	guid := newGUID()
	return string(guid[:])
}

func newGUID() (guid [lengthOfGUID]byte) {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	text := guid[:0]
	for i, part := range b {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			text = append(text, '-')
		}
		text = hex.AppendEncode(text, []byte{part})
	}
	return guid
}

const prefix = "_c_"

// Prefix returns the beginning of a node's name. The node is found again by the GUID in it.
func Prefix(guid string) string { return prefix + guid + "-" }

// ErrGone means that the caller must start again with another create, because one of its nodes was deleted, by hand or
// with its parent, or is not the only copy.
var ErrGone = errors.New("the node was deleted")
