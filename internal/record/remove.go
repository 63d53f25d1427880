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
	if err := c.Sync(ctx, path); err != nil { // a lagging server may not know the node yet
		return err
	}
	for {
		exists, stat, err := c.Exists(ctx, path)
		if err != nil || !exists {
			return err
		}
		err = c.DeleteRead(ctx, path, stat)
		switch {
		case errors.Is(err, zk.ErrNoNode):
			return nil
		case !errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zkrecipes.ErrUnknownOutcome):
			return err
		}
	}
}
