package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/child"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/survey"
	"github.com/zkrecipes/zkrecipes/conn"
)

// runFlags are the flags of the verbs that run a program.
type runFlags struct {
	try, busyOK      bool
	wait             duration
	busy             int
	id, data         string
	grace, lead      duration
	signal           string
	minHold, maxRun  duration
	onLoss           string
	lossGrace        duration
	leftovers        string
	onRevoke         string
	forward          string
	stopTimeout      duration
	events           int
	shell            string
	waitSet, leadSet bool
	graceSet         bool
}

func (f *runFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&f.try, "try", false, "do not wait for other holders: exit with the busy status")
	flags.VarP(&f.wait, "wait", "w", "wait so long at most, then exit with the busy status; 0 is --try; default without end")
	flags.IntVarP(&f.busy, "busy-status", "E", exitBusy, "exit `status` when another holder is in the way")
	flags.BoolVar(&f.busyOK, "busy-ok", false, "exit with 0 when another holder is in the way")
	flags.StringVar(&f.id, "id", "", "`name` under which others see this holder; default host/pid")
	flags.StringVar(&f.data, "data", "", "`data` of the contender, in place of --id")
	flags.Var(&f.grace, "grace", "time between --signal and SIGKILL; default a quarter of the session timeout")
	flags.Var(&f.lead, "kill-lead", "time between SIGKILL and the deadline of the lock; default 250ms and a hundredth of the session timeout")
	flags.StringVar(&f.signal, "signal", "TERM", "`signal` that asks the program to stop")
	flags.Var(&f.minHold, "min-hold", "hold the lock at least so long, also when the program has ended")
	flags.Var(&f.maxRun, "max-run", "stop the program after so long, and exit with 124")
	flags.StringVar(&f.onLoss, "on-loss", "kill", "when the lock is about to be lost: kill (signal, grace, SIGKILL), term (signal alone) or ignore; two may run but with kill")
	flags.Var(&f.lossGrace, "loss-grace", "when the lock is lost already, grace before SIGKILL; two programs may run for so long")
	flags.StringVar(&f.leftovers, "leftovers", "kill", "what the program has started and left running: kill, wait or ignore")
	flags.StringVar(&f.onRevoke, "on-revoke", "ignore", "when another client asks for the lock: ignore, or term to stop the program")
	flags.StringVar(&f.forward, "forward", "all", "`signals` to pass on to the program: all, none or HUP,USR1,...")
	flags.Var(&f.stopTimeout, "stop-timeout", "after zkr was asked to stop, wait so long before SIGKILL; default without end")
	flags.IntVar(&f.events, "events", -1, "file `descriptor` for events, a line of JSON each")
	flags.StringVar(&f.shell, "shell", "", "run this `line` by the shell, in place of a command")
}

// check refuses values that no verb could use. It runs after the environment was read.
func (f *runFlags) check(cmd *cobra.Command) error {
	for _, choice := range []struct {
		flag, value string
		of          []string
	}{
		{"on-loss", f.onLoss, []string{"kill", "term", "ignore"}},
		{"leftovers", f.leftovers, []string{"kill", "wait", "ignore"}},
		{"on-revoke", f.onRevoke, []string{"term", "ignore"}},
	} {
		if !slices.Contains(choice.of, choice.value) {
			return usagef("--%s %s: want %s", choice.flag, choice.value, strings.Join(choice.of, ", "))
		}
	}
	if f.busy < 0 || f.busy > 255 {
		return usagef("--busy-status %d: want 0 to 255", f.busy)
	}
	f.waitSet, f.graceSet, f.leadSet = cmd.Flags().Changed("wait"), cmd.Flags().Changed("grace"), cmd.Flags().Changed("kill-lead")
	f.try = f.try || f.waitSet && f.wait == 0
	if f.busyOK {
		f.busy = 0
	}
	return nil
}

// target is the lock, and what differs between the verbs.
type target struct {
	kind      string // mutex, read, write, permit or leader
	paths     []string
	lock, try func(ctx context.Context) (*grant, error)
	queue     func(ctx context.Context) ([]zkrecipes.Participant, error) // of the first path
	once      *once                                                      // nil without --once
}

// grant is what a verb was granted: a hold, or the holds on several paths as one.
type grant struct {
	hold
	parts []*zkrecipes.Hold // in the order of the paths
}

type hold interface {
	Err() error
	Done() <-chan struct{}
	ValidUntil() time.Time
	Release(ctx context.Context) error
}

// single is the grant of one hold.
func single(h *zkrecipes.Hold, err error) (*grant, error) {
	if err != nil {
		return nil, err
	}
	return &grant{h, []*zkrecipes.Hold{h}}, nil
}

// runner runs a program under locks.
type runner struct {
	*app
	flags    *runFlags
	host     *child.Host
	client   *conn.Client
	events   *events
	command  child.Command
	soft     os.Signal   // asks the program to stop
	forward  []os.Signal // what is passed on to it
	keepOpen bool        // the session must run out by itself: what runs under it could not be stopped
}

// split divides the arguments at the "--": before it those of the verb, after it the program.
func split(cmd *cobra.Command, args []string, shell string) (before, program []string, err error) {
	dash := cmd.ArgsLenAtDash()
	switch {
	case dash < 0 && shell == "":
		return nil, nil, usagef("no program: put it at the end, after --: zkr %s PATH -- program arguments", cmd.Name())
	case dash < 0:
		return args, shellCommand(shell), nil
	case shell != "":
		return nil, nil, usagef("--shell and a program after --: want one of them")
	case dash == len(args):
		return nil, nil, usagef("no program after --")
	}
	return args[:dash], args[dash:], nil
}

func shellCommand(line string) []string {
	if runtime.GOOS == "windows" {
		return []string{"cmd.exe", "/c", line}
	}
	return []string{"/bin/sh", "-c", line}
}

// newRunner checks everything that can be checked before the lock is taken, and connects.
func (a *app) newRunner(cmd *cobra.Command, f *runFlags, program []string) (r *runner, err error) {
	r = &runner{app: a, flags: f}
	if err := f.check(cmd); err != nil {
		return nil, err
	}
	if r.soft, r.forward, err = f.signals(); err != nil {
		return nil, err
	}
	path, err := find(program[0])
	if err != nil {
		return nil, err
	}
	r.command = child.Command{
		Path: path, Args: program, Files: []*os.File{a.in, a.out, a.err}, Terminal: term.IsTerminal(int(a.in.Fd())),
	}
	if r.events, err = newEvents(a.log, f.events); err != nil {
		return nil, err
	}
	if r.host, err = child.NewHost(); err != nil {
		return nil, err
	}
	var options []conn.Option
	if f.id != "" {
		options = append(options, conn.WithIdentity(f.id))
	}
	if f.data != "" {
		options = append(options, conn.WithIdentity(f.data))
	}
	ctx, done := a.signals.context(cmd.Context())
	r.client, err = a.dial(ctx, options...)
	done()
	var stop *stopped
	if err == nil && errors.As(context.Cause(ctx), &stop) {
		err = stop
	}
	if err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

func (f *runFlags) signals() (soft os.Signal, forward []os.Signal, err error) {
	soft, ok := signalNamed(f.signal)
	if !ok {
		return nil, nil, usagef("--signal %s: no such signal", f.signal)
	}
	switch f.forward {
	case "all":
		return soft, handled, nil
	case "none":
		return soft, nil, nil
	}
	for name := range strings.SplitSeq(f.forward, ",") {
		one, ok := signalNamed(name)
		if !ok || !slices.Contains(handled, one) {
			return nil, nil, usagef("--forward %s: not a signal that zkr can pass on", name)
		}
		forward = append(forward, one)
	}
	return soft, forward, nil
}

// find looks the program up, before any lock is taken.
func find(name string) (string, error) {
	path, err := exec.LookPath(name)
	switch {
	case err == nil:
		return filepath.Abs(path)
	case errors.Is(err, fs.ErrPermission):
		return "", exitWith(exitCannotRun, err)
	default:
		if info, statErr := os.Stat(name); statErr == nil && strings.ContainsRune(name, filepath.Separator) {
			return "", exitWith(exitCannotRun, fmt.Errorf("%s: cannot be executed (%v)", name, info.Mode()))
		}
		return "", exitWith(exitNotFound, err)
	}
}

// close ends the session, unless it must run out by itself.
func (r *runner) close() {
	if r.client != nil && !r.keepOpen {
		_ = r.client.Close() // it returns nil
	}
	r.events.close()
}

// runOnce takes the lock, runs the program, and releases the lock.
func (a *app) runOnce(cmd *cobra.Command, f *runFlags, program []string, of func(c *conn.Client) (*target, error)) error {
	r, err := a.newRunner(cmd, f, program)
	if err != nil {
		return err
	}
	defer r.close()
	t, err := of(r.client)
	if err != nil {
		return exitWith(exitUsage, err)
	}
	end, err := r.term(cmd.Context(), t)
	if err != nil {
		return err
	}
	return statusOf(end.code)
}

func statusOf(code int) error {
	if code == 0 {
		return nil
	}
	return exitWith(code, nil)
}

// term takes the lock, runs the program under it, and releases it. An error says that the program was not run.
func (r *runner) term(ctx context.Context, t *target) (ending, error) {
	ctx, done := r.signals.context(ctx)
	defer done()
	session, err := r.client.Session(ctx)
	if err != nil {
		return ending{}, err
	}
	if _, err := r.deadline(session.Timeout()); err != nil {
		return ending{}, err
	}
	g, err := r.acquire(ctx, t)
	if err != nil {
		return ending{}, err
	}
	granted := time.Now()
	if t.once != nil {
		done, err := t.once.done(ctx)
		if done {
			r.events.say(slog.LevelDebug, "done", fields{"value": t.once.value}, "a run with --once %s has succeeded before", t.once.value)
		}
		if done || err != nil {
			r.release(g)
			return ending{}, err
		}
	}
	s, err := r.supervise(ctx, done, t, g)
	if err != nil {
		r.release(g)
		return ending{}, err
	}
	end := s.run()
	if end.unfinished {
		r.keepOpen = true
		return end, nil
	}
	end.code = r.record(t, g, end)
	r.holdOn(g, granted, end)
	r.release(g)
	return end, nil
}

// deadline makes the rule for a session, with the grace of the flags.
func (r *runner) deadline(timeout time.Duration) (*deadline, error) {
	grace, lead := timeout/4, defaultLead(timeout)
	if r.flags.graceSet {
		grace = time.Duration(r.flags.grace)
	}
	if r.flags.leadSet {
		lead = time.Duration(r.flags.lead)
	}
	return newDeadline(timeout, grace, lead)
}

// acquire waits for the lock, and tells for which place in the queue.
func (r *runner) acquire(ctx context.Context, t *target) (*grant, error) {
	take := t.lock
	if r.flags.try {
		take = t.try
	} else if r.flags.waitSet {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, time.Duration(r.flags.wait), errWaited)
		defer cancel()
	}
	type result struct {
		grant *grant
		err   error
	}
	results := make(chan result, 1)
	go func() { // ends with ctx, and is waited for below
		g, err := take(ctx)
		results <- result{g, err}
	}()
	looks := time.NewTimer(250 * time.Millisecond) // a lock that is free is taken by then
	defer looks.Stop()
	for {
		select {
		case got := <-results:
			return got.grant, r.busy(got.err)
		case <-looks.C:
			r.tellQueue(ctx, t)
			looks.Reset(time.Minute)
		}
	}
}

var errWaited = errors.New("the time to wait is over")

// busy gives the errors of an acquisition their exit status.
func (r *runner) busy(err error) error {
	if errors.Is(err, zkrecipes.ErrLocked) || errors.Is(err, errWaited) {
		level := slog.LevelInfo
		if r.flags.busy != 0 { // cron mails it
			level = slog.LevelWarn
		}
		r.events.say(level, "busy", fields{"reason": err.Error()}, "%v", err)
		return statusOfBusy(r.flags.busy)
	}
	return err
}

// statusOfBusy is an exit also with status 0: the program was not run.
func statusOfBusy(code int) error { return exitWith(code, nil) }

func (r *runner) tellQueue(ctx context.Context, t *target) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	queue, err := t.queue(ctx)
	if err != nil || len(queue) == 0 {
		return // the next look may tell more
	}
	session, err := r.client.Session(ctx)
	if err != nil {
		return
	}
	own := slices.IndexFunc(queue, func(p zkrecipes.Participant) bool { return p.Session == session.ID() })
	if own < 1 {
		return
	}
	first := queue[0]
	r.events.say(slog.LevelInfo, "waiting", fields{
		"path": t.paths[0], "position": own + 1, "ahead": own, "holder": first.ID, "holder_token": first.Token.String(),
		"holder_since": first.Since.Format(time.RFC3339),
	}, "waiting for %s at place %d: held by %s since %s", t.paths[0], own+1, survey.Printable(first.ID), first.Since.Format(time.RFC3339))
}

// holdOn holds the lock for --min-hold, after the program has ended. A signal or a loss ends that.
func (r *runner) holdOn(g *grant, granted time.Time, end ending) {
	rest := time.Until(granted.Add(time.Duration(r.flags.minHold)))
	if rest <= 0 || end.lost || end.asked {
		return
	}
	wait := time.NewTimer(rest)
	defer wait.Stop()
	for {
		select {
		case <-wait.C:
			return
		case <-g.Done():
			r.events.warn("the lock was lost before --min-hold was over; the program had ended", "err", g.Err())
			return
		case one := <-r.signals.arrived:
			if slices.Contains(stopping, one) {
				return
			}
		}
	}
}

// release releases, and waits for the answer as long as it makes a difference. If there is none, the status of the program
// stays: the session ends with zkr, and the lock with it.
func (r *runner) release(g *grant) {
	limit := time.Until(g.ValidUntil())
	ctx, cancel := context.WithTimeout(context.Background(), max(limit, time.Second))
	defer cancel()
	switch err := g.Release(ctx); {
	case err == nil:
		r.events.say(slog.LevelDebug, "released", nil, "released")
	case !errors.Is(err, zkrecipes.ErrLost):
		r.events.say(slog.LevelWarn, "unknown", fields{"reason": err.Error()}, "not known whether the lock is released, it ends with the session: %v", err)
	}
}

// environment is the program's environment: zkr's own, and what tells of the lock. Inherited values of an outer zkr go.
func (r *runner) environment(t *target, g *grant, session *conn.Session, statePath string) []string {
	var nodes, tokens []string
	for _, h := range g.parts {
		nodes, tokens = append(nodes, h.Path()), append(tokens, h.Token().String())
	}
	depth, _ := strconv.Atoi(os.Getenv("ZKR_DEPTH")) // 0 if there is no outer zkr
	own := []string{
		"ZKR_PATH=" + strings.Join(t.paths, "\n"),
		"ZKR_NODE=" + strings.Join(nodes, "\n"),
		"ZKR_TOKEN=" + strings.Join(tokens, "\n"),
		fmt.Sprintf("ZKR_SESSION=0x%x", session.ID()),
		"ZKR_KIND=" + t.kind,
		"ZKR_ID=" + r.client.Identity(),
		"ZKR_VALID_UNTIL=" + g.ValidUntil().Format(time.RFC3339Nano),
		"ZKR_DEPTH=" + strconv.Itoa(depth+1),
		"ZKR_STATE=" + statePath,
	}
	inherited := slices.DeleteFunc(os.Environ(), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return name == "ZKR_EVENTS" || slices.ContainsFunc(own, func(o string) bool { return strings.HasPrefix(o, name+"=") })
	})
	return append(inherited, own...)
}
