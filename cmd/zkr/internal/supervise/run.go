// Package supervise runs a program under locks. It stops the program, with everything that it has started, before a
// lock can pass to another holder.
package supervise

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/child"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/exit"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/signals"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/survey"
	"github.com/zkrecipes/zkrecipes/conn"
)

// Runner runs a program under locks.
type Runner struct {
	options  Options
	command  child.Command
	host     *child.Host
	client   *conn.Client
	events   *events
	signals  *signals.Signals
	late     lateness
	keepOpen bool // the session must expire by itself, because what runs under it could not be stopped
}

// Open returns a runner that reports events to log and to the file descriptor fd, unless fd is -1. It checks everything
// that can be checked before the lock is acquired, and then connects by calling dial, unless a signal arrives first.
func Open(ctx context.Context, o Options, command child.Command, log *slog.Logger, fd int, sig *signals.Signals,
	dial func(context.Context) (*conn.Client, error),
) (r *Runner, err error) {
	r = &Runner{options: o, command: command, signals: sig}
	if r.events, err = newEvents(log, fd); err != nil {
		return nil, err
	}
	r.late.events = r.events
	if r.host, err = child.NewHost(); err != nil {
		return nil, err
	}
	ctx, done := sig.Context(ctx)
	r.client, err = dial(ctx)
	done()
	if err == nil {
		err = stopped(ctx)
	}
	if err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// Client returns the client whose session has the locks.
func (r *Runner) Client() *conn.Client { return r.client }

// Command returns the program passed to [Open].
func (r *Runner) Command() child.Command { return r.command }

// Close ends the session, unless the session must expire by itself.
func (r *Runner) Close() {
	if r.client != nil && !r.keepOpen {
		_ = r.client.Close() // always returns nil
	}
	if r.host != nil {
		r.host.Close()
	}
	r.events.close()
}

// Term acquires the lock, runs the program under it, and releases it. An error means that the program was not run.
func (r *Runner) Term(parent context.Context, t *Target) (end Ending, err error) {
	ctx, done := r.signals.Context(parent)
	defer func() { // a signal that arrives together with the end of the term counts as well
		done()
		if stopped(ctx) != nil {
			end.Asked, end.Reload = true, false
		}
	}()
	g, err := r.acquire(ctx, t)
	if err != nil {
		return Ending{}, err
	}
	granted := time.Now()
	defer func() { end.lasted = time.Since(granted) }()
	if t.Once != nil {
		already, last, err := t.Once.done(ctx)
		if !last.IsZero() {
			t.Job.Succeeded(last)
			r.tellRun(t)
		}
		if already {
			r.events.say(slog.LevelDebug, "done", fields{"value": t.Once.value}, "a run with --once %s has succeeded before",
				t.Once.value)
		}
		if already || err != nil {
			r.release(ctx, t, g)
			return Ending{}, err
		}
	}
	s, err := r.supervise(ctx, done, t, g)
	if err != nil {
		r.release(ctx, t, g)
		return Ending{}, err
	}
	r.tellRun(t)
	end = s.run()
	took := time.Since(s.started)
	ctx, done = r.contextAfter(parent, end)
	if !end.Unfinished {
		recorded := r.record(t, g, end)
		end.Own = end.Own || recorded != end.Code
		end.Code = recorded
	}
	t.Job.Ended(time.Now(), took, end.Code, end.Asked || end.Revoked)
	r.tellRun(t)
	if end.Unfinished {
		r.keepOpen = true
		return end, nil
	}
	r.holdOn(ctx, g, granted, end)
	r.release(ctx, t, g)
	return end, nil
}

// contextAfter returns the context of what follows a program.
func (r *Runner) contextAfter(parent context.Context, end Ending) (ctx context.Context, done func()) {
	if end.Reload { // the last signal did not ask zkr to stop, so another one is news
		return r.signals.ContextAfter(parent, end.last, syscall.SIGHUP)
	}
	return r.signals.ContextAfter(parent, end.last)
}

// stopped returns the signal that has ended a context of package signals, or nil. Only after done is that final.
func stopped(ctx context.Context) error {
	var stop *exit.Stopped
	if errors.As(context.Cause(ctx), &stop) {
		return stop
	}
	return nil
}

// Ready waits for a session and returns its timeout. It rejects a grace that the session cannot guarantee.
func (r *Runner) Ready(ctx context.Context) (timeout time.Duration, err error) {
	ctx, done := r.signals.Context(ctx)
	session, err := r.client.Session(ctx)
	done()
	if err = cmp.Or(err, stopped(ctx)); err != nil {
		return 0, err
	}
	_, err = r.options.deadline(session.Timeout())
	return session.Timeout(), err
}

// Under runs the program of t under a grant that the caller already has; it may be called concurrently. It returns when
// the program and everything that it has started have ended, after which the caller may release. When ctx ends, Under
// asks the program to stop, and kills it after --stop-timeout, by default the grace. An error means that the program
// was not run.
func (r *Runner) Under(ctx context.Context, t *Target, g *Grant) (Ending, error) {
	s, err := r.supervise(ctx, func() {}, t, g)
	if err != nil {
		return Ending{}, err
	}
	return s.run(), nil
}

// tellRun writes the metrics file. A slow or full disk delays nothing.
func (r *Runner) tellRun(t *Target) {
	r.events.later(func() {
		if err := t.Job.Write(); err != nil {
			r.events.log.Warn("cannot write --metrics-file", "error", err)
		}
	})
}

// The first pause after a program that has ended by itself, and how long a term must last to reset the pauses. The
// longest pause is as long as such a term.
const (
	firstPause = time.Second
	longTerm   = time.Minute
)

// Terms runs the program for one term after another, as long as another returns true.
func (r *Runner) Terms(ctx context.Context, t *Target, another func(Ending) bool) (Ending, error) {
	pause := firstPause
	for {
		end, err := r.Term(ctx, t)
		if errors.Is(err, zkrecipes.ErrAuthFailed) && !end.Asked { // a standby outlives a change of passwords
			r.events.warn("the servers rejected the credentials, standing for election again soon", "err", err)
			if err := r.sleep(ctx, pause); err != nil {
				return end, err
			}
			pause = min(2*pause, longTerm)
			continue
		}
		if lost := errors.Is(err, zkrecipes.ErrLost) || errors.Is(err, child.ErrLate); err != nil && !lost {
			return end, err
		} else if lost {
			end.Lost = true
		}
		if !another(end) {
			return end, err
		}
		r.events.say(slog.LevelInfo, "again", fields{"status": end.Code}, "standing for election again")
		if end.lasted > longTerm {
			pause = firstPause
		}
		if end.Lost || end.Revoked {
			continue
		}
		if err := r.sleep(ctx, pause); err != nil {
			return end, err
		}
		pause = min(2*pause, longTerm)
	}
}

// sleep pauses for d, unless a signal asks zkr to stop.
func (r *Runner) sleep(ctx context.Context, d time.Duration) error {
	ctx, done := r.signals.Context(ctx)
	defer done()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		done()
		return stopped(ctx)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// ErrWaited is the cause of a context that limits a wait for other holders.
var ErrWaited = errors.New("the wait timed out")

// errBehind is the cause of a context that ends because others are ahead of a contender that does not wait for them.
var errBehind = errors.New("others came first")

// acquire waits for the lock, and reports which holder it waits for. It first rejects a grace that the session cannot
// guarantee.
func (r *Runner) acquire(ctx context.Context, t *Target) (*Grant, error) {
	take := t.Lock
	if r.options.Try {
		take = t.Try
	} else if r.options.Wait >= 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, r.options.Wait, ErrWaited)
		defer cancel()
	}
	session, err := r.client.Session(ctx)
	if err != nil {
		return nil, r.busy(t, err)
	}
	if _, err := r.options.deadline(session.Timeout()); err != nil {
		return nil, err
	}
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	type result struct {
		grant *Grant
		err   error
	}
	results := make(chan result, 1)
	go func() { // ends with ctx; waited for below
		g, err := take(ctx)
		results <- result{g, err}
	}()
	pause := 250 * time.Millisecond // by then, a free lock has been acquired
	looks := time.NewTimer(pause)
	defer looks.Stop()
	for {
		select {
		case got := <-results:
			return got.grant, r.busy(t, got.err)
		case <-looks.C:
			behind, err := r.tellQueue(ctx, t)
			if err != nil {
				giveUp(err)
			}
			switch {
			case r.options.Try: // to give up soon
				pause = time.Second
			case behind:
				pause = time.Minute
			default: // far from the servers, it may not be queued yet
				pause = min(2*pause, time.Minute)
			}
			looks.Reset(pause)
		}
	}
}

// busy attaches exit statuses to the errors of an acquisition. A wait that ended without a connection, or before the
// queue showed that others were ahead, does not prove that another has the lock.
func (r *Runner) busy(t *Target, err error) error {
	timedOut := errors.Is(err, ErrWaited)
	if timedOut && (!t.behind(err) || r.client.Status().State != zkrecipes.Connected) {
		return exit.With(exit.Unreachable, err)
	}
	if timedOut || errors.Is(err, zkrecipes.ErrLocked) || errors.Is(err, errBehind) {
		level := slog.LevelInfo
		if r.options.Busy != 0 { // cron mails it
			level = slog.LevelWarn
		}
		r.events.say(level, "busy", fields{ReasonKey: err.Error()}, "%s", t.word("not acquired", "not elected"))
		return exit.With(r.options.Busy, nil) // even with status 0, since the program was not run
	}
	return err
}

// ahead returns the path that this zkr waits for and the contenders that are ahead of it there, as far as it can find
// out.
func (r *Runner) ahead(ctx context.Context, t *Target) (path string, ahead []zkrecipes.Participant) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	session, err := r.client.Session(ctx)
	if err != nil {
		return "", nil
	}
	for i, list := range t.Queues {
		queue, err := list(ctx)
		if err != nil {
			return "", nil
		}
		own := slices.IndexFunc(queue, func(p zkrecipes.Participant) bool { return p.Session == session.ID() })
		if own > 0 {
			return t.Paths[i], queue[:own]
		}
	}
	return "", nil
}

// tellQueue reports how many contenders are ahead of this one, and which of them holds the lock. It reports no place,
// because status counts places from the first waiter. It returns false if it has found none. It returns an error if the
// wait would never end, because this zkr runs below the one that it waits for, or if zkr is not to wait: an election has
// no call that tries without waiting.
func (r *Runner) tellQueue(ctx context.Context, t *Target) (behind bool, err error) {
	path, ahead := r.ahead(ctx, t)
	if len(ahead) == 0 {
		return false, nil // the next check may show more
	}
	outer := strings.Fields(os.Getenv(outer))
	if r.options.Try && t.blocked(ahead) {
		return true, errBehind
	}
	first := ahead[0]
	above := slices.DeleteFunc(slices.Clone(ahead), func(p zkrecipes.Participant) bool {
		return !slices.Contains(outer, fmt.Sprintf("0x%x", uint64(p.Session)))
	})
	if r.options.Wait < 0 && t.blocked(above) {
		return true, exit.Usagef("this zkr was started by the one that holds %s, and would wait for it forever: "+
			"run the inner program without zkr, or limit the wait with --wait", path)
	}
	holder, since := survey.NameOf(first), first.Since.UTC().Format(time.RFC3339)
	r.events.say(slog.LevelInfo, "waiting", fields{
		"path": path, "position": len(ahead) + 1, "ahead": len(ahead),
		"holder": holder, "holder_token": first.Token.String(), "holder_since": since,
	}, "waiting for %s with %d ahead: held by %s since %s", path, len(ahead), survey.Printable(holder), since)
	return true, nil
}

// holdOn keeps holding the lock for the rest of --min-hold after the program has ended. A signal or a loss cuts that
// short.
func (r *Runner) holdOn(ctx context.Context, g *Grant, granted time.Time, end Ending) {
	rest := time.Until(granted.Add(r.options.MinHold))
	if rest <= 0 || end.Lost || end.Asked && !end.Reload || end.Unhealthy {
		return
	}
	wait := time.NewTimer(rest)
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-g.Done():
		r.events.warn("the lock was lost before --min-hold elapsed; the program had already ended", "err", g.Err())
	case <-ctx.Done():
	}
}

// release releases the lock, and waits for the answer as long as it makes a difference, or until a signal ends ctx.
// A signal that has ended ctx before does not count, and the next one ends zkr: see [signals.Signals.Context]. If no
// answer arrives, the status of the program is unaffected: the session ends with zkr, and the lock with it.
func (r *Runner) release(ctx context.Context, t *Target, g *Grant) {
	if ctx.Err() != nil {
		ctx = context.WithoutCancel(ctx)
	}
	limit := time.Until(g.ValidUntil())
	ctx, cancel := context.WithTimeout(ctx, max(limit, time.Second))
	defer cancel()
	switch err := g.Release(ctx); {
	case err == nil:
		r.events.say(t.steps(), "released", fields{"path": t.Paths[0]}, "%s %s", t.word("released", "resigned at"),
			t.Paths[0])
	case !errors.Is(err, zkrecipes.ErrLost):
		r.events.say(slog.LevelWarn, "unknown", fields{ReasonKey: err.Error()},
			"unknown whether the lock was released; it ends with the session")
	}
}
