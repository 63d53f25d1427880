package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/child"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/survey"
	"github.com/zkrecipes/zkrecipes/conn"
)

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
	if err := r.connect(cmd.Context()); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

// connect opens the session, unless a signal comes first.
func (r *runner) connect(ctx context.Context) (err error) {
	var options []conn.Option
	if r.flags.id != "" {
		options = append(options, conn.WithIdentity(r.flags.id))
	}
	if r.flags.data != "" {
		options = append(options, conn.WithIdentity(r.flags.data))
	}
	ctx, done := r.signals.context(ctx)
	r.client, err = r.dial(ctx, options...)
	done()
	var stop *stopped
	if err == nil && errors.As(context.Cause(ctx), &stop) {
		return stop
	}
	return err
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

// statusOf is the error for the exit status of a program that was run.
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
	if _, err := r.flags.deadline(session.Timeout()); err != nil {
		return ending{}, err
	}
	g, err := r.acquire(ctx, t)
	if err != nil {
		return ending{}, err
	}
	granted := time.Now()
	if t.once != nil {
		already, err := t.once.done(ctx)
		if already {
			r.events.say(slog.LevelDebug, "done", fields{"value": t.once.value}, "a run with --once %s has succeeded before", t.once.value)
		}
		if already || err != nil {
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

// acquire waits for the lock, and tells behind which holder.
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
		return exitWith(r.flags.busy, nil) // also with status 0: the program was not run
	}
	return err
}

// tellQueue tells how many are ahead of this caller, and which one holds the lock. It names no place: status counts places from
// the first waiter on.
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
		"path": t.paths[0], "position": own + 1, "ahead": own, "holder": survey.NameOf(first), "holder_token": first.Token.String(),
		"holder_since": first.Since.Format(time.RFC3339),
	}, "waiting for %s with %d ahead: held by %s since %s", t.paths[0], own, survey.Printable(survey.NameOf(first)), first.Since.Format(time.RFC3339))
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
