package supervise

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/bootclock"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/child"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/exit"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/signals"
	"github.com/zkrecipes/zkrecipes/conn"
)

// supervision is one program under one grant. All its steps run on one goroutine, and each iteration of its loop first
// checks the clock: a process that was frozen kills the program before it does anything else.
type supervision struct {
	options  Options
	events   *events
	program  *Program
	asked    <-chan struct{} // closed when one of several programs must stop; nil means never
	status   func() conn.Status
	target   *Target
	grant    *Grant
	timeout  time.Duration // of the session
	deadline *deadline
	child    *child.Child
	state    *stateFile

	started   time.Time
	late      *lateness
	looked    time.Time // the last look at the clock
	ended     time.Time // when the program itself ended, after which processes that it started may still run; zero before
	stopAt    time.Time // when zkr asked the program to stop; zero if it did not
	leaving   bool      // a signal that the program has received has asked it to stop
	killAt    time.Time // when patience ends; zero means never
	killed    time.Time // the first kill
	suspected bool
	told      time.Time // the deadline in the state file
	leftovers int       // what was left at the latest look, see left
	recount   time.Time // when left looks again
	searched  time.Time // the last search for processes of other users
	foreign   map[int]bool

	interrupt time.Time // the last one
	end       Ending    // as far as it is known; its code overrides the program's if it is not 0
}

// Ending is how and why a program ended.
type Ending struct {
	Code       int  // exit status
	Own        bool // the status is one of zkr, not the program's
	Asked      bool // a signal had asked zkr to stop
	Reload     bool // that was only SIGHUP without a terminal, which asks many programs to reload their configuration
	Revoked    bool // another client had requested the lock
	Unhealthy  bool // its check had failed
	Lost       bool // the lock was lost, or so nearly that the program was stopped
	Unfinished bool // the program could not be stopped

	last   time.Time     // when a signal last asked zkr to stop
	lasted time.Duration // from the grant to the end of the term
}

// supervise starts the program, unless a signal has arrived by then. done ends ctx: from then on signals go to the
// program.
func (r *Runner) supervise(ctx context.Context, done func(), t *Target, g *Grant) (*supervision, error) {
	session, err := r.client.Session(ctx)
	if err != nil {
		return nil, err
	}
	d, err := r.options.deadline(session.Timeout())
	if err != nil {
		return nil, err
	}
	s := &supervision{
		options: r.options, events: r.events, program: &Program{Command: r.command, Arrived: r.signals.Arrived},
		status: r.client.Status,
		target: t, grant: g, timeout: session.Timeout(), deadline: d, foreign: map[int]bool{}, late: &r.late,
	}
	if t.Program != nil {
		s.program, s.events, s.asked = t.Program, r.events.with(t.Program.Tell), ctx.Done()
	}
	if err := s.freshen(ctx); err != nil {
		return nil, err
	}
	if s.state, err = newStateFile(); err != nil {
		return nil, err
	}
	done()
	if err := r.start(ctx, s, session); err != nil {
		s.state.close()
		s.state.wait()
		return nil, err
	}
	return s, nil
}

// freshen waits until the deadline is far enough ahead that the program would not be stopped at once.
func (s *supervision) freshen(ctx context.Context) error {
	again := time.NewTicker(s.beat())
	defer again.Stop()
	for {
		now, boot := time.Now(), bootclock.Now()
		if s.deadline.look(now, boot, s.grant.ValidUntil()); s.deadline.fresh(now, boot) {
			return nil
		}
		select {
		case <-again.C:
		case <-s.grant.Done():
			return s.grant.Err()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// start starts the program, unless a signal has arrived before, or the lock has been lost: its deadline, which is that
// of the session, does not show that.
func (r *Runner) start(ctx context.Context, s *supervision, session *conn.Session) error {
	if err := s.stoppedBefore(ctx); err != nil {
		return err
	}
	if err := s.grant.Err(); err != nil {
		return err
	}
	until := s.grant.ValidUntil()
	s.told = until
	s.deadline.look(time.Now(), bootclock.Now(), until)
	record, err := s.stateFor(s.deadline.onBoot).record()
	if err != nil {
		return err
	}
	command := s.program.Command
	command.State, command.Record = s.state.path(), string(record)
	command.Env = r.environment(s.target, s.grant, session, command.State, s.program.Env...)
	command.KillAt = s.lastMoment()
	s.events.say(s.target.steps(), "acquired", fields{
		"path": s.target.Paths[0], "kind": s.target.Kind, "token": s.grant.parts[0].Token().String(),
		"node":        s.grant.parts[0].Path(),
		"valid_until": until.UTC().Format(time.RFC3339Nano),
	}, "%s %s, token %v", s.target.word("acquired", "elected at"), s.target.Paths[0], s.grant.parts[0].Token())
	c, err := r.host.Start(command)
	var failed *os.PathError
	switch {
	case errors.Is(err, child.ErrLate):
		return exit.With(exit.Lost, err)
	case errors.As(err, &failed) && failed.Path == command.State:
		return fmt.Errorf("create the file for ZKR_STATE: %w", err)
	case err != nil:
		return exit.OfStart(err)
	}
	s.child, s.started = c, time.Now()
	s.target.Job.Started(s.started) // before the event, so that whoever has seen it finds this run in the metrics
	if command.Setuid && c.MayBeForeign() {
		s.events.warn("with --allow-setuid, only a control group can stop processes that the program runs as another user",
			"cgroup", cmp.Or(c.Cgroup(), "none"))
	}
	s.events.say(slog.LevelDebug, "started", fields{"pid": c.Pid(), "pgid": c.Group()}, "started process %d", c.Pid())
	return nil
}

// stoppedBefore returns the signal that asked zkr to stop before the program was started. No signal is lost: it is
// either the cause of ctx, or pending in the channel.
func (s *supervision) stoppedBefore(ctx context.Context) error {
	if stop := stopped(ctx); stop != nil {
		return stop
	}
	for {
		select {
		case <-s.asked:
			return context.Cause(ctx)
		case one := <-s.program.Arrived:
			if s.asked == nil && signals.Stops(one) { // one of several programs needs no signal before it has started
				return &exit.Stopped{Signal: one}
			}
		default:
			return nil
		}
	}
}

// run waits for the end of the program and of everything that it has started, and stops them when necessary.
func (s *supervision) run() Ending {
	defer s.events.later(s.state.wait)
	defer s.state.close()
	defer s.child.Close()
	timer := time.NewTimer(0)
	defer timer.Stop()
	gone := s.child.Done()
	held, asked := s.grant.Done(), s.asked
	sick, quiet := s.watchHealth()
	defer quiet()
	for {
		s.look(time.Now())
		if s.over() {
			s.takePending()
			s.conclude()
			return s.end
		}
		timer.Reset(s.pause())
		select {
		case <-timer.C:
		case <-held:
			held = nil
		case err := <-sick:
			sick = nil
			s.look(time.Now())
			s.takePending() // a program that is stopping may fail its check
			s.unhealthy(time.Now(), err)
		case <-gone:
			quiet() // a check runs below this process, just like leftovers of the program
			s.ended, gone = time.Now(), nil
			s.tellOverdue()
		case one := <-s.child.Halted():
			s.tellHalted(one)
		case <-asked:
			asked = nil
			s.look(time.Now())
			s.ask(time.Now())
		case one := <-s.program.Arrived:
			s.look(time.Now())
			s.signalled(one)
		}
	}
}

// takePending handles the signals that have arrived, which come before an event that arrived together with them.
func (s *supervision) takePending() {
	for {
		select {
		case one := <-s.program.Arrived:
			s.signalled(one)
		default:
			return
		}
	}
}

// beat returns how often the deadline is checked.
func (s *supervision) beat() time.Duration {
	return min(max(s.timeout/64, 5*time.Millisecond), 100*time.Millisecond)
}

// pause returns the time until the next iteration.
func (s *supervision) pause() time.Duration {
	if s.killed.IsZero() && s.ended.IsZero() {
		return s.beat()
	}
	return min(s.interval(), s.beat())
}

// interval returns how often to look for what is left of a program that has ended or was killed. The end of a process
// that is not a child of zkr is not reported, and each look lists all processes of the machine, so there are fewer the
// longer it lasts.
func (s *supervision) interval() time.Duration {
	since := s.ended
	if !s.killed.IsZero() {
		since = s.killed
	}
	return min(max(time.Since(since)/64, 5*time.Millisecond), time.Second)
}

// left returns how many processes are left of a program that has ended. If there were some at the latest look, it looks
// again only after the interval.
func (s *supervision) left() int {
	if s.leftovers == 0 || !time.Now().Before(s.recount) {
		s.leftovers = s.child.Left()
		s.recount = time.Now().Add(s.interval())
	}
	return s.leftovers
}

// look does whatever is due.
func (s *supervision) look(now time.Time) {
	defer s.late.look(s.looked, now, s.beat()+s.deadline.lead/2) // deferred, because a kill comes first
	s.looked = now
	defer s.tellForeign(now)
	if !s.killed.IsZero() {
		_ = s.child.Kill() // a process may have been starting another one during the last signal
	}
	s.obeyLoss(now)
	s.obeyRevocation(now)
	switch {
	case !s.killAt.IsZero() && !now.Before(s.killAt):
		s.kill("patience is over")
	case s.unbounded() && s.options.MaxRun > 0 && now.Sub(s.started) >= s.options.MaxRun && s.runs():
		s.end.Code = exit.MaxRun
		s.stop("max-run", now.Add(s.deadline.grace))
	}
}

// unbounded reports whether the program was not asked to stop, or has all the time it wants for that.
func (s *supervision) unbounded() bool { return s.stopAt.IsZero() || s.killAt.IsZero() }

// runs reports whether the program has not ended or, with --leftovers wait, something that it has started has not.
func (s *supervision) runs() bool {
	return s.ended.IsZero() || s.options.Leftovers == "wait" && s.left() > 0
}

// tellForeign reports each process that zkr may not signal when it appears.
func (s *supervision) tellForeign(now time.Time) {
	if !s.child.MayBeForeign() || now.Sub(s.searched) < time.Second {
		return
	}
	s.searched = now
	for _, pid := range s.child.Foreign() {
		if s.foreign[pid] {
			continue
		}
		s.foreign[pid] = true
		s.events.say(slog.LevelWarn, "foreign", fields{"pid": pid},
			"process %d runs as another user, so zkr cannot stop it: the next holder may run at the same time", pid)
	}
}

// tellOverdue reports that the guard has killed the program, because this process did not.
func (s *supervision) tellOverdue() {
	if s.child.Status().Overdue && s.killed.IsZero() {
		s.killed = time.Now()
		s.events.say(slog.LevelWarn, "kill", fields{ReasonKey: "overdue"},
			"the guard killed the program because zkr itself did not run at the deadline")
	}
}

// tellHalted reports that a signal has stopped the program, which keeps the lock. It does not report that in a terminal,
// where the keys and the shell stop and resume this process too.
func (s *supervision) tellHalted(one os.Signal) {
	if s.program.Command.Terminal {
		return
	}
	cure := "resume it with SIGCONT"
	if signals.OfTerminal(one) {
		cure = "it used the terminal from the background; if zkr is part of a pipeline, run the pipeline below zkr instead, " +
			"with --shell 'a | b'"
	}
	s.events.warn("the program is stopped and "+s.target.word("keeps the lock", "still leads")+": "+cure,
		"signal", one.String())
}

// over reports whether the program and everything that it has started have ended, or could not be stopped. A program
// that was asked to stop may have all the time it wants, but not what it leaves behind.
func (s *supervision) over() bool {
	if s.ended.IsZero() {
		return s.hopeless()
	}
	left := s.left()
	switch {
	case left == 0, s.options.Leftovers == "ignore" && s.unbounded() && s.killed.IsZero():
		s.events.say(s.target.steps(), "exited", fields{"status": s.child.Status().Code},
			"the program exited with status %d", s.child.Status().Code)
		return true
	case s.options.Leftovers == "kill" && s.unbounded() && s.killed.IsZero():
		s.events.warn("the program ended and left processes behind: stopping them, see --leftovers", "processes", left)
		s.stop("leftovers", time.Now().Add(s.deadline.grace))
	}
	return s.hopeless()
}

// hopeless reports, and logs, that a killed process has not ended by the deadline. The kernel cannot end a process that
// waits for a device. The lock is then not released, so that the session expires as late as it can. If this is one of
// several programs, zkr keeps waiting for it: the others continue, and it must not be started again while it still
// runs.
func (s *supervision) hopeless() bool {
	now := time.Now()
	if s.end.Unfinished || s.killed.IsZero() || now.Before(s.deadline.until) || now.Before(s.killed.Add(2*time.Second)) {
		return false
	}
	left := s.child.Left()
	if left == 0 { // the report of the end is late
		return false
	}
	s.end.Unfinished = true
	s.events.say(slog.LevelError, "unkillable", fields{"processes": left},
		"%d processes are still running after SIGKILL, at the deadline of the lock: the next holder may run at the same time",
		left)
	return s.asked == nil
}

// conclude determines the exit status once everything has ended.
func (s *supervision) conclude() {
	s.end.Lost = s.end.Lost || s.grant.Err() != nil || s.child.Status().Overdue
	switch {
	case s.end.Lost || s.end.Unfinished:
		s.end.Code, s.end.Own = exit.Lost, true
	case s.end.Code == 0:
		s.end.Code = s.child.Status().Code
	default:
		s.end.Own = true // such as that of --max-run
	}
}
