package ephemeral

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/outcome"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// Spec describes what to create, all in one transaction.
type Spec struct {
	Kind    string // the part of the names between the GUID and the key
	Data    []byte
	Key     string   // if empty, the server appends a sequence number
	Count   int      // 0 means one
	Instead []string // nodes to delete in the same transaction
}

func (want Spec) count() int { return max(want.Count, 1) }

func (p *Parent) flags(want Spec) (flags int32) {
	if want.Key == "" {
		flags |= zk.FlagSequence
	}
	if !p.Lasting {
		flags |= zk.FlagEphemeral
	}
	return flags
}

// path returns the path to create, and the GUID in it.
func (p *Parent) path(want Spec, guid [lengthOfGUID]byte) (path, inPath string) {
	parent := strings.TrimSuffix(p.Path, "/")
	path = parent + "/" + prefix + string(guid[:]) + "-" + want.Kind + want.Key // one allocation
	return path, path[len(parent)+1+len(prefix):][:lengthOfGUID]
}

var anyGUID = [lengthOfGUID]byte([]byte("00000000-0000-0000-0000-000000000000"))

// Sample returns the path of a sequential node, which has the same length for all nodes of its kind.
func (p *Parent) Sample(kind string) string {
	path, _ := p.path(Spec{Kind: kind, Key: "0000000000"}, anyGUID)
	return path
}

// Check returns the error for nodes that no server would accept.
func (p *Parent) Check(want Spec) error {
	path, _ := p.path(want, anyGUID)
	return p.Client.CheckCreate(path, want.Data, want.count(), want.Instead...)
}

// creation is one call of Create. It may send several copies of one create.
type creation struct {
	parent  *Parent
	session *session.Session
	want    Spec
	path    string
	guid    string            // the one in the path
	parents []string          // containers created for it; see Session.RemoveUnused
	last    *session.Creation // the latest copy

	lateCopies int // how many were searched for in vain, and may still arrive
}

// Create creates a node in s, along with any missing parents. If sent is not nil, Create calls it each time it has sent
// the create, so that a request made by sent costs no extra round trip.
//
// The GUID makes the create safe to repeat: if a reply is lost, Create searches for the node, behind a barrier (see
// find), before it sends the create again. A node it finds counts only if this session owns it or, with Lasting, nobody
// does. The caller may give up at any time; its node is then removed in the background.
//
// Errors: ErrGone if part of what was created was deleted, two copies of the create were applied, or a node to delete
// was missing.
//
// Source: Curator's CreateBuilder with protection; its search trusts a lagging follower.
func (p *Parent) Create(ctx context.Context, s *session.Session, want Spec, sent func()) (*Node, error) {
	c := &creation{parent: p, session: s, want: want}
	c.path, c.guid = p.path(want, newGUID())
	var hangups session.Hangups
	var repeats session.Repeats
	var remakes session.Remakes
	for {
		if err := c.start(ctx, sent); err != nil {
			return c.fail(err)
		}
		paths, zxid, err := s.FinishCreate(ctx, c.last)
		err = hangups.Judge(want.count()*len(want.Data), err)
		switch {
		case err == nil && zxid <= 0: // the fencing token would be worthless
			return c.abandon(&session.OpError{Op: "create", Path: paths[0], Err: fmt.Errorf(
				"%w: it answered a create with the zxid %d, which must be the czxid of the node", zkrecipes.ErrUnsupportedServer,
				zxid)})
		case err == nil:
			return c.made(p.newNode(s, paths, zxid))
		case wire.ServerFault(err), errors.Is(err, zkrecipes.ErrTooLarge):
			return c.abandon(err)
		// The outcome is also unknown if ctx was done before the answer arrived.
		case errors.Is(err, zk.ErrNodeExists), errors.Is(err, zkrecipes.ErrUnknownOutcome):
			n, findErr := p.find(ctx, s, c.guid)
			switch {
			case findErr != nil:
				return c.abandon(errors.Join(err, findErr))
			case n == nil:
				c.lateCopies++
				if errors.Is(err, zk.ErrNodeExists) { // someone else's: the path of a node without a number may be occupied
					if err := repeats.Pause(ctx, err); err != nil {
						return c.fail(err)
					}
				}
			case len(n.Paths) == want.count():
				return c.made(n)
			default: // part of it has been deleted by hand, or two copies were applied
				return c.abandon(ErrGone)
			}
		case errors.Is(err, outcome.ErrNotDeleted):
			return c.fail(ErrGone) // an earlier copy may have arrived late and deleted it
		case errors.Is(err, zk.ErrNoNode) && !p.MustExist:
			if err = remakes.Pause(ctx, err); err == nil {
				var made []string
				made, err = p.make(ctx, s)
				c.parents = append(made, c.parents...)
			}
			if err != nil {
				return c.fail(err)
			}
		// The server is shedding load, or the connection is just ending.
		case session.NotExecuted(err):
			if err := repeats.Pause(ctx, err); err != nil {
				return c.fail(err)
			}
		default:
			return c.fail(err)
		}
	}
}

// start sends a copy of the create. If it returns an error, nothing was sent.
func (c *creation) start(ctx context.Context, sent func()) (err error) {
	p, want := c.parent, c.want
	c.last, err = c.session.StartCreateFor(
		ctx, c.path, want.Data, p.flags(want), p.ACL, want.count(), sent, want.Instead...)
	return err
}

// made returns the node. If a copy of its create may arrive late, the node remembers that; see sweep.
func (c *creation) made(n *Node) (*Node, error) {
	c.session.Used(c.parents)
	n.Kind = c.want.Kind
	if c.lateCopies > 0 {
		n.lateGUID = c.guid
	}
	return n, nil
}

// fail returns the error from a create that has created no node. An earlier copy may still arrive late; see sweep.
func (c *creation) fail(err error) (*Node, error) {
	if c.lateCopies > 0 || len(c.parents) > 0 {
		left := *c // a creation that succeeds stays on the stack
		left.session.Go(func(ctx context.Context) {
			if left.lateCopies > 0 {
				left.parent.sweep(ctx, left.session, left.guid)
			}
			left.removeParents(ctx)
		})
	}
	return nil, err
}

// removeParents removes parents that were created for a node that was not. If that fails, the error is ignored.
func (c *creation) removeParents(ctx context.Context) {
	if len(c.parents) > 0 {
		_ = c.session.RemoveUnused(ctx, c.parents)
	}
}

// abandon returns the error from a create that may have created something, and removes whatever that is in the
// background. The removal waits until the last copy is answered or its connection is lost; the search then finds every
// copy that was applied, with the exception described at find. The removal continues until it is confirmed or the
// session has ended.
func (c *creation) abandon(err error) (*Node, error) {
	left := *c
	left.session.Go(func(ctx context.Context) {
		release := left.session.Retain() // see Node.Remove
		select {
		case <-left.last.Done():
		case <-ctx.Done():
			return // the session has ended
		}
		release()
		left.parent.sweep(ctx, left.session, left.guid)
		left.removeParents(ctx)
	})
	return nil, err
}
