package main

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/recipes/election"
)

// electFlags are what elect adds to the verbs that run a program.
type electFlags struct {
	once            bool
	layout, restart string
}

func newElect(a *app) *cobra.Command {
	var f runFlags
	var e electFlags
	cmd := &cobra.Command{
		Use:   "elect [flags] PATH -- PROGRAM [ARGUMENT...]",
		Short: "Run a program while this is the leader, again and again",
		Example: `  zkr elect /app/leader -- serve --active
  zkr elect --restart always --id "$(hostname)" /app/leader -- serve --active`,
		Long: `elect stands for the election at PATH and runs the program while this candidate leads. When the leadership is lost, or
another client has asked for it (--on-revoke term), elect stops the program and stands again. Each term has a new ZKR_TOKEN,
larger than all before. When the program ends by itself, elect resigns; --restart says whether it stands again, after a
pause that grows from 1 s to 1 min while terms end within a minute.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			before, program, err := split(cmd, args, f.shell)
			if err != nil {
				return err
			}
			if err := onePath(cmd, before); err != nil {
				return err
			}
			if err := e.check(); err != nil {
				return err
			}
			return a.elect(cmd, &f, &e, before[0], program)
		},
	}
	f.add(cmd)
	noEnv(cmd, "shell")
	cmd.Flags().BoolVar(&e.once, "once", false, "end after one term")
	cmd.Flags().StringVar(&e.restart, "restart", "never", "stand again when the program has ended by itself: never, on-failure or always")
	addLayout(cmd, &e.layout)
	return cmd
}

func addLayout(cmd *cobra.Command, layout *string) {
	cmd.Flags().StringVar(layout, "layout", "latch", "how candidates are named: latch, or selector, which is also that of lock")
}

func layoutOf(name string) (election.Layout, error) {
	switch name {
	case "latch":
		return election.Latch, nil
	case "selector":
		return election.Selector, nil
	}
	return 0, usagef("--layout %s: want latch or selector", name)
}

func (e *electFlags) check() error {
	if !slices.Contains([]string{"never", "on-failure", "always"}, e.restart) {
		return usagef("--restart %s: want never, on-failure or always", e.restart)
	}
	_, err := layoutOf(e.layout)
	return err
}

func candidacy(c *conn.Client, path, layout string) (*target, error) {
	l, err := layoutOf(layout)
	if err != nil {
		return nil, err
	}
	e, err := election.New(c, path, election.WithLayout(l))
	if err != nil {
		return nil, exitWith(exitUsage, err)
	}
	campaign := func(ctx context.Context) (*grant, error) {
		term, err := e.Campaign(ctx)
		if err != nil {
			return nil, err
		}
		return single(term.Hold, nil)
	}
	// There is no way to stand for an election without waiting. A look at the candidates decides.
	try := func(ctx context.Context) (*grant, error) {
		switch candidates, err := e.Candidates(ctx); {
		case err != nil:
			return nil, err
		case len(candidates) > 0:
			return nil, &zkrecipes.BusyError{Path: path, Holder: candidates[0], Queue: len(candidates)}
		}
		ctx, cancel := context.WithTimeoutCause(ctx, time.Second, errWaited) // another candidate may have come meanwhile
		defer cancel()
		return campaign(ctx)
	}
	return &target{kind: "leader", paths: []string{path}, lock: campaign, try: try, queue: e.Queue}, nil
}

// elect serves one term after the other.
func (a *app) elect(cmd *cobra.Command, f *runFlags, e *electFlags, path string, program []string) error {
	r, err := a.newRunner(cmd, f, program)
	if err != nil {
		return err
	}
	defer r.close()
	t, err := candidacy(r.client, path, e.layout)
	if err != nil {
		return err
	}
	pause := firstPause
	for {
		began := time.Now()
		end, err := r.term(cmd.Context(), t)
		if lost := errors.Is(err, zkrecipes.ErrLost); err != nil && (!lost || e.once) {
			return err
		} else if lost {
			end.lost = true
		}
		if e.once || !e.another(end) {
			return statusOf(end.code)
		}
		r.events.say(slog.LevelInfo, "again", fields{"status": end.code}, "standing for the election again")
		if end.lost || end.revoked {
			continue
		}
		if time.Since(began) > longTerm {
			pause = firstPause
		}
		if err := r.sleep(cmd.Context(), pause); err != nil {
			return err
		}
		pause = min(2*pause, longTerm)
	}
}

// The pauses after a program that has ended by itself, and the length of a term that starts them anew.
const (
	firstPause = time.Second
	longTerm   = time.Minute
)

// another reports whether there is another term after this one.
func (e *electFlags) another(end ending) bool {
	switch {
	case end.asked, end.unfinished:
		return false
	case end.lost, end.revoked:
		return true
	default:
		return e.restart == "always" || e.restart == "on-failure" && end.code != 0
	}
}

// sleep lets a time pass, unless a signal asks zkr to stop.
func (r *runner) sleep(ctx context.Context, d time.Duration) error {
	ctx, done := r.signals.context(ctx)
	defer done()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
