package main

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/exit"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/supervise"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/recipes/multilock"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
)

func newLock(a *app) *cobra.Command {
	var f runFlags
	var more []string
	var value string
	var kazoo bool
	cmd := &cobra.Command{
		Use:   "lock [flags] PATH -- PROGRAM [ARGUMENT...]",
		Short: "Run a program while no other holder of the lock runs",
		Example: `  zkr lock /jobs/nightly -- nightly --full
  zkr lock --try --busy-ok /jobs/cleanup -- cleanup
  zkr lock --once "$(date -u -d '12 hours ago' +%F)" /jobs/nightly -- nightly
  zkr lock --path /accounts/1 --path /accounts/2 -- transfer 1 2`,
		Long: `lock acquires the lock at PATH, runs the program, and releases the lock when the program and everything
that it has started have ended. With several paths it acquires either all of the locks or none of them.

The program gets ZKR_TOKEN, a number that grows with every holder: a resource that rejects smaller ones
is safe from a program that was frozen and resumes too late. ZKR_PATH, ZKR_NODE, ZKR_SESSION, ZKR_KIND,
ZKR_ID and ZKR_VALID_UNTIL describe the lock; with several paths, ZKR_PATH, ZKR_NODE and ZKR_TOKEN have
a line for each. To check whether the lock is still proven, the program runs "zkr held", which needs no
network, or "zkr check", which asks the servers.

If the program itself runs zkr for the same lock, the inner zkr is refused with 64, since it would wait
for itself. It may wait if --wait bounds the wait, or if --leftovers ignore lets the outer zkr end
first.

With --once, the last value for which a run has succeeded is kept in a node next to the lock,
PATH-done. It is written while the lock is held. If the node already has the value, zkr exits with 0.
Values must grow, compared as text, as dates in ISO 8601 do: a smaller one is refused with 125. A run
that was asked to stop, by a signal or a revoke, is not recorded, even if it exits with 0. --once
requires a single path.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			before, program, err := split(cmd, args, f.shell)
			if err != nil {
				return err
			}
			paths := slices.Concat(before, more) // Concat copies, because program follows before in the same array
			if len(before) > 1 || len(paths) == 0 {
				return exit.Usagef("want one PATH before --, or several with --path; got %s", words(before))
			}
			if err := validPaths(paths...); err != nil {
				return err
			}
			if cmd.Flags().Changed("once") && value == "" {
				return exit.Usagef("--once without a value: want one that differs from run to run, such as a date")
			}
			if value != "" && len(paths) > 1 {
				return exit.Usagef("--once with %d paths: want one, since the record is stored next to it", len(paths))
			}
			return a.runOnce(cmd, &f, program, func(c *conn.Client) (*supervise.Target, error) {
				t, err := mutexes(c, paths, kazoo)
				if err == nil && value != "" {
					t.Once = supervise.NewOnce(c, paths[0], value)
				}
				return t, err
			})
		},
	}
	f.add(cmd)
	cmd.Flags().StringArrayVar(&more, "path", nil, "additional `path` to lock; may be repeated")
	cmd.Flags().StringVar(&value, "once", "",
		"run the program only if no run with this `value` has succeeded, on any machine")
	addKazoo(cmd, &kazoo)
	noEnv(cmd, "path", "shell", "once") // the outer zkr sets ZKR_PATH for a nested one
	return cmd
}

// mutexes returns the target for one or several mutexes.
func mutexes(c *conn.Client, paths []string, kazoo bool) (*supervise.Target, error) {
	all, queues := make([]*mutex.Mutex, len(paths)), make([]supervise.Queue, len(paths))
	for i, path := range paths {
		options := []mutex.Option{mutex.WithReentrance(), mutex.WithTracerName(metricsName(path))}
		if kazoo {
			options = append(options, mutex.WithKazoo())
		}
		var err error
		if all[i], err = mutex.New(c, path, options...); err != nil {
			return nil, err
		}
		queues[i] = all[i].Queue
	}
	lock := func(ctx context.Context) (*supervise.Grant, error) { return lockAll(ctx, all) }
	try := func(ctx context.Context) (*supervise.Grant, error) { return tryAll(ctx, all) }
	if first := all[0]; len(all) == 1 {
		lock = func(ctx context.Context) (*supervise.Grant, error) { return supervise.Single(first.Lock(ctx)) }
		try = func(ctx context.Context) (*supervise.Grant, error) { return supervise.Single(first.TryLock(ctx)) }
	}
	return &supervise.Target{Kind: "mutex", Paths: paths, Lock: lock, Try: try, Queues: queues}, nil
}

func lockAll(ctx context.Context, mutexes []*mutex.Mutex) (*supervise.Grant, error) {
	var parts []zkrecipes.Part
	for i, m := range mutexes {
		if again := func(other *mutex.Mutex) bool { return other.Path() == m.Path() }; !slices.ContainsFunc(mutexes[:i],
			again) {
			parts = append(parts, m.Part())
		}
	}
	all, err := multilock.LockAll(ctx, parts...)
	if err != nil {
		return nil, err
	}
	holds := make([]*zkrecipes.Hold, len(mutexes))
	for i, m := range mutexes {
		holds[i] = all.Of(m.Part())
	}
	return supervise.Several(all, holds), nil
}

// tryAll acquires all locks without waiting, or none. It then acquires them again as a group, which does not wait
// because the locks are reentrant, and releases the first holds.
func tryAll(ctx context.Context, all []*mutex.Mutex) (*supervise.Grant, error) {
	var taken []*zkrecipes.Hold
	defer func() {
		for _, h := range taken {
			_ = h.Release(ctx) // continues in the background
		}
	}()
	nested := ctx
	for _, m := range all {
		h, err := m.TryLock(nested)
		if err != nil {
			return nil, err
		}
		taken = append(taken, h)
		nested = h.Context() //nolint:fatcontext // the chain has one link per path
	}
	return lockAll(nested, all)
}
