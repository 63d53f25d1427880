package znode

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// MakeParents makes path, and what is missing above it, as containers: up to the first that exists, then down. If the server
// reaps one in between, the create that follows fails, and its loop calls again.
func MakeParents(ctx context.Context, s *session.Session, path string) error {
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
		path = path[:max(strings.LastIndexByte(path, '/'), 1)]
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

// Seed makes a plain node with data, and what is missing above it, unless it is there already. It returns nil also if the
// answer was lost: the caller reads the node next.
func Seed(ctx context.Context, s *session.Session, path string, data []byte) error {
	for {
		_, err := s.Create(ctx, path, data, 0)
		switch {
		case err == nil, errors.Is(err, zk.ErrNodeExists), errors.Is(err, zkrecipes.ErrUnknownOutcome) && ctx.Err() == nil:
			return nil
		case !errors.Is(err, zk.ErrNoNode):
			return err
		}
		if err := MakeParents(ctx, s, path[:max(strings.LastIndexByte(path, '/'), 1)]); err != nil {
			return err
		}
	}
}
