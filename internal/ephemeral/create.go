package ephemeral

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// Spec says what to create, all in one transaction.
type Spec struct {
	Kind    string // what the names have between the GUID and the key
	Data    []byte
	Key     string   // empty: the server appends a sequence number
	Count   int      // 0 is one
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

// path returns the path to create.
func (p *Parent) path(want Spec, guid string) string {
	return strings.TrimSuffix(p.Path, "/") + "/" + prefix + guid + "-" + want.Kind + want.Key // one allocation
}

const anyGUID = "00000000-0000-0000-0000-000000000000"

// Sample returns the path of a sequential node, as long as all of its kind are.
func (p *Parent) Sample(kind string) string {
	return p.path(Spec{Kind: kind, Key: "0000000000"}, anyGUID)
}

// Check returns the error of nodes that no server would accept.
func (p *Parent) Check(want Spec) error {
	return p.Client.CheckCreate(p.path(want, anyGUID), want.Data, want.count(), want.Instead...)
}

// creation is one call of Create. It may send several copies of one create.
type creation struct {
	parent  *Parent
	session *session.Session
	want    Spec
	guid    string
	parents []string          // containers that were made for it; see Session.RemoveUnused
	copies  int               // that may have been applied and were not found
	last    *session.Creation // the newest copy
}

// Create creates a node in s, with missing parents. It calls sent, unless that is nil, whenever it has sent the
// create, so a request that sent makes costs no extra round trip.
//
// The GUID makes the create safe to repeat: if an answer is lost, the node is looked for before it is made again. A node
// that is found counts only if this session owns it. The caller may go at any time; its node is then removed here.
//
// Errors: ErrGone if part of what was made was deleted, or a node to delete was missing.
//
// Source: Curator's CreateBuilder with protection; its search trusts a follower that lags.
func (p *Parent) Create(ctx context.Context, s *session.Session, want Spec, sent func()) (*Node, error) {
	c := &creation{parent: p, session: s, want: want, guid: NewGUID()}
	var hangups session.Hangups
	var repeats session.Repeats
	var remakes session.Remakes
	for {
		if err := c.start(ctx, sent); err != nil {
			return c.fail(err)
		}
		paths, zxid, err := s.FinishCreate(ctx, c.last)
		err = hangups.Judge(want.count()*len(want.Data), err) // if ctx ended before the answer, the outcome is unknown, too
		switch {
		case err == nil && zxid <= 0: // the fencing token would be worth nothing
			return c.abandon(&session.OpError{Op: "create", Path: paths[0], Err: fmt.Errorf(
				"%w: it answers a create with the zxid %d, which must be the czxid of the node", zkrecipes.ErrUnsupportedServer, zxid)})
		case err == nil:
			return c.made(p.newNode(s, paths, zxid))
		case wire.ServerFault(err), errors.Is(err, zkrecipes.ErrTooLarge):
			return c.abandon(err)
		case errors.Is(err, zk.ErrNodeExists), errors.Is(err, zkrecipes.ErrUnknownOutcome):
			n, findErr := p.find(ctx, s, c.guid)
			switch {
			case findErr != nil:
				return c.abandon(errors.Join(err, findErr))
			case n == nil:
				c.copies++
			case len(n.Paths) == want.count():
				return c.made(n)
			default: // part of it has been deleted by hand
				return c.abandon(ErrGone)
			}
		case errors.Is(err, session.ErrNotDeleted):
			return c.fail(ErrGone) // a copy before may have come late and deleted it
		case errors.Is(err, zk.ErrNoNode) && !p.Given:
			if err = remakes.Pause(ctx, err); err == nil {
				var made []string
				made, err = p.make(ctx, s)
				c.parents = append(made, c.parents...)
			}
			if err != nil {
				return c.fail(err)
			}
		case session.NotExecuted(err): // the server sheds load, or the connection is just going
			if err := repeats.Pause(ctx, err); err != nil {
				return c.fail(err)
			}
		default:
			return c.fail(err)
		}
	}
}

// start sends a copy of the create. Errors: nothing was sent.
func (c *creation) start(ctx context.Context, sent func()) (err error) {
	p, want := c.parent, c.want
	c.last, err = c.session.StartCreateFor(
		ctx, p.path(want, c.guid), want.Data, p.flags(want), p.ACL, want.count(), want.Instead...)
	if err == nil && sent != nil {
		sent()
	}
	return err
}

// made returns the node. If a copy of its create may come late, the node remembers that; see sweep.
func (c *creation) made(n *Node) (*Node, error) {
	c.session.Used(c.parents)
	n.Kind = c.want.Kind
	if c.copies > 0 {
		n.guid = c.guid
	}
	return n, nil
}

// fail returns the error of a create that has created no node. However, an earlier copy may arrive late; see sweep.
func (c *creation) fail(err error) (*Node, error) {
	if c.copies > 0 || len(c.parents) > 0 {
		left := *c // a creation that succeeds stays on the stack
		left.session.Go(func(ctx context.Context) {
			if left.copies > 0 {
				left.parent.sweep(ctx, left.session, left.guid)
			}
			left.removeParents(ctx)
		})
	}
	return nil, err
}

// removeParents removes a parent that was created for a node that was not. A failure to do so is not an error of the
// create.
func (c *creation) removeParents(ctx context.Context) {
	if len(c.parents) > 0 {
		_ = c.session.RemoveUnused(ctx, c.parents)
	}
}

// abandon returns the error of a create that may have made something, and removes that. It waits for the answer first, so that
// nothing can be made after the removal. It ends when the removal is confirmed, or with the session.
func (c *creation) abandon(err error) (*Node, error) {
	left := *c
	left.session.Go(func(ctx context.Context) {
		select {
		case <-left.last.Done():
		case <-ctx.Done():
			return
		}
		left.parent.sweep(ctx, left.session, left.guid)
		left.removeParents(ctx)
	})
	return nil, err
}
