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
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/survey"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/layout"
)

func newRevoke(a *app) *cobra.Command {
	var token int64
	cmd := &cobra.Command{
		Use:   "revoke [--token TOKEN] PATH",
		Short: "Ask the holders of a lock to release it",
		Example: `  zkr revoke /jobs/nightly
  zkr revoke --token 4294967311 /jobs/nightly && zkr wait /jobs/nightly`,
		Long: `revoke asks all holders, or the contender with the given token, to release. What follows is up to the
holder: a program under zkr is stopped if --on-revoke term is set, and other programs watch
Hold.Revoked or Curator's RevocationListener. Programs that use kazoo cannot be asked.

By Curator's convention, the request replaces the data of the node, and with it the ID, host and
process: revoke prints them, and zkr status shows the session from then on.

Exit status: 1 if there is no contender to ask.`,
		Args: onePath,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.connected(cmd, func(ctx context.Context, client *conn.Client) error {
				return a.revoke(ctx, client, args[0], token)
			})
		},
	}
	cmd.Flags().Int64Var(&token, "token", 0, "`token` of the contender to ask; default: all holders")
	noEnv(cmd, "token")
	return cmd
}

func (a *app) revoke(ctx context.Context, client *conn.Client, path string, token int64) error {
	queue, err := (&survey.Reader{Client: client}).Path(ctx, path)
	if err != nil {
		return err
	}
	ask := queue.Holders
	if token != 0 {
		ask = slices.DeleteFunc(queue.Contenders(), func(c *survey.Contender) bool { return c.Token != token })
	}
	t := table{header: []string{"ID", "HOST", "PROCESS", "TOKEN", "NODE"}}
	var asked []*survey.Contender
	var errs []error
	for _, c := range ask {
		switch there, err := askToRelease(ctx, client, c); {
		case err != nil:
			errs = append(errs, err)
		case there:
			asked = append(asked, c)
			t.rows = append(t.rows, []string{c.Name(), orDash(c.Host), processOf(c), strconv.FormatInt(c.Token, 10), c.Node})
		}
	}
	t.json = asked
	switch {
	case len(asked) > 0:
		a.log.Info("the request has replaced the name: zkr status shows the session from now on")
		return errors.Join(append(errs, a.print(t))...)
	case len(errs) > 0:
		return errors.Join(errs...)
	}
	return exit.With(1, fmt.Errorf("%s: there is no contender to ask", path))
}

// askToRelease writes the request of Curator's Revoker. It returns false if the contender has left.
func askToRelease(ctx context.Context, client *conn.Client, c *survey.Contender) (bool, error) {
	if c.Library != "curator" {
		return false, fmt.Errorf("%s cannot be asked to release: it is a %s node", c.Node, c.Library)
	}
	_, err := client.Set(ctx, c.Node, []byte(layout.RevokeRequest), -1)
	if errors.Is(err, zk.ErrNoNode) {
		return false, nil
	}
	return err == nil, err
}
