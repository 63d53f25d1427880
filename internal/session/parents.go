package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// parentOf is for absolute paths other than the root.
func parentOf(path string) string { return path[:max(strings.LastIndexByte(path, '/'), 1)] }

// MakeContainers makes path, and what is missing above it, as containers: up to the first that exists, then down. If the
// server reaps one in between, the create that follows fails, and its caller calls again.
func (s *Session) MakeContainers(ctx context.Context, path string) error {
	s, path = s.Root(), s.Abs(path) // a chroot may be what is missing
	var missing []string
	for path != "/" {
		exists, _, err := s.Exists(ctx, path)
		if err != nil {
			return err
		}
		if exists {
			break
		}
		missing = append(missing, path)
		path = parentOf(path)
	}
	for _, path := range slices.Backward(missing) {
		if err := s.CreateContainer(ctx, path); err != nil {
			if errors.Is(err, zk.ErrNoNode) {
				return nil
			}
			return err
		}
		if path == s.core.opts.Chroot {
			s.core.opts.Log.Info("zookeeper: the chroot did not exist and was made", "path", path)
		}
	}
	return nil
}

// Remakes paces a call that makes missing parents and then tries again. The first five tries cost no pause: the server may reap the
// parents before they have a child. A server that goes on answering "no node" gets growing pauses, a second at most.
type Remakes struct {
	made int
	last time.Duration
}

// Pause comes before the parents are made because of why. Errors: the cause of ctx.
func (r *Remakes) Pause(ctx context.Context, why error) error {
	if r.made++; r.made <= 5 {
		return nil
	}
	r.last = min(max(RetryPause, 2*r.last), time.Second)
	if ended := Sleep(ctx, r.last); ended != nil {
		return fmt.Errorf("%w (%v)", ended, why) //nolint:errorlint // what was in the way is no answer to this call
	}
	return nil
}

// Ensure is CreateAll for a caller that is content with any node at path and reads it next. It returns nil also if the answer
// was lost. After a fault of the server it returns an error, since a caller that tries again would only meet the next.
func (s *Session) Ensure(ctx context.Context, path string, data []byte) error {
	err := s.CreateAll(ctx, path, data)
	if errors.Is(err, zk.ErrNodeExists) || ReplyLost(err) && ctx.Err() == nil {
		return nil
	}
	return err
}

// CreateAll is [Client.CreateAll] in one session. It is tried once.
func (s *Session) CreateAll(ctx context.Context, path string, data []byte, acl ...zk.ACL) error {
	var remakes Remakes
	for {
		_, err := s.Create(ctx, path, data, 0, acl...)
		if !errors.Is(err, zk.ErrNoNode) {
			return err
		}
		if err := remakes.Pause(ctx, err); err != nil {
			return err
		}
		if err := s.makeParents(ctx, path); err != nil {
			return err
		}
	}
}

// makeParents makes what is missing above path, that of the chroot included.
func (s *Session) makeParents(ctx context.Context, path string) error {
	return s.Root().MakeContainers(ctx, parentOf(s.Abs(path)))
}

// CreateAll makes a plain node, and before it, as containers, the nodes above it that are missing, those of the chroot
// included. If the reply is lost, CreateAll looks; see [Client.settle].
//
// Errors: ErrUnknownOutcome; zk.ErrNodeExists; what the server said about one of the nodes, such as zk.ErrNoAuth.
func (c *Client) CreateAll(ctx context.Context, path string, data []byte, acl ...zk.ACL) error {
	if err := checkPath("create", path); err != nil {
		return err
	}
	if c.Abs(path) == "/" {
		return &OpError{Op: "create", Path: path, Err: zk.ErrNodeExists}
	}
	var doubt error // of an earlier try, which may have been applied, or may still be
	var hangups Hangups
	var remakes Remakes
	for {
		s, err := c.sessionFor(ctx, "create", path)
		if err != nil {
			return errors.Join(doubt, err)
		}
		before := s.zxid.Load()
		_, err = s.Create(ctx, path, data, 0, acl...)
		if errors.Is(err, zk.ErrNoNode) {
			if err = remakes.Pause(ctx, err); err == nil {
				err = s.makeParents(ctx, path)
			}
			if err == nil || s.Err() != nil {
				continue // it does no harm to make a container again
			}
			return errors.Join(doubt, err)
		}
		err = hangups.Judge(len(data), err)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, ErrTooLarge), wire.ServerFault(err):
			return errors.Join(doubt, err)
		case errors.Is(err, zkrecipes.ErrUnknownOutcome):
			doubt = err
		case errors.Is(err, zk.ErrNodeExists) && doubt != nil:
		case s.Err() != nil:
			continue // the session ended before the write began
		default:
			return errors.Join(doubt, err)
		}
		made, err := c.settle(ctx, path, data, s, before)
		if made {
			return nil
		}
		if err == nil {
			err = Sleep(ctx, RetryPause)
		}
		if err != nil {
			return errors.Join(doubt, err)
		}
	}
}

// settle looks what became of a create whose reply was lost: it was sent in tried, when before was the newest transaction
// known. A node with the same data is success, also if another client has made it. No node and no error says that the create
// was not executed, and that it may be sent again. For that settle needs two things:
//
//   - No copy is on its way. The leader has agreed to a barrier behind it in the same session, or the servers have ended that session.
//   - No node was made and deleted since. Every create and delete of a child moves the pzxid of its parent, so that of the
//     lowest node above that exists is not above before. A client that has not heard of a transaction yet cannot tell.
//
// One copy can still come late: a server may hang while it has the create, and take the session back when it goes on. So the
// caller keeps its doubt until a copy is answered.
//
// Errors: that either is missing; that there is a node with other data; the errors of a read.
func (c *Client) settle(ctx context.Context, path string, data []byte, tried *Session, before int64) (made bool, err error) {
	s, err := read(ctx, c, "create", path, func(s *Session) (*Session, error) { return s, s.Barrier(ctx) })
	if err != nil {
		return false, err
	}
	now, _, err := c.Get(ctx, path)
	switch {
	case err == nil && !bytes.Equal(now, data):
		return false, &OpError{Op: "create", Path: path, Err: errors.New("there is a node with other data: another client has made or changed it")}
	case !errors.Is(err, zk.ErrNoNode):
		return err == nil, err
	}
	var over *zkrecipes.LostError
	expired := errors.As(tried.Err(), &over) && over.Reason == zkrecipes.LossExpired
	if s.ID() != tried.ID() && !expired {
		return false, &OpError{Op: "create", Path: path, Err: errors.New("its session was lost, and the node may still come to exist")}
	}
	for above := parentOf(c.Abs(path)); ; above = parentOf(above) { // the root exists
		parent, err := read(ctx, c, "create", path, func(s *Session) (existence, error) {
			exists, stat, err := s.Root().Exists(ctx, above)
			return existence{exists, stat}, err
		})
		switch {
		case err != nil:
			return false, err
		case parent.exists && parent.stat.Pzxid <= before:
			return false, nil
		case parent.exists:
			return false, &OpError{Op: "create", Path: path, Err: errors.New("there is no node now: it may have been made, and deleted since")}
		}
	}
}
