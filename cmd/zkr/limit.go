package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/go-zookeeper/zk"
	"github.com/spf13/cobra"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/exit"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/layout"
	"github.com/zkrecipes/zkrecipes/recipes/semaphore"
)

func newLimit(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "limit PATH [N]",
		Short: "Show or set the limit of a semaphore whose limit is kept in ZooKeeper",
		Example: `  zkr limit /gpu-limit
  zkr limit /gpu-limit 12`,
		Long: `limit prints the number in the limit node at PATH, which programs name by --limit-node or
semaphore.WithLimitNode. With N it sets the number, and creates the node if it is missing. Java's
SharedCount reads and writes the same node.

Raising the limit grants permits to waiters immediately. Lowering it revokes no permit: waiters wait
until enough permits are released. With 0 no permits are granted.

The node holds four bytes, not text: zkr refuses to print a limit that was entered as text, and
replaces it.

Exit status: 1 if there is no such node to print.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 && len(args) != 2 {
				return exit.Usagef("want a PATH such as /app/limit, and a number to set it: got %s", words(args))
			}
			return validPaths(args[0])
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return a.connected(cmd,
					func(ctx context.Context, client *conn.Client) error { return a.limit(ctx, client, args[0]) })
			}
			n, err := strconv.ParseInt(args[1], 10, 32)
			if err != nil || n < 0 {
				return exit.Usagef("limit %s: want a number from 0 to 2147483647", args[1])
			}
			return a.connected(cmd, func(ctx context.Context, client *conn.Client) error {
				return setLimit(ctx, client, args[0], int(n))
			})
		},
	}
}

// limitAt returns a semaphore that follows the node. The path of the semaphore itself is irrelevant.
func limitAt(client *conn.Client, node string, n int) (*semaphore.Semaphore, error) {
	s, err := semaphore.New(client, "/any", max(n, 1), semaphore.WithLimitNode(node))
	if err != nil {
		return nil, exit.With(exit.Usage, err)
	}
	return s, nil
}

func (a *app) limit(ctx context.Context, client *conn.Client, node string) error {
	s, err := limitAt(client, node, 1)
	if err != nil {
		return err
	}
	if err := client.Sync(ctx, node); err != nil {
		return err
	}
	switch exists, _, err := client.Exists(ctx, node); {
	case err != nil:
		return err
	case !exists: // Limit would return the initial limit
		return exit.With(1, fmt.Errorf("%s: there is no such node: zkr limit %s N creates it", node, node))
	}
	n, err := s.Limit(ctx)
	if err != nil {
		return err
	}
	return a.print(table{rows: [][]string{{strconv.Itoa(n)}}, json: map[string]any{"path": node, "limit": n}})
}

func setLimit(ctx context.Context, client *conn.Client, node string, n int) error {
	s, err := limitAt(client, node, n)
	if err != nil {
		return err
	}
	children, err := client.Children(ctx, node)
	switch {
	case err != nil && !errors.Is(err, zk.ErrNoNode):
		return err
	case slices.Contains(children, layout.Leases):
		return exit.Usagef("%s is a semaphore: want the node that its programs pass as --limit-node", node)
	}
	return s.SetLimit(ctx, n)
}
