// Package ephemeral creates and removes ephemeral nodes, so that none is left behind. If the reply to a create is
// lost, the node is found by the GUID in its name. If the caller has given up, its node is removed. A removal
// continues until it is done, or the session is over.
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

// Parent is the node under which the nodes are made.
type Parent struct {
	Client *client.Client
	Path   string
	Plain  bool   // if it is missing, it is made as a plain node; otherwise as a container
	Seed   []byte // the data of a plain one that is made
	Given  bool   // if it is missing, it is not made
	// The nodes below are a caller's of its own: they have this access list, unless it is empty, and may stay when the
	// session ends.
	ACL     []zk.ACL
	Lasting bool
}

// owner returns the ephemeral owner of the nodes that s makes.
func (p *Parent) owner(s *session.Session) int64 {
	if p.Lasting {
		return 0
	}
	return s.ID()
}

// Child returns the path of a child. The parent may be "/", as the root of a client made by Sub.
func (p *Parent) Child(name string) string { return strings.TrimSuffix(p.Path, "/") + "/" + name }

// make creates the parent, which is missing, and everything missing above it. It returns the containers that it has
// created.
func (p *Parent) make(ctx context.Context, s *session.Session) (made []string, err error) {
	if p.Plain {
		return nil, s.Ensure(ctx, p.Path, p.Seed)
	}
	return s.TryContainers(ctx, p.Path)
}

// NewGUID returns a random UUID, version 4, as Java writes it.
func NewGUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	guid := make([]byte, 0, len(anyGUID))
	for i, part := range b {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			guid = append(guid, '-')
		}
		guid = hex.AppendEncode(guid, []byte{part})
	}
	return string(guid)
}

const prefix = "_c_"

// Prefix returns what a name begins with. The GUID is how the node is found again.
func Prefix(guid string) string { return prefix + guid + "-" }

// ErrGone reports that one of our nodes was deleted, by hand or with its parent.
var ErrGone = errors.New("the node was deleted")
