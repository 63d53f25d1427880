package ephemeral

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/session"
)

// find searches for what was created with the GUID. If it returns nil and no error, no node with that GUID is ours.
//
// The barrier, a transaction without effect, makes the read newer than any create whose reply is lost, so each has been
// applied or never will be: on the same server the create precedes the barrier, and a create that was sent through
// another server is refused by the leader, because the session has moved. A sync would not suffice: the leader that
// answers it may have been replaced by the one that has the create. There is one exception: a server may stall with the
// create and resume the session later, when a search has already found nothing; see sweep.
func (p *Parent) find(ctx context.Context, s *session.Session, guid string) (*Node, error) {
	defer s.Retain()() // see Node.Remove; the caller may have given up
	if err := s.Barrier(ctx); err != nil {
		return nil, err
	}
	children, err := s.Children(ctx, p.Path)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil //nolint:nilnil // no node, and no error
	}
	if err != nil {
		return nil, err
	}
	var paths []string
	var zxid int64
	for _, name := range children {
		if !strings.HasPrefix(name, Prefix(guid)) {
			continue
		}
		path := p.Child(name)
		exists, stat, err := s.Exists(ctx, path)
		switch {
		case err != nil:
			return nil, err
		case exists && stat.EphemeralOwner == p.owner(s):
			paths, zxid = append(paths, path), stat.Czxid
		case exists:
			p.Client.Logger().Warn("zookeeper: a node with our GUID belongs to another session and is left alone", "path", path)
		}
	}
	if len(paths) == 0 {
		return nil, nil //nolint:nilnil // as above
	}
	if !p.Lasting {
		s.Found(p.Child(Prefix(guid)), paths...)
	}
	// They differ only in their numbers, and the first node must come first.
	slices.Sort(paths)
	return p.newNode(s, paths, zxid), nil
}

// sweep removes whatever exists with the GUID, repeatedly, until a search finds nothing. A create that was sent again
// may have created two nodes after all, the first of them late (ZOOKEEPER-710 is about such servers). A late node
// behind the one that counts does no harm while the latter exists, but must not outlive it. If the late one is ahead,
// neither counts; see [Node.IsCopy]. One that arrives after the last search stays until the session ends.
func (p *Parent) sweep(ctx context.Context, s *session.Session, guid string) {
	var found []string
	p.untilDone(ctx, func() error {
		for {
			n, err := p.find(ctx, s, guid)
			if err == nil && n == nil {
				s.Settled(p.Child(Prefix(guid)), found...)
			}
			if err != nil || n == nil {
				return err
			}
			found = append(found, n.Paths...)
			if err := n.delete(ctx); err != nil {
				return err
			}
		}
	})
}
