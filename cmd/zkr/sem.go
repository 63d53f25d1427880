package main

import (
	"context"
	"path"

	"github.com/spf13/cobra"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/exit"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/supervise"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/layout"
	"github.com/zkrecipes/zkrecipes/recipes/semaphore"
)

func newSem(a *app) *cobra.Command {
	var limit, permits int
	var node string
	cmd := newLockOf(a, &cobra.Command{
		Use:   "sem -n LIMIT [flags] PATH -- PROGRAM [ARGUMENT...]",
		Short: "Run a program while fewer than a given number of others run",
		Example: `  zkr sem -n 3 /rebuild -- rebuild-index
  zkr sem -n 8 -k 2 --try /gpu -- train`,
		Long: `sem acquires permits of the semaphore at PATH. All callers must give the same limit, or the same
--limit-node, which keeps the limit in ZooKeeper, where zkr limit changes it.`,
	}, func(c *conn.Client, path string, kazoo bool) (*supervise.Target, error) {
		options := []semaphore.Option{semaphore.WithTracerName(metricsName(path))}
		if node != "" {
			options = append(options, semaphore.WithLimitNode(node))
		}
		if kazoo {
			options = append(options, semaphore.WithKazoo())
		}
		s, err := semaphore.New(c, path, limit, options...)
		if err != nil {
			return nil, err
		}
		return &supervise.Target{
			Kind: "permit",
			Lock: func(ctx context.Context) (*supervise.Grant, error) { return supervise.Single(s.Acquire(ctx, permits)) },
			Try: func(ctx context.Context) (*supervise.Grant, error) {
				return supervise.Single(s.TryAcquire(ctx, permits))
			},
			Queues: []supervise.Queue{s.Queue},
			Blocks: func(ahead []zkrecipes.Participant) bool { // a limit in a node may be raised
				return node == "" && leases(ahead)+permits > limit
			},
		}, nil
	})
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if limit < 1 {
			return exit.Usagef("--limit %d: want 1 or more", limit)
		}
		if permits < 1 || permits > limit && node == "" {
			return exit.Usagef("--permits %d: want 1 to the limit, which is %d", permits, limit)
		}
		return nil
	}
	cmd.Flags().IntVarP(&limit, "limit", "n", 1, "total number of permits")
	cmd.Flags().IntVarP(&permits, "permits", "k", 1, "number of permits to acquire, all or none")
	cmd.Flags().StringVar(&node, "limit-node", "",
		"`path` of a node with the limit, which all callers follow; if missing, it is created with --limit")
	return cmd
}

// leases returns how many of the contenders for a semaphore are leases. The others wait for theirs.
func leases(contenders []zkrecipes.Participant) (n int) {
	for _, c := range contenders {
		if _, waits := layout.Parse(path.Base(c.Path), layout.Lock, layout.KazooLock); !waits {
			n++
		}
	}
	return n
}
