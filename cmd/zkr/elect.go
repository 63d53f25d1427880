package main

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/exit"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/health"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/supervise"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/recipes/election"
)

// electFlags are the flags that elect adds to those of the verbs that run a program.
type electFlags struct {
	once    bool
	restart string
	layout  layoutFlags
	check   checkFlags
	start   duration
}

func newElect(a *app) *cobra.Command {
	var f runFlags
	e := electFlags{start: duration(time.Minute)}
	cmd := &cobra.Command{
		Use:         "elect [flags] PATH -- PROGRAM [ARGUMENT...]",
		Annotations: map[string]string{service: ""},
		Short:       "Run a program whenever this candidate leads",
		Example: `  zkr elect /app/leader -- serve --active
  zkr elect --restart always --id "$(hostname)" /app/leader -- serve --active
  zkr elect --check http://127.0.0.1:8080/healthz /app/leader -- serve --active`,
		Long: `elect stands in the election at PATH and runs the program while this candidate leads. When the
leadership is lost, or another client has requested it (--on-revoke term), elect stops the program and
stands again. Each term has a new ZKR_TOKEN, larger than all before. When the program exits by itself,
elect resigns; --restart controls whether it stands again, after a pause that grows from 1 s to 1 min
while terms end within a minute.

With --check, elect checks the program while it leads. If the check fails --check-failures times in a
row, or does not pass within --check-start, elect stops the program, subject to --stop-timeout
(default: the grace), resigns, and stands again after that pause, at the end of the queue. With --once
it exits with 125 instead. A check is one of
  tcp://host:port   the port accepts a connection
  http://host/path  the URL answers with 200 to 399; also https
  exec:line         a shell command line exits with status 0`,
		RunE: func(cmd *cobra.Command, args []string) error {
			before, program, err := split(cmd, args, f.shell)
			if err != nil {
				return err
			}
			if err := onePath(cmd, before); err != nil {
				return err
			}
			if err := e.verify(); err != nil {
				return err
			}
			return a.elect(cmd, &f, &e, before[0], program)
		},
	}
	f.add(cmd)
	noEnv(cmd, "shell")
	cmd.Flags().BoolVar(&e.once, "once", false, "exit after one term")
	cmd.Flags().StringVar(&e.restart, "restart", "never",
		"stand again when the program has exited by itself: never, on-failure or always")
	e.check.add(cmd.Flags(), "none",
		"how to check the health of the program while it leads: tcp://host:port, a URL, exec:line or none",
		"stop the program and resign after this many consecutive failed checks")
	cmd.Flags().Var(&e.start, "check-start", "time within which the check must pass for the first time; 0 means no limit")
	e.layout.add(cmd)
	return cmd
}

// layoutFlags select how candidates are named.
type layoutFlags struct {
	name  string
	kazoo bool
}

func (l *layoutFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&l.name, "layout", "latch", "how candidates are named: latch, or selector, which lock uses too")
	addKazoo(cmd, &l.kazoo)
}

func addKazoo(cmd *cobra.Command, kazoo *bool) {
	cmd.Flags().BoolVar(kazoo, "kazoo", false,
		"share the path with Python programs that use kazoo; required for every zkr on the path")
}

// check validates the flags and returns them as options.
func (l *layoutFlags) check() (options []election.Option, err error) {
	layouts := map[string]election.Layout{"latch": election.Latch, "selector": election.Selector}
	layout, known := layouts[l.name]
	if !known {
		return nil, exit.Usagef("--layout %s: want latch or selector", l.name)
	}
	options = append(options, election.WithLayout(layout))
	if l.kazoo {
		options = append(options, election.WithKazoo())
	}
	return options, nil
}

// election returns the election at path.
func (l *layoutFlags) election(c *conn.Client, path string) (*election.Election, error) {
	options, err := l.check()
	if err != nil {
		return nil, err
	}
	e, err := election.New(c, path, append(options, election.WithTracerName(metricsName(path)))...)
	if err != nil {
		return nil, exit.With(exit.Usage, err)
	}
	return e, nil
}

func (e *electFlags) verify() error {
	if !slices.Contains([]string{"never", "on-failure", "always"}, e.restart) {
		return exit.Usagef("--restart %s: want never, on-failure or always", e.restart)
	}
	if _, err := e.layout.check(); err != nil {
		return err
	}
	_, err := e.check.probe(0)
	return err
}

// probe returns the health check of the program, or nil if there is none.
func (e *electFlags) probe() *health.Probe {
	probe, err := e.check.probe(0)
	if err != nil || e.check.check == "none" {
		return nil // verify has rejected invalid flags
	}
	probe.Start = time.Duration(e.start)
	return probe
}

func candidacy(c *conn.Client, path string, layout layoutFlags) (*supervise.Target, error) {
	e, err := layout.election(c, path)
	if err != nil {
		return nil, err
	}
	campaign := func(ctx context.Context) (*supervise.Grant, error) {
		term, err := e.Campaign(ctx)
		if err != nil {
			return nil, err
		}
		return supervise.Single(term.Hold, nil)
	}
	// An election has no call that tries without waiting, so the list of candidates decides. If another candidate joins in
	// the meantime, the runner ends ctx.
	try := func(ctx context.Context) (*supervise.Grant, error) {
		switch candidates, err := e.Queue(ctx); {
		case err != nil:
			return nil, err
		case len(candidates) > 0:
			return nil, &zkrecipes.BusyError{Path: path, Holder: candidates[0], Queue: len(candidates)}
		}
		return campaign(ctx)
	}
	return &supervise.Target{
		Kind: "leader", Paths: []string{path}, Lock: campaign, Try: try, Queues: []supervise.Queue{e.Queue},
	}, nil
}

// elect serves one term after another.
func (a *app) elect(cmd *cobra.Command, f *runFlags, e *electFlags, path string, program []string) error {
	of := func(c *conn.Client) (*supervise.Target, error) {
		t, err := candidacy(c, path, e.layout)
		if err == nil {
			t.Health = e.probe()
		}
		return t, err
	}
	return a.runWith(cmd, f, program, of,
		func(r *supervise.Runner, ctx context.Context, t *supervise.Target) (supervise.Ending, error) {
			return r.Terms(ctx, t, e.another)
		})
}

// another reports whether to stand for another term after this one.
func (e *electFlags) another(end supervise.Ending) bool {
	switch {
	case e.once, end.Asked && !end.Reload, end.Unfinished:
		return false
	case end.Lost, end.Revoked, end.Unhealthy:
		return true
	default:
		return e.restart == "always" || e.restart == "on-failure" && end.Code != 0
	}
}
