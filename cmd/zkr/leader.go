package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/spf13/cobra"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/exit"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/survey"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/recipes/election"
)

func newLeader(a *app) *cobra.Command {
	var follow bool
	var hook string
	var layout layoutFlags
	cmd := &cobra.Command{
		Annotations: map[string]string{looks: ""},
		Use:         "leader [flags] PATH",
		Short:       "Print which candidate leads",
		Example: `  zkr leader /app/leader
  zkr leader -o value /app/leader
  zkr leader --follow --exec 'reload-proxy "$ZKR_LEADER"' /app/leader`,
		Long: `leader prints which candidate leads at this moment. Exit status: 0, or 1 if there is no candidate.

With --follow it prints every change until it is stopped, including that there is no leader ("none"),
and that the leader is unknown because the connection was lost ("unknown").`,
		Args: onePath,
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := layout.check(); err != nil {
				return err
			}
			return a.connected(cmd, func(ctx context.Context, client *conn.Client) error {
				e, err := layout.election(client, args[0])
				if err != nil {
					return err
				}
				if follow || hook != "" {
					return a.followLeader(ctx, e, hook)
				}
				p, err := e.Leader(ctx)
				now := zkrecipes.Freshness{Current: true, AsOf: time.Now()}
				if errors.Is(err, zkrecipes.ErrNoLeader) {
					return exit.With(1, a.printLeader(election.Leadership{Freshness: now}))
				}
				if err != nil {
					return err
				}
				return a.printLeader(election.Leadership{Leader: p, Exists: true, Freshness: now})
			})
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "keep running and print every change")
	cmd.Flags().StringVar(&hook, "exec", "",
		"run this shell command `line` at every change and wait for it to end, with ZKR_LEADER as printed and ZKR_TOKEN, "+
			"which is 0 if there is no leader or the leader is unknown; implies --follow")
	layout.add(cmd)
	noEnv(cmd, "exec")
	return cmd
}

func (a *app) followLeader(ctx context.Context, e *election.Election, hook string) error {
	for view, err := range e.Watch(ctx) {
		if err != nil {
			return err
		}
		if err := a.printLeader(view); err != nil {
			return err
		}
		if hook == "" {
			continue
		}
		line := shellCommand(hook)
		cmd := exec.CommandContext(ctx, line[0], line[1:]...)
		cmd.Stdout, cmd.Stderr = a.out, a.err
		var token zkrecipes.Token // 0 unless the leader is known
		if view.Current && view.Exists {
			token = view.Leader.Token
		}
		cmd.Env = append(os.Environ(), "ZKR_LEADER="+leaderName(view), "ZKR_TOKEN="+token.String())
		if err := cmd.Run(); err != nil && ctx.Err() == nil {
			a.log.Warn("the command of --exec failed", "leader", leaderName(view), "err", err)
		}
	}
	return context.Cause(ctx)
}

// leaderName returns the name to print. An outdated view names no leader.
func leaderName(view election.Leadership) string {
	switch {
	case !view.Current:
		return "unknown"
	case !view.Exists:
		return "none"
	}
	return survey.NameOf(view.Leader)
}

func (a *app) printLeader(view election.Leadership) error {
	p := view.Leader
	answer := map[string]any{"known": view.Current, "as_of": view.AsOf.UTC().Format(time.RFC3339Nano)}
	row := []string{leaderName(view)}
	if view.Current && view.Exists {
		answer["leader"], answer["token"], answer["since"] = survey.NameOf(p), p.Token.String(),
			p.Since.UTC().Format(time.RFC3339)
		answer["session"], answer["node"] = fmt.Sprintf("0x%x", uint64(p.Session)), p.Path
		row = append(row, "token "+p.Token.String(), "since "+p.Since.UTC().Format(time.RFC3339))
	}
	return a.print(table{rows: [][]string{row}, json: answer})
}
