package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	gopath "path"
	"reflect"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/spf13/cobra"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/exit"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/supervise"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/survey"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/layout"
)

func newWait(a *app) *cobra.Command {
	var most int
	var leader string
	limit := duration(-1)
	cmd := &cobra.Command{
		Use:   "wait [flags] PATH",
		Short: "Wait until a lock is free, without acquiring it",
		Example: `  zkr wait /jobs/nightly
  zkr wait --queue 5 /jobs/nightly
  zkr wait --leader db1 --wait 1m /app/leader`,
		Long: `wait returns when there is no contender left at PATH, or when its condition holds. It acquires nothing:
another caller may have the lock by the time wait returns.`,
		Args: onePath,
		RunE: func(cmd *cobra.Command, args []string) error {
			if most < 0 {
				return exit.Usagef("--queue %d: want 0 or more", most)
			}
			return a.connected(cmd, func(ctx context.Context, client *conn.Client) error {
				if limit > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeoutCause(ctx, time.Duration(limit), supervise.ErrWaited)
					defer cancel()
				}
				w := waiting{
					client: client, log: a.log, path: args[0], most: most, leader: leader,
					named: cmd.Flags().Changed("leader"), once: limit == 0,
				}
				err := w.run(ctx)
				switch {
				case !errors.Is(err, supervise.ErrWaited):
					return err
				case w.seen == "", !w.once && client.Status().State != zkrecipes.Connected:
					return exit.With(exit.Unreachable, fmt.Errorf("%s: gave up after %v: %w", w.path, time.Duration(limit), err))
				}
				a.log.Warn(fmt.Sprintf("%s: gave up after %v: %s; see zkr status %s",
					w.path, time.Duration(limit), w.seen, w.path))
				return exit.With(exit.Busy, nil)
			})
		},
	}
	cmd.Flags().IntVar(&most, "queue", 0, "wait until there are at most this many holders and waiters")
	cmd.Flags().StringVar(&leader, "leader", "", "wait until the holder or leader has this `name`")
	noEnv(cmd, "leader") // leader --exec sets ZKR_LEADER for its hook
	cmd.Flags().VarP(&limit, "wait", "w",
		"maximum time to wait, once connected, before exiting with 75, or with 69 if no server answers; "+
			"0 means to check once; default: no limit; see --connect-timeout")
	return cmd
}

// waiting checks a queue, and checks it again after each change.
type waiting struct {
	client *conn.Client
	path   string
	most   int
	leader string
	named  bool // it waits for a particular leader
	once   bool // it does not wait
	log    *slog.Logger
	seen   string // the obstacle at the last check

	missing bool // the node did not exist at the last check
}

func (w *waiting) run(ctx context.Context) error {
	// Sync makes the first view as recent as the call. All later views come from the same server, in order.
	if err := w.client.Sync(ctx, w.path); err != nil {
		return err
	}
	for told := false; ; {
		session, err := w.client.Session(ctx)
		if err != nil {
			return err
		}
		met, changes, err := w.look(ctx, session)
		if w.missing && !told {
			w.log.Info(fmt.Sprintf("there is no node %s: it was never used, or has since been removed", w.path))
		}
		switch {
		case errors.Is(err, zkrecipes.ErrLost):
			continue // in the next session
		case err != nil || met:
			return err
		case w.once:
			return supervise.ErrWaited
		}
		if !told {
			w.log.Info(fmt.Sprintf("waiting for %s: %s", w.path, w.seen))
			told = true
		}
		if err := first(ctx, changes); err != nil {
			return err
		}
	}
}

// look reports whether the condition holds and, if not, returns the watches that report the next change.
func (w *waiting) look(ctx context.Context, session *conn.Session) (met bool, changes []<-chan struct{}, err error) {
	names, changes, err := children(ctx, session, w.path, nil)
	if err != nil {
		return false, nil, err
	}
	w.missing = names == nil
	queue, parts := pathsOf(w.path, contenders(names)), []string{w.path + layout.KazooDoor}
	if slices.Contains(names, layout.Leases) {
		parts = pathsOf(w.path, []string{layout.Leases, layout.Door})
	}
	for _, part := range parts {
		var more []string
		if more, changes, err = children(ctx, session, part, changes); err != nil {
			return false, nil, err
		}
		if more != nil && part == w.path+layout.KazooDoor { // a semaphore of kazoo
			queue = slices.Concat(pathsOf(w.path, kazooLeases(names)), queue)
		}
		queue = append(queue, pathsOf(part, contenders(more))...)
	}
	w.seen = fmt.Sprintf("%d in the queue", len(queue))
	if !w.named {
		return len(queue) <= w.most, changes, nil
	}
	if len(queue) == 0 {
		w.seen = "the queue is empty"
		return false, changes, nil
	}
	data, _, change, err := session.GetW(ctx, queue[0])
	if errors.Is(err, zk.ErrNoNode) {
		return false, changes, nil // the list changes as well
	}
	name := survey.NameOf(zkrecipes.Participant{Name: string(data)})
	w.seen = "the first in the queue is " + survey.Plain(name)
	return err == nil && (name == w.leader || string(data) == w.leader), append(changes, change), err
}

// pathsOf returns the paths of children.
func pathsOf(parent string, names []string) []string {
	paths := make([]string, len(names))
	for i, name := range names {
		paths[i] = gopath.Join(parent, name)
	}
	return paths
}

// children lists a node and adds a watch for its next change. The list is nil if the node does not exist.
func children(
	ctx context.Context, session *conn.Session, path string, watches []<-chan struct{},
) ([]string, []<-chan struct{}, error) {
	for {
		names, watch, err := session.ChildrenW(ctx, path)
		if err == nil {
			return append([]string{}, names...), append(watches, watch), nil
		}
		if !errors.Is(err, zk.ErrNoNode) {
			return nil, nil, fmt.Errorf("list %s: %w", path, err)
		}
		there, _, watch, err := session.ExistsW(ctx, path)
		if err != nil {
			return nil, nil, err
		}
		if !there {
			return nil, append(watches, watch), nil
		}
	}
}

// first waits for the first of the watches to fire.
func first(ctx context.Context, watches []<-chan struct{}) error {
	cases := []reflect.SelectCase{{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(ctx.Done())}}
	for _, w := range watches {
		cases = append(cases, reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(w)})
	}
	if fired, _, _ := reflect.Select(cases); fired == 0 {
		return context.Cause(ctx)
	}
	return nil
}
