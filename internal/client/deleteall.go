package client

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/outcome"
	"github.com/zkrecipes/zkrecipes/internal/paths"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// DeleteAll implements conn.Client.DeleteAll.
//
// It deletes before it lists: a leaf costs one request, and a node is listed only if it is not empty.
//
// A delete names no version, and any node that comes to exist at a path below is meant to be deleted as well. A delete
// whose reply was lost is therefore sent again, and a missing node is success.
func (c *Client) DeleteAll(ctx context.Context, path string, keepTop bool) error {
	const op = "delete all"
	if err := paths.Check(op, path); err != nil {
		return err
	}
	if abs := c.Abs(path); abs == "/" || abs == "/zookeeper" {
		return fmt.Errorf("%s of %s: the servers keep their own nodes below %s: want a path below it", op, path, abs)
	}
	if !keepTop {
		return c.clear(ctx, []string{path})
	}
	// A delete needs a quorum, but a lagging server, or one with a leader that was replaced, answers a list.
	if err := c.Barrier(ctx, op, path); err != nil {
		return err
	}
	for again := false; ; again = true {
		below, err := c.childrenOf(ctx, []string{path})
		if err != nil || len(below) == 0 {
			return err
		}
		if again {
			_ = session.Sleep(ctx, session.RetryPause) // the next request checks ctx
		}
		if err := c.clear(ctx, below); err != nil {
			return err
		}
	}
}

// clear deletes the nodes and everything below them. Children that appear while it runs make a node non-empty again,
// and are deleted in the next round.
func (c *Client) clear(ctx context.Context, paths []string) error {
	for again := false; ; again = true {
		full, err := c.deleteEach(ctx, paths)
		if err != nil || len(full) == 0 {
			return err
		}
		if again {
			_ = session.Sleep(ctx, session.RetryPause) // as above
		}
		below, err := c.childrenOf(ctx, full)
		if err == nil {
			err = c.clear(ctx, below)
		}
		if err != nil {
			return err
		}
		paths = full
	}
}

// deleteEach deletes the nodes and returns those that have children.
func (c *Client) deleteEach(ctx context.Context, paths []string) (full []string, err error) {
	isFull := make([]bool, len(paths))
	err = firstError(len(paths), func(i int) (err error) {
		isFull[i], err = c.deleteAny(ctx, paths[i])
		return err
	})
	for i, path := range paths {
		if isFull[i] {
			full = append(full, path)
		}
	}
	return full, err
}

// deleteAny deletes whatever node is at path. It reports whether the node has children.
func (c *Client) deleteAny(ctx context.Context, path string) (full bool, err error) {
	var doubt error // that of an earlier try
	var hangups session.Hangups
	var repeats session.Repeats
	for {
		err := c.InSession(ctx, "delete", path, func(s *session.Session) error {
			return hangups.Judge(len(path), s.Delete(ctx, path, -1))
		})
		switch {
		case err == nil, errors.Is(err, zk.ErrNoNode):
			return false, nil
		case errors.Is(err, zk.ErrNotEmpty):
			return true, nil
		case !session.ReplyLost(err) || ctx.Err() != nil:
			return false, outcome.Undecided(doubt, err)
		}
		doubt = err
		_ = repeats.Pause(ctx, err) // as above
	}
}

// childrenOf returns the paths of the children of all nodes. A node that is gone has none.
func (c *Client) childrenOf(ctx context.Context, paths []string) (children []string, err error) {
	names := make([][]string, len(paths))
	err = firstError(len(paths), func(i int) (err error) {
		if names[i], err = c.Children(ctx, paths[i]); errors.Is(err, zk.ErrNoNode) {
			return nil
		}
		return err
	})
	for i, path := range paths {
		for _, name := range names[i] {
			children = append(children, strings.TrimSuffix(path, "/")+"/"+name)
		}
	}
	return children, err
}

// firstError calls f with each number below n, like [session.InFlight], until one call fails.
func firstError(n int, f func(i int) error) error {
	var failed atomic.Pointer[error]
	session.InFlight(n, func(i int) {
		if failed.Load() != nil {
			return
		}
		if err := f(i); err != nil {
			failed.CompareAndSwap(nil, &err)
		}
	})
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}
