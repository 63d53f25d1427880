package main

import (
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/exit"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/signals"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/supervise"
)

// runFlags are the flags of the verbs that run a program.
type runFlags struct {
	try, busyOK     bool
	wait            duration
	busy            int
	id, data        string
	grace, lead     duration
	signal          string
	minHold, maxRun duration
	onLoss          string
	lossGrace       duration
	leftovers       string
	onRevoke        string
	forward         string
	stopTimeout     duration
	events          int
	shell           string
	setuid, cgroup  bool
	metrics         metricsFlags
}

func (f *runFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&f.try, "try", false, "do not wait for other holders, but exit with the busy status")
	flags.VarP(&f.wait, "wait", "w",
		"maximum time to wait, once connected, before exiting with the busy status, or with 69 if no server answers; "+
			"0 means --try; default: no limit; see --connect-timeout")
	flags.IntVarP(&f.busy, "busy-status", "E", exit.Busy, "exit `status` when another holder has the lock")
	flags.BoolVar(&f.busyOK, "busy-ok", false, "exit with 0 when another holder has the lock")
	flags.StringVar(&f.id, "id", "", "`name` of this holder as shown to others, followed by host/pid; default: host/pid")
	flags.StringVar(&f.data, "data", "", "verbatim `data` of the contender, instead of --id")
	flags.Var(&f.minHold, "min-hold", "hold the lock for at least this long, even after the program has ended")
	flags.Var(&f.maxRun, "max-run",
		"stop the program after this long, and exit with 124; with --leftovers wait, also what it has left running")
	flags.StringVar(&f.onLoss, "on-loss", "kill",
		"when the lock is about to be lost: kill (signal, grace, SIGKILL), term (signal only) or ignore; "+
			"only kill prevents two holders from running at once")
	flags.Var(&f.lossGrace, "loss-grace",
		"grace before SIGKILL if the lock is already lost; two programs may run at once for this long")
	flags.StringVar(&f.leftovers, "leftovers", "kill",
		"what to do with processes that the program has left running: kill, wait or ignore")
	flags.StringVar(&f.onRevoke, "on-revoke", "ignore",
		"when another client requests the lock: ignore, or term to stop the program")
	flags.StringVar(&f.metrics.file, "metrics-file", "",
		"`file` for the textfile collector of node_exporter: last run, its end and status, last success")
	f.addProgram(flags)
	flags.Lookup("signal").Usage = "`signal` that asks the program to stop if zkr itself decides to, as before a loss; " +
		"signals to zkr are passed on unchanged, see --forward"
	flags.Lookup("stop-timeout").Usage = "time between a request to stop zkr, which a key of the terminal is not, and " +
		"SIGKILL; default: no limit"
	flags.Lookup("forward").Usage += "; without --stop-timeout, a signal that is not passed on does not stop the program"
}

// addProgram adds the flags shared with shard, which runs several programs.
func (f *runFlags) addProgram(flags *pflag.FlagSet) {
	flags.Var(&f.grace, "grace", "time between --signal and SIGKILL; default: a quarter of the session timeout")
	flags.Var(&f.lead, "kill-lead",
		"time between SIGKILL and the deadline of the lock; default: 250ms plus a hundredth of the session timeout, "+
			"at most a twentieth of it")
	flags.StringVar(&f.signal, "signal", "TERM", "`signal` that asks the program to stop")
	flags.StringVar(&f.forward, "forward", "all", "`signals` to pass on to the program: all, none or HUP,USR1,...")
	flags.Var(&f.stopTimeout, "stop-timeout", "time between a request to stop zkr and SIGKILL; default: no limit")
	flags.IntVar(&f.events, "events", -1, "file `descriptor` for events, one line of JSON each; -1 means none")
	flags.BoolVar(&f.setuid, "allow-setuid", false,
		"allow the program to run set-user-id programs such as sudo although zkr is not root; "+
			"zkr cannot stop processes of other users")
	flags.BoolVar(&f.cgroup, "cgroup", false, "run the program in its own control group if zkr may create one on Linux; "+
		"zkr then also kills processes of other users")
	f.metrics.add(flags)
	flags.StringVar(&f.shell, "shell", "", "run this shell command `line` instead of a program")
}

// check rejects values that no verb accepts.
func (f *runFlags) check() error {
	for _, choice := range []struct {
		flag, value string
		of          []string
	}{
		{"on-loss", f.onLoss, []string{"kill", "term", "ignore"}},
		{"leftovers", f.leftovers, []string{"kill", "wait", "ignore"}},
		{"on-revoke", f.onRevoke, []string{"term", "ignore"}},
	} {
		if !slices.Contains(choice.of, choice.value) {
			return exit.Usagef("--%s %s: want %s", choice.flag, choice.value, strings.Join(choice.of, ", "))
		}
	}
	if f.busy < 0 || f.busy > 255 {
		return exit.Usagef("--busy-status %d: want 0 to 255", f.busy)
	}
	return f.metrics.check()
}

// options validates the flags, after the environment has been applied, and returns them as options.
func (f *runFlags) options(cmd *cobra.Command) (o supervise.Options, err error) {
	if err := f.check(); err != nil {
		return o, err
	}
	o = supervise.Options{
		Wait: durationOf(cmd, "wait", f.wait), Busy: f.busy,
		Grace: durationOf(cmd, "grace", f.grace), Lead: durationOf(cmd, "kill-lead", f.lead),
		MinHold: time.Duration(f.minHold), MaxRun: time.Duration(f.maxRun), StopTimeout: time.Duration(f.stopTimeout),
		LossGrace: time.Duration(f.lossGrace), OnLoss: f.onLoss, Leftovers: f.leftovers, OnRevoke: f.onRevoke,
	}
	o.Try = f.try || o.Wait == 0
	if f.busyOK {
		o.Busy = 0
	}
	o.Signal, o.Forward, err = f.signals()
	return o, err
}

// signals returns the signal that asks the program to stop, and the signals to forward to the program.
func (f *runFlags) signals() (soft os.Signal, forward []os.Signal, err error) {
	soft, ok := signals.Named(f.signal)
	if !ok {
		return nil, nil, exit.Usagef("--signal %s: want a signal such as TERM or USR1", f.signal)
	}
	switch f.forward {
	case "all":
		return soft, signals.Handled, nil
	case "none":
		return soft, nil, nil
	}
	for name := range strings.SplitSeq(f.forward, ",") {
		one, ok := signals.Named(name)
		if !ok || !slices.Contains(signals.Handled, one) {
			return nil, nil,
				exit.Usagef("--forward %s: want all, none, or names of signals that zkr can pass on, such as HUP,USR1", name)
		}
		forward = append(forward, one)
	}
	return soft, forward, nil
}
