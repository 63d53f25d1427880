package client

import (
	"bytes"
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/outcome"
	"github.com/zkrecipes/zkrecipes/internal/paths"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// CreateAll creates a plain node, after first creating, as containers, the missing nodes above it, including those of
// the chroot. If the reply is lost, CreateAll checks the outcome; see [Client.wasMade].
//
// Errors: ErrUnknownOutcome; zk.ErrNodeExists; what the server answered about one of the nodes, such as zk.ErrNoAuth.
func (c *Client) CreateAll(ctx context.Context, path string, data []byte, acl ...zk.ACL) error {
	if err := paths.Check("create", path); err != nil {
		return err
	}
	if c.Abs(path) == "/" {
		return &session.OpError{Op: "create", Path: path, Err: zk.ErrNodeExists}
	}
	var doubt error // that of an earlier try, which may have been applied, or may still be
	var hangups session.Hangups
	var remakes session.Remakes
	var repeats session.Repeats
	for {
		var tried *session.Session
		var before int64
		err := c.InSession(ctx, "create", path, func(s *session.Session) error {
			tried, before = s, s.Zxid()
			_, err := s.Create(ctx, path, data, 0, acl...)
			return hangups.Judge(len(data), err)
		})
		switch {
		case err == nil:
			return nil
		case session.ReplyLost(err):
			doubt = err
		case errors.Is(err, zk.ErrNodeExists) && doubt != nil:
		case errors.Is(err, zk.ErrNoNode):
			if err = remakes.MakeParents(ctx, tried, path, err); err == nil || tried.Err() != nil {
				continue // creating a container again does no harm
			}
			return outcome.Undecided(doubt, err)
		default:
			return outcome.Undecided(doubt, err)
		}
		made, err := c.wasMade(ctx, path, data, tried, before)
		if made {
			return nil
		}
		if err == nil {
			err = repeats.Pause(ctx, doubt)
		}
		if err != nil {
			return outcome.Undecided(doubt, err)
		}
	}
}

// wasMade determines the fate of a create whose reply was lost. tried is the session it was sent in, and before the
// latest transaction known at that time. A node with the same data is success, even if another client has created it.
// If there is neither a node nor an error, the create was not executed and may be sent again. For that, wasMade
// requires two things:
//
//   - No copy is in flight. The leader has agreed to a barrier after it in the same session, or the servers have ended
//     that session.
//   - No node was created and deleted since. Every create and delete of a child advances the pzxid of its parent, so
//     that of the lowest existing node above must not exceed before. A client that does not know of any transaction yet
//     cannot determine this.
//
// One copy can still arrive late: a server may hang while it has the create, and resume the session afterwards. The
// caller therefore remains in doubt until a copy is answered.
//
// Errors: one of the two is not certain; there is a node with other data; the barrier or a read failed.
func (c *Client) wasMade(
	ctx context.Context, path string, data []byte, tried *session.Session, before int64,
) (made bool, err error) {
	var behind int64 // the session of the barrier
	if err := c.InSession(ctx, "create", path, func(s *session.Session) error {
		behind = s.ID()
		return s.Barrier(ctx)
	}); err != nil {
		return false, err
	}
	now, _, err := c.Get(ctx, path)
	switch {
	case err == nil && !bytes.Equal(now, data):
		return false, &session.OpError{
			Op: "create", Path: path,
			Err: errors.New("the node exists with different data: another client created or changed it"),
		}
	case !errors.Is(err, zk.ErrNoNode):
		return err == nil, err
	}
	var over *zkrecipes.LostError
	expired := errors.As(tried.Err(), &over) && over.Reason == zkrecipes.LossExpired
	if behind != tried.ID() && !expired {
		return false, &session.OpError{
			Op: "create", Path: path,
			Err: errors.New("its session was lost, and the node may still be created"),
		}
	}
	for above := paths.Parent(c.Abs(path)); ; above = paths.Parent(above) { // the root exists
		var exists bool
		var stat zk.Stat
		err := c.InSession(ctx, "create", path, func(s *session.Session) (err error) {
			exists, stat, err = s.Absolute().Exists(ctx, above)
			return err
		})
		switch {
		case err != nil:
			return false, err
		case exists && stat.Pzxid <= before:
			return false, nil
		case exists:
			return false, &session.OpError{
				Op: "create", Path: path,
				Err: errors.New("the node does not exist now: it may have been created and deleted since"),
			}
		}
	}
}

// CheckCreate returns the errors of [session.Session.StartCreate] that do not depend on a session: an invalid path, or
// a request that is too large together with the nodes to delete.
func (c *Client) CheckCreate(path string, data []byte, n int, remove ...string) error {
	if err := paths.Check("create", path); err != nil {
		return err
	}
	acl, err := c.core.opts.ACLOf(c.Abs(path), nil)
	if err != nil {
		return &session.OpError{Op: "create", Path: path, Err: err}
	}
	size := wire.OpSize(&zk.CreateRequest{Path: c.Abs(path), Data: data, Acl: acl})
	size *= min(n, c.core.opts.MaxRequest/size+1) // n may be any number
	for _, path := range remove {
		size += wire.OpSize(&zk.DeleteRequest{Path: c.Abs(path), Version: -1})
	}
	return c.core.ensemble.CheckSize("create", path, size+wire.MultiSize)
}
