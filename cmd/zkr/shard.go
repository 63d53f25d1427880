package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/child"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/exit"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/signals"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/supervise"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/recipes/shard"
)

// shardFlags are the flags that shard adds to those of a program.
type shardFlags struct {
	names          []string
	count          int
	node           bool
	member         string
	weight, giveUp int
	settle         duration
	returnGrace    duration
}

func newShard(a *app) *cobra.Command {
	f := runFlags{leftovers: "kill", onRevoke: "ignore", onLoss: "kill"}
	s := shardFlags{settle: duration(time.Second)}
	cmd := &cobra.Command{
		Use:         "shard [flags] PATH -- PROGRAM [ARGUMENT...]",
		Annotations: map[string]string{service: ""},
		Short:       "Divide shards among machines, and run a program for each shard of this machine",
		Example: `  zkr shard --count 12 /app/partitions -- consume --partition {}
  zkr shard --shards eu,us,asia /app/regions -- sync-region {}
  zkr shard --count 12 --id "$(hostname)" --return-grace 60 /app/partitions -- consume --partition {}`,
		Long: `shard makes this machine a member at PATH. The members divide the shards, and each runs the program
once for each shard that it owns, under the lock of that shard and with the guarantees of "zkr lock":
if the lock is about to be lost, or zkr is killed or stopped, the program and everything that it has
started are killed before another machine can own the shard.

{} in an argument is replaced by the name of the shard, which is also in ZKR_SHARD. --shell replaces no
{}, so use ZKR_SHARD there. ZKR_TOKEN and the other variables are those of "zkr lock". All machines
must have the same shards: one of --shards, --count (0 to N-1, all with the same number of digits) or
--shards-node, the node PATH/shards with a list of names in JSON, which may change.

When a shard moves, --signal asks its program to stop, and SIGKILL follows after --stop-timeout. The
next machine starts its program when all processes have ended. A program that exits by itself is
restarted after a pause: 0.1 s at first, doubling each time, up to 30 s. A run of a minute resets the
pauses. After --give-up failures in a row the shard moves to another machine.

INT, TERM or QUIT, or HUP in a terminal, makes zkr leave: it stops its programs one after another, and
the next owners start. After a session timeout, or a second signal, it stops all remaining programs
together. With --return-grace, it stops all programs together, and their shards wait for this machine to
return. Other signals are passed on to all programs. The standard input of programs is empty.

Exit status: 0 after it has left, whatever the status of its programs. A lost lock ends its program,
not zkr.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			before, program, err := split(cmd, args, f.shell)
			if err != nil {
				return err
			}
			if err := onePath(cmd, before); err != nil {
				return err
			}
			return a.shard(cmd, &f, &s, before[0], program)
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&s.names, "shards", nil, "`names` of the shards")
	flags.IntVar(&s.count, "count", 0, "`number` of shards, which are named by numbers")
	flags.BoolVar(&s.node, "shards-node", false, "read the shards from the node PATH/shards, a list of names in JSON")
	flags.StringVar(&s.member, "id", "",
		"`name` of this member, unique to each machine; default: host-pid and random letters")
	flags.IntVar(&s.weight, "weight", 1, "share of this member relative to the others")
	flags.IntVar(&s.giveUp, "give-up", 5, "number of consecutive `failures` after which the shard is given away")
	flags.Var(&s.settle, "settle", "how long members must be unchanged before shards move only for balance")
	flags.Var(&s.returnGrace, "return-grace",
		"how long shards wait for this member to return after INT or TERM; requires --id")
	f.addProgram(flags)
	flags.Lookup("stop-timeout").Usage = "time between asking a program to stop and SIGKILL; default: --grace"
	noEnv(cmd, "shell", "shards", "count", "shards-node")
	return cmd
}

// source returns the set of shards.
func (s *shardFlags) source() (shard.Source, error) {
	given := 0
	for _, is := range []bool{len(s.names) > 0, s.count != 0, s.node} {
		if is {
			given++
		}
	}
	switch {
	case given != 1:
		return shard.Source{}, exit.Usagef("want one of --shards, --count and --shards-node")
	case s.node:
		return shard.Node(), nil
	case s.count < 0 || s.count > maxCount:
		return shard.Source{}, exit.Usagef("--count %d: want 1 to %d", s.count, maxCount)
	case s.count > 0:
		return shard.List(numbered(s.count)...), nil
	}
	for i, name := range s.names {
		if strings.Contains(name, "/") || conn.ValidatePath("/"+name) != nil || name == "" ||
			slices.Contains(s.names[:i], name) {
			return shard.Source{}, exit.Usagef("--shards %s: want unique names without slashes", name)
		}
	}
	return shard.List(s.names...), nil
}

// maxCount is how many names of five digits fit into the plan, which is one node, together with thousands of members.
const maxCount = 100_000

// numbered returns the names of n shards, all of the same length.
func numbered(n int) []string {
	names, digits := make([]string, n), len(strconv.Itoa(n-1))
	for i := range names {
		names[i] = fmt.Sprintf("%0*d", digits, i)
	}
	return names
}

func (s *shardFlags) options(path string) []shard.Option {
	options := []shard.Option{
		shard.WithWeight(s.weight), shard.WithGiveUp(s.giveUp), shard.WithTracerName(metricsName(path)),
		shard.WithSettle(time.Duration(s.settle), 10*time.Duration(s.settle)),
		shard.WithReturnGrace(time.Duration(s.returnGrace)),
	}
	if s.member != "" {
		options = append(options, shard.WithID(s.member))
	}
	return options
}

// shard runs a member until it is asked to stop.
func (a *app) shard(cmd *cobra.Command, f *runFlags, s *shardFlags, at string, program []string) error {
	source, err := s.source()
	if err != nil {
		return err
	}
	r, tell, err := a.open(cmd, f, program)
	if err != nil {
		return err
	}
	defer r.Close()
	defer tell()()
	shards := s.options(at)
	if metrics := f.metrics.collector; metrics != nil {
		shards = append(shards, shard.WithTracer(metrics.ShardTracer()))
	}
	all, err := shard.New(r.Client(), at, shards...)
	if err != nil {
		return exit.With(exit.Usage, err)
	}
	patience, err := r.Ready(cmd.Context())
	if err != nil {
		return err
	}
	if s.returnGrace > 0 {
		patience = 0
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer null.Close() //nolint:errcheck // read-only
	_, forward, err := f.signals()
	if err != nil {
		return err
	}
	m := &shardMember{
		app: a, runner: r, all: all, literal: f.shell != "", forward: forward, running: map[chan os.Signal]bool{},
		command: r.Command(),
	}
	m.command.Files, m.command.Terminal = []*os.File{null, a.out, a.err}, false
	return m.run(cmd.Context(), source, patience)
}

// shardMember runs a program for each shard that it owns.
type shardMember struct {
	*app
	runner  *supervise.Runner
	all     *shard.Shards
	command child.Command
	literal bool // {} is not replaced
	forward []os.Signal

	mu      sync.Mutex
	running map[chan os.Signal]bool // the channels that deliver signals to each program
}

var errAsked = errors.New("asked to stop")

// run serves shards until the member has left. The first signal makes it leave, unless its shards wait for its return.
// After patience, all programs that still run are asked to stop together: perhaps no server answers, or the signal
// arrived before the member had joined.
func (m *shardMember) run(ctx context.Context, source shard.Source, patience time.Duration) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	ended := make(chan error, 1)
	go func() { ended <- m.all.Run(ctx, source, m.serve) }() // waited for below
	terminal := isTerminal(m.in)
	var asked time.Time
	var late <-chan time.Time
	for {
		select {
		case err := <-ended:
			if errors.Is(err, errAsked) {
				return nil
			}
			return err
		case <-late:
			stop(errAsked)
		case one := <-m.signals.Arrived:
			switch {
			case !stopsMember(one, terminal):
				m.pass(one)
				continue
			case time.Since(asked) < signals.AsOne:
			case asked.IsZero() && patience > 0:
				go func() { _ = m.all.Leave(ctx) }() // ends with ctx, and Run reports the result
				late = time.After(patience)
			default:
				stop(errAsked)
			}
			asked = time.Now()
		}
	}
}

// stopsMember reports whether a signal asks a member to stop. SIGHUP does if zkr runs in a terminal, which has then
// closed; without a terminal, SIGHUP asks many programs to reload their configuration.
func stopsMember(one os.Signal, terminal bool) bool {
	return one == os.Interrupt || one == syscall.SIGTERM || one == syscall.SIGQUIT || one == syscall.SIGHUP && terminal
}

// pass forwards a signal to all programs.
func (m *shardMember) pass(one os.Signal) {
	if !slices.Contains(m.forward, one) {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for arrived := range m.running {
		select {
		case arrived <- one:
		default: // as many are pending as the kernel would queue
		}
	}
}

// serve runs the program for one shard.
func (m *shardMember) serve(ctx context.Context, s *shard.Shard) error {
	arrived := make(chan os.Signal, 16)
	m.mu.Lock()
	m.running[arrived] = true
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.running, arrived)
	}()
	grant, _ := supervise.Single(s.Hold, nil)
	end, err := m.runner.Under(ctx, &supervise.Target{
		Kind: "shard", Paths: []string{path.Dir(s.Path())},
		Program: &supervise.Program{
			Command: m.commandFor(s.Name), Env: []string{"ZKR_SHARD=" + s.Name}, Arrived: arrived,
			Tell: map[string]any{"shard": s.Name},
		},
	}, grant)
	if err == nil && !end.Asked && !end.Lost && end.Code != 0 {
		err = fmt.Errorf("the program exited with status %d", end.Code)
	}
	return err
}

func (m *shardMember) commandFor(name string) child.Command {
	c := m.command
	if !m.literal {
		c.Args = slices.Clone(c.Args)
		for i := 1; i < len(c.Args); i++ {
			c.Args[i] = strings.ReplaceAll(c.Args[i], "{}", name)
		}
	}
	return c
}
