package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/spf13/cobra"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/exit"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/survey"
	"github.com/zkrecipes/zkrecipes/conn"
)

type breakFlags struct {
	token               int64
	reason              string
	yes, foreign, alive bool
	onPage              bool // the user has checkboxes instead of flags
}

func newBreak(a *app) *cobra.Command {
	var flags breakFlags
	cmd := &cobra.Command{
		Use:   "break [flags] --token TOKEN PATH",
		Short: "Delete a contender of a queue by hand",
		Example: `  zkr status /jobs/nightly
  zkr break --token 4294967311 --reason 'web1 is gone' /jobs/nightly`,
		Long: `break deletes the contender with the given token, as shown by status, and nothing else. It first shows
the contender and asks for confirmation.

A live holder notices within a round trip, and stops. Until then, a resource that does not check tokens
is not protected. break therefore refuses a contender whose session the servers know to be alive,
unless --alive is given. The servers report that only if 4lw.commands.whitelist allows dump. zkr revoke
asks a holder to release, and is harmless.

Exit status: 1 if there is no such contender, or the answer is no; 125 if --alive or --foreign is
required.`,
		Args: onePath,
		RunE: func(cmd *cobra.Command, args []string) error {
			if flags.token <= 0 {
				return exit.Usagef("want --token: zkr status %s shows it", args[0])
			}
			return a.connected(cmd, func(ctx context.Context, client *conn.Client) error {
				return a.breakContender(ctx, client, args[0], flags)
			})
		},
	}
	cmd.Flags().Int64Var(&flags.token, "token", 0, "`token` of the contender")
	cmd.Flags().StringVar(&flags.reason, "reason", "", "`text` to log")
	cmd.Flags().BoolVarP(&flags.yes, "yes", "y", false,
		"delete without showing the contender and asking; the log describes it")
	cmd.Flags().BoolVar(&flags.foreign, "foreign", false, "allow a node of a recipe that zkr does not know")
	cmd.Flags().BoolVar(&flags.alive, "alive", false, "allow a contender whose session is known to be alive")
	noEnv(cmd, "token", "reason", "yes", "foreign", "alive")
	return cmd
}

func (a *app) breakContender(ctx context.Context, client *conn.Client, path string, flags breakFlags) error {
	d, err := a.doom(ctx, client, path, flags)
	if err != nil {
		return err
	}
	if err := a.confirm(ctx, d, flags.yes); err != nil {
		return err
	}
	states, err := a.carryOut(ctx, client, d, flags.reason, "terminal")
	if states == nil {
		return err
	}
	t := table{header: []string{"NODE", "SERVER", "STATE"}}
	for _, server := range slices.Sorted(maps.Keys(states)) {
		t.rows = append(t.rows, []string{d.Node, server, states[server]})
	}
	t.json = map[string]any{"node": d.Node, "id": d.ID, "token": strconv.FormatInt(d.Token, 10), "servers": states}
	return errors.Join(a.print(t), err)
}

// doomed is a contender about to be deleted.
type doomed struct {
	*survey.Contender
	queue *survey.Queue
	alive string // what the servers report about its session
}

// doom finds the contender with the token, and returns an error if the flags do not allow its deletion.
func (a *app) doom(ctx context.Context, client *conn.Client, path string, flags breakFlags) (*doomed, error) {
	queue, err := (&survey.Reader{Client: client}).Path(ctx, path)
	if err != nil {
		return nil, err
	}
	found, err := withToken(queue, flags.token)
	if err != nil {
		return nil, err
	}
	if found.Library == "foreign" && !flags.foreign {
		return nil, exit.With(exit.Failure, fmt.Errorf("%s is not a node of a known recipe: to delete it anyway, %s",
			found.Node, flags.insist("foreign")))
	}
	d := &doomed{found, queue, "unknown whether it is alive: the leader does not answer dump"}
	switch known := a.sessions(ctx); {
	case found.Session == "":
		d.alive = "none: the node is not ephemeral"
	case known.known[found.Stat.EphemeralOwner]:
		d.alive = "alive"
		if !flags.alive {
			return nil, exit.With(exit.Failure, fmt.Errorf("session %s of %s is alive: ask the holder with zkr revoke %s, "+
				"or stop its process; to delete the node anyway, %s",
				found.Session, found.Name(), path, flags.insist("alive")))
		}
	case known.complete:
		d.alive = "unknown to the leader: a ghost"
	}
	return d, nil
}

// insist explains how to delete a node that is refused without the flag.
func (f breakFlags) insist(flag string) string {
	if f.onPage {
		return "tick the box in the dialog"
	}
	return "pass --" + flag
}

// describe describes the contender to be deleted.
func (d *doomed) describe() string {
	place := "holds it"
	if d.Place > 0 {
		place = fmt.Sprintf("waits at place %d", d.Place)
	}
	return fmt.Sprintf(
		"%s: %s, %d waiting\n  node     %s\n  id       %s, %s, here for %v\n  token    %d\n  session  %s, %s\n",
		d.queue.Path, d.queue.Words, len(d.queue.Waiters), d.Node, d.Name(), place, survey.Round(time.Since(d.Since)),
		d.Token, orDash(d.Session), d.alive)
}

// carryOut deletes the contender and logs the deletion. It returns the state of the node on each server afterwards, or
// nil if nothing was deleted. If a server still has the node, carryOut returns an error as well.
func (a *app) carryOut(
	ctx context.Context, client *conn.Client, d *doomed, reason, from string,
) (map[string]string, error) {
	if err := remove(ctx, client, d.Contender); err != nil {
		return nil, err
	}
	a.log.Warn("deleted a contender", "path", d.queue.Path, "node", d.Node, "id", d.ID, "token", d.Token,
		"session", d.Session, "alive", d.alive, "queue", d.queue.Words,
		"by", client.Identity(), "from", from, "reason", reason)
	return a.verify(ctx, d.Contender)
}

// withToken finds the contender with the token. Permits that were acquired together share a token, and this command
// does not handle them.
func withToken(queue *survey.Queue, token int64) (*survey.Contender, error) {
	var found []*survey.Contender
	for _, c := range queue.Contenders() {
		if c.Token == token {
			found = append(found, c)
		}
	}
	switch {
	case len(found) == 0:
		return nil, exit.With(1, fmt.Errorf("%s: no contender has the token %d: run zkr status %s to list the contenders",
			queue.Path, token, queue.Path))
	case len(found) > 1:
		return nil, exit.With(1,
			fmt.Errorf("%s: %d permits share the token %d because they were acquired together: "+
				"end the session %s to release them all",
				queue.Path, len(found), token, found[0].Session))
	}
	return found[0], nil
}

// confirm shows what will be deleted and asks for confirmation, unless that is given.
func (a *app) confirm(ctx context.Context, d *doomed, yes bool) error {
	if yes {
		return nil
	}
	if !isTerminal(a.in) {
		return exit.Usagef("cannot ask for confirmation because standard input is not a terminal: pass --yes")
	}
	if _, err := fmt.Fprint(a.err, plainLines(d.describe()), "Delete this node? Type yes: "); err != nil {
		return err
	}
	answer := make(chan string, 1)
	go func() { // the read cannot be interrupted; it ends with the process
		line, _ := bufio.NewReader(a.in).ReadString('\n')
		answer <- line
	}()
	select {
	case line := <-answer:
		if strings.TrimSpace(line) != "yes" {
			return exit.With(1, errors.New("nothing was deleted"))
		}
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// remove deletes the node of c if it is still the same node. A path in a queue is never reused unless its parent was
// deleted and created again; therefore remove compares the czxid, and deletes only the version that it read together
// with it.
func remove(ctx context.Context, client *conn.Client, c *survey.Contender) error {
	for range 5 {
		if err := client.Sync(ctx, c.Node); err != nil {
			return err
		}
		exists, stat, err := client.Exists(ctx, c.Node)
		if err != nil {
			return err
		}
		if !exists || stat.Czxid != c.Token || stat.EphemeralOwner != c.Stat.EphemeralOwner {
			return exit.With(1, fmt.Errorf("%s has already left the queue: nothing was deleted", c.Node))
		}
		err = client.Delete(ctx, c.Node, stat.Version)
		if !errors.Is(err, zk.ErrBadVersion) && !errors.Is(err, zk.ErrNoNode) { // else it changed, or left
			return err
		}
	}
	return fmt.Errorf("%s keeps changing: nothing was deleted", c.Node)
}

// verify checks each server. A node that remains on one of them is a ghost of that server.
func (a *app) verify(ctx context.Context, c *survey.Contender) (states map[string]string, left error) {
	addresses, chroot, err := a.servers(ctx)
	if err != nil {
		return map[string]string{a.connectString(): fmt.Sprintf("not checked: %v", err)}, nil
	}
	still := 0
	states = map[string]string{}
	for _, server := range addresses {
		states[server] = "deleted"
		switch there, err := a.onServer(ctx, server, chroot, c); {
		case err != nil:
			states[server] = fmt.Sprintf("not checked: %v", err)
		case there:
			states[server] = "still there"
			still++
		}
	}
	if still > 0 {
		left = fmt.Errorf("%s still exists on %d servers, which disagree with the leader: "+
			"restart them with an empty data directory, one at a time", c.Node, still)
	}
	return states, left
}

func (a *app) onServer(ctx context.Context, server, chroot string, c *survey.Contender) (bool, error) {
	client, err := a.dialOne(ctx, server, chroot)
	if err != nil {
		return false, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, serverPatience)
	defer cancel()
	return isThere(ctx, client, c)
}

// isThere reports whether a contender still exists at the time of the call.
func isThere(ctx context.Context, client *conn.Client, c *survey.Contender) (bool, error) {
	if err := client.Sync(ctx, c.Node); err != nil {
		return false, err
	}
	exists, stat, err := client.Exists(ctx, c.Node)
	return exists && stat.Czxid == c.Token, err
}
