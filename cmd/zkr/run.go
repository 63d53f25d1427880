package main

import (
	"cmp"
	"context"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/child"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/exit"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/runs"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/supervise"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/survey"
	"github.com/zkrecipes/zkrecipes/conn"
)

// open validates what it can before the lock is acquired, and connects. If a flag enables metrics, tell serves them
// until stop is called.
func (a *app) open(cmd *cobra.Command, f *runFlags, program []string) (r *supervise.Runner,
	tell func(more ...prometheus.Collector) (stop func()), err error,
) {
	options, err := f.options(cmd)
	if err != nil {
		return nil, nil, err
	}
	path, err := find(program[0])
	if err != nil {
		return nil, nil, err
	}
	if err := f.metrics.collect(); err != nil {
		return nil, nil, err
	}
	var more []conn.Option
	collector := f.metrics.collector
	if collector != nil {
		more = append(more, conn.WithTracer(collector.Tracer()))
	}
	command := child.Command{
		Path: path, Args: program, Files: []*os.File{a.in, a.out, a.err},
		Terminal: isTerminal(a.in), Setuid: f.setuid, Cgroup: f.cgroup,
	}
	if name := cmp.Or(f.data, survey.Identity(f.id)); name != "" {
		more = append(more, conn.WithIdentity(name))
	}
	dial := func(ctx context.Context) (*conn.Client, error) { return a.dial(ctx, more...) }
	r, err = supervise.Open(cmd.Context(), options, command, a.log, f.events, a.signals, dial)
	return r, func(more ...prometheus.Collector) (stop func()) {
		if collector == nil {
			return func() {}
		}
		return a.tellMetrics(cmd.Context(), f.metrics.addresses, r.Client(), append(more, collector)...)
	}, err
}

// runOnce acquires the lock, runs the program, and releases the lock.
func (a *app) runOnce(
	cmd *cobra.Command, f *runFlags, program []string, of func(c *conn.Client) (*supervise.Target, error),
) error {
	return a.runWith(cmd, f, program, of, (*supervise.Runner).Term)
}

// runWith runs the program for one or more terms and returns the error that determines the exit status.
func (a *app) runWith(cmd *cobra.Command, f *runFlags, program []string,
	of func(c *conn.Client) (*supervise.Target, error),
	terms func(*supervise.Runner, context.Context, *supervise.Target) (supervise.Ending, error),
) error {
	r, tell, err := a.open(cmd, f, program)
	if err != nil {
		return err
	}
	defer r.Close()
	t, err := of(r.Client())
	if err != nil {
		return exit.With(exit.Usage, err)
	}
	t.Job = runs.New(strings.Join(t.Paths, " "), f.metrics.file, t.Kind != "leader")
	defer tell(t.Job)()
	end, err := terms(r, cmd.Context(), t)
	if err != nil || end.Code == 0 {
		return err
	}
	if end.Own {
		return exit.With(end.Code, nil)
	}
	return exit.Program(end.Code)
}

// durationOf returns the value of a flag that was set, and -1 otherwise.
func durationOf(cmd *cobra.Command, name string, d duration) time.Duration {
	if !cmd.Flags().Changed(name) {
		return -1
	}
	return time.Duration(d)
}
