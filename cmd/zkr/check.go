package main

import (
	"context"
	"errors"
	gopath "path"
	"slices"
	"strconv"
	"strings"

	"github.com/go-zookeeper/zk"
	"github.com/spf13/cobra"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/exit"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/layout"
)

func newCheck(a *app) *cobra.Command {
	var path, token string
	cmd := &cobra.Command{
		Annotations: map[string]string{looks: ""},
		Use:         "check [--path PATH --token TOKEN]",
		Short:       "Ask the servers whether a holder is still there",
		Example: `  zkr check && upload result
  zkr check --path /jobs/nightly --token 4294967311`,
		Long: `check asks whether the contender with the token is still in the queue at PATH, according to the leader
of the ensemble. Under zkr, ZKR_PATH and ZKR_TOKEN identify it. Exit status: 0 if it is there, 79 if it
has gone.

A resource that compares tokens is safer: the lock can be lost between a check and the step that
follows it.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			wanted, err := pairs(path, token)
			if err != nil {
				return err
			}
			return a.connected(cmd, func(ctx context.Context, client *conn.Client) error {
				for _, w := range wanted {
					there, err := present(ctx, client, w.path, w.token)
					if err != nil {
						return err
					}
					if !there {
						return exit.With(exit.Lost, nil)
					}
				}
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&path, "path", "", "`path` of the lock")
	cmd.Flags().StringVar(&token, "token", "", "`token` of the holder")
	return cmd
}

type pathToken struct {
	path  string
	token int64
}

// pairs parses paths and tokens, one per line, as zkr lock passes them for several paths.
func pairs(path, token string) ([]pathToken, error) {
	paths, tokens := lines(path), lines(token)
	if len(paths) == 0 || len(paths) != len(tokens) {
		return nil, exit.Usagef("want --path and --token, or ZKR_PATH and ZKR_TOKEN, which zkr sets for its program")
	}
	all := make([]pathToken, len(paths))
	for i := range paths {
		number, err := strconv.ParseInt(tokens[i], 10, 64)
		if err != nil || number <= 0 {
			return nil, exit.Usagef("--token %s: want a positive number", tokens[i])
		}
		if err := validPaths(paths[i]); err != nil {
			return nil, err
		}
		all[i] = pathToken{paths[i], number}
	}
	return all, nil
}

func lines(text string) []string {
	return slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool { return line == "" })
}

// present reports whether the queue at path has a contender that was created by the transaction token.
func present(ctx context.Context, client *conn.Client, path string, token int64) (bool, error) {
	if err := client.Sync(ctx, path); err != nil {
		return false, err
	}
	for _, dir := range []string{path, gopath.Join(path, layout.Leases)} {
		names, err := client.Children(ctx, dir)
		if errors.Is(err, zk.ErrNoNode) {
			continue
		} else if err != nil {
			return false, err
		}
		for _, name := range slices.Concat(kazooLeases(names), contenders(names)) { // holders come first
			there, stat, err := client.Exists(ctx, gopath.Join(dir, name))
			if err != nil {
				return false, err
			}
			if there && stat.Czxid == token {
				return true, nil
			}
		}
	}
	return false, nil
}
