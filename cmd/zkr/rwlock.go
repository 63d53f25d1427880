package main

import (
	"context"
	"path"
	"slices"

	"github.com/spf13/cobra"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/supervise"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/layout"
	"github.com/zkrecipes/zkrecipes/recipes/rwlock"
)

func newRLock(a *app) *cobra.Command {
	return newRWLock(a, &cobra.Command{
		Use:   "rlock [flags] PATH -- PROGRAM [ARGUMENT...]",
		Short: "Run a program while no writer runs, concurrently with other readers",
		Example: `  zkr rlock /config -- deploy
  zkr rlock --wait 30s /config -- deploy`,
		Long: `rlock acquires the read-write lock at PATH for reading. Any number of readers can hold it, or one
writer. Readers and writers are served in the order in which they arrive: a reader waits for a writer
that came before it.`,
	}, "read", (*rwlock.RWLock).RLock, (*rwlock.RWLock).TryRLock)
}

func newWLock(a *app) *cobra.Command {
	return newRWLock(a, &cobra.Command{
		Use:     "wlock [flags] PATH -- PROGRAM [ARGUMENT...]",
		Short:   "Run a program while no reader and no other writer runs",
		Example: `  zkr wlock /config -- edit-config`,
		Long:    `wlock acquires the read-write lock at PATH for writing: see rlock.`,
	}, "write", (*rwlock.RWLock).Lock, (*rwlock.RWLock).TryLock)
}

// newRWLock completes a verb that runs a program under a read-write lock.
func newRWLock(
	a *app, cmd *cobra.Command, kind string,
	lock, try func(*rwlock.RWLock, context.Context) (*zkrecipes.Hold, error),
) *cobra.Command {
	return newLockOf(a, cmd, func(c *conn.Client, path string, kazoo bool) (*supervise.Target, error) {
		options := []rwlock.Option{rwlock.WithTracerName(metricsName(path))}
		if kazoo {
			options = append(options, rwlock.WithKazoo())
		}
		l, err := rwlock.New(c, path, options...)
		if err != nil {
			return nil, err
		}
		queue := func(ctx context.Context) ([]zkrecipes.Participant, error) { return participants(l.Queue(ctx)) }
		t := &supervise.Target{
			Kind:   kind,
			Lock:   func(ctx context.Context) (*supervise.Grant, error) { return supervise.Single(lock(l, ctx)) },
			Try:    func(ctx context.Context) (*supervise.Grant, error) { return supervise.Single(try(l, ctx)) },
			Queues: []supervise.Queue{queue},
		}
		if kind == "read" { // readers do not block each other
			t.Blocks = func(ahead []zkrecipes.Participant) bool { return slices.ContainsFunc(ahead, writes) }
		}
		return t, nil
	})
}

func writes(p zkrecipes.Participant) bool {
	c, _ := layout.Parse(path.Base(p.Path))
	return c.Writes()
}

func participants(queue []rwlock.Contender, err error) ([]zkrecipes.Participant, error) {
	all := make([]zkrecipes.Participant, len(queue))
	for i, c := range queue {
		all[i] = c.Participant
	}
	return all, err
}

// newLockOf completes a verb that runs a program under one lock.
func newLockOf(
	a *app, cmd *cobra.Command, of func(c *conn.Client, path string, kazoo bool) (*supervise.Target, error),
) *cobra.Command {
	var f runFlags
	var kazoo bool
	f.add(cmd)
	addKazoo(cmd, &kazoo)
	noEnv(cmd, "shell")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		before, program, err := split(cmd, args, f.shell)
		if err != nil {
			return err
		}
		if err := onePath(cmd, before); err != nil {
			return err
		}
		return a.runOnce(cmd, &f, program, func(c *conn.Client) (*supervise.Target, error) {
			t, err := of(c, before[0], kazoo)
			if err == nil {
				t.Paths = before
			}
			return t, err
		})
	}
	return cmd
}
