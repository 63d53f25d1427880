package record

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/client"
)

// Remove deletes the node at path, whatever it holds. A missing node is not an error.
//
// Each delete is for the version of the node that was read before, so if a reply is lost, the delete may be sent
// again: see [client.Client.DeleteRead].
//
// Errors: ErrUnknownOutcome if a reply was lost and another client has written since; otherwise the server's error.
func Remove(ctx context.Context, c *client.Client, path string) error {
	for recent := false; ; recent = true {
		exists, stat, err := c.Exists(ctx, path)
		switch {
		case err != nil, !exists && recent:
			return err
		case exists:
			err = c.DeleteRead(ctx, path, stat)
			switch {
			case errors.Is(err, zk.ErrNoNode):
				return nil
			case !errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zkrecipes.ErrUnknownOutcome):
				return err
			}
		}
		// A lagging server, or a leader that was replaced, may not know the node or its version yet.
		if err := c.Barrier(ctx, "delete", path); err != nil {
			return err
		}
	}
}
