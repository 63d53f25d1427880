package client

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/outcome"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// guard prevents a write from being applied twice to one node. If the node was recreated and has the same version, a
// write without a czxid, such as Client.Set, may be applied to the new node as well.
type guard struct {
	version int32
	of      func(zk.Stat) int32 // returns the version to compare
	czxid   int64               // 0 means any node; then the version -1 means any
}

func dataVersion(now zk.Stat) int32 { return now.Version }

// unapplied reports whether the write, if it was sent, was not applied to the node.
func (g guard) unapplied(now zk.Stat) bool {
	if g.version == -1 && g.czxid == 0 {
		return false // it cannot be determined
	}
	return g.of(now) == g.version && (g.czxid == 0 || now.Czxid == g.czxid)
}

// writeVersioned performs a write of about the given size in bytes: those of Client.Set, SetACL and Delete. Package
// record settles the writes of values, limits and counters.
func writeVersioned(
	ctx context.Context, c *Client, op, path string, g guard, size int, write func(*session.Session) (zk.Stat, error),
) (zk.Stat, error) {
	var doubt error // that of an earlier try, which may have been applied, or may still be
	var hangups session.Hangups
	var repeats session.Repeats
	for {
		var stat zk.Stat
		err := c.InSession(ctx, op, path, func(s *session.Session) (err error) {
			stat, err = write(s)
			return hangups.Judge(size, err)
		})
		switch {
		case session.ReplyLost(err):
			doubt = err
		case doubt != nil && errors.Is(err, zk.ErrNoNode):
			return stat, fmt.Errorf("%w: %w", errMissing, doubt)
		case doubt != nil && err != nil:
			return stat, outcome.Undecided(doubt, err)
		default:
			return stat, err
		}
		// Behind the barrier, the read is at least as recent as any write that a quorum has agreed to: a node that it does
		// not show is gone. If it does not show the write, it is sent again. A copy that arrives late names the same
		// version, so at most one of the copies succeeds.
		if failed := c.Barrier(ctx, op, path); failed != nil {
			return stat, outcome.Undecided(err, failed)
		}
		exists, now, readErr := c.Exists(ctx, path)
		switch {
		case readErr != nil:
			return stat, outcome.Undecided(err, readErr)
		case !exists:
			return stat, fmt.Errorf("%w: %w", errMissing, err)
		case !g.unapplied(now):
			return stat, err // the outcome is unknown: even data equal to ours would not show who wrote it
		}
		_ = repeats.Pause(ctx, err) // the next try checks ctx
	}
}
