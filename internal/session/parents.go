package session

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"

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
	}
	return nil
}

// Ensure is CreateAll for a caller that is content with any node at path and reads it next. It returns nil also if the answer
// was lost.
func (s *Session) Ensure(ctx context.Context, path string, data []byte) error {
	err := s.CreateAll(ctx, path, data)
	if errors.Is(err, zk.ErrNodeExists) || errors.Is(err, zkrecipes.ErrUnknownOutcome) {
		return nil
	}
	return err
}

// CreateAll is [Client.CreateAll] in one session. It is tried once.
func (s *Session) CreateAll(ctx context.Context, path string, data []byte, acl ...zk.ACL) error {
	for {
		_, err := s.Create(ctx, path, data, 0, acl...)
		if !errors.Is(err, zk.ErrNoNode) {
			return err
		}
		if err := s.Root().MakeContainers(ctx, parentOf(s.Abs(path))); err != nil {
			return err
		}
	}
}

// CreateAll makes a plain node, and before it, as containers, the nodes above it that are missing, those of the chroot
// included. If the reply is lost, CreateAll looks: if there is no node, it is created again; if there is one with the same
// data, that is success, also if another client made it. Otherwise the error matches ErrUnknownOutcome.
//
// Errors: zk.ErrNodeExists; what the server said about one of the nodes, such as zk.ErrNoAuth.
func (c *Client) CreateAll(ctx context.Context, path string, data []byte, acl ...zk.ACL) error {
	if err := checkPath("create", path); err != nil {
		return err
	}
	if c.Abs(path) == "/" {
		return &OpError{"create", path, zk.ErrNodeExists}
	}
	var doubt error // of an earlier try, which may have been applied, or may still be
	var hangups Hangups
	for {
		s, err := c.sessionFor(ctx, "create", path)
		if err != nil {
			return errors.Join(doubt, err)
		}
		err = hangups.Judge(len(data), s.CreateAll(ctx, path, data, acl...))
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
		made, err := c.isMade(ctx, path, data)
		if made {
			return nil
		}
		if err == nil {
			err = sleep(ctx, retryPause)
		}
		if err != nil {
			return errors.Join(doubt, err)
		}
	}
}

// isMade reports whether there is a node with the data. It is an error if there is one with other data.
func (c *Client) isMade(ctx context.Context, path string, data []byte) (bool, error) {
	// The sync makes the read newer than the create in question, as far as that has reached the leader.
	if err := c.Sync(ctx, path); err != nil {
		return false, err
	}
	now, _, err := c.Get(ctx, path)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return false, nil
	case err != nil:
		return false, err
	case !bytes.Equal(now, data):
		return false, &OpError{"create", path, errors.New("there is a node with other data: another client has made or changed it")}
	}
	return true, nil
}
