package supervise

import (
	"cmp"
	"errors"
	"log/slog"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/signals"
)

// ask asks the program to stop on behalf of the caller. If the lock is lost, the program has already been killed.
func (s *supervision) ask(now time.Time) {
	if s.grant.Err() == nil {
		s.end.Asked = true
		s.stop("asked to stop", now.Add(cmp.Or(s.options.StopTimeout, s.deadline.grace)))
	}
}

// stop asks the program to stop, once. It is killed at killAt; the zero time means never.
func (s *supervision) stop(reason string, killAt time.Time) {
	if !killAt.IsZero() && (s.killAt.IsZero() || killAt.Before(s.killAt)) {
		s.killAt = killAt
	}
	if !s.stopAt.IsZero() || !s.killed.IsZero() {
		return
	}
	s.stopAt = time.Now()
	err := s.child.Stop(s.options.Signal)
	level := slog.LevelWarn
	if s.asked != nil && s.end.Asked { // as each move of a shard does
		level = s.target.steps()
	}
	s.events.say(level, "term", s.why(fields{ReasonKey: reason}), "asked the program to stop")
	if err != nil {
		s.events.warn("cannot signal the program", "err", err)
	}
}

// kill kills the program and everything that it has started, repeatedly until nothing is left.
func (s *supervision) kill(reason string) {
	if !s.killed.IsZero() || !s.ended.IsZero() && s.child.Left() == 0 {
		return
	}
	err := s.child.Kill()
	s.killed = time.Now()
	s.events.say(slog.LevelWarn, "kill", s.why(fields{ReasonKey: reason}), "killed the program")
	if err != nil {
		s.events.warn("cannot kill the program", "err", err)
	}
}

// signalled forwards a signal to the program. In a terminal, the program has already received the terminal's own
// signals.
func (s *supervision) signalled(one os.Signal) {
	if one == signals.Continue {
		return // its only purpose was the look at the clock
	}
	had := s.program.Command.Terminal && signals.SentToGroup(one)
	passed := !had && slices.Contains(s.options.Forward, one)
	if passed {
		if err := s.child.Forward(one); err != nil && !errors.Is(err, os.ErrProcessDone) {
			s.events.warn("cannot forward a signal", "signal", one.String(), "err", err)
		}
	}
	if s.asked != nil {
		return // signals that ask zkr to stop go to the caller, which closes asked
	}
	switch one {
	case os.Interrupt:
		if s.again(time.Now()) {
			s.kill("second interrupt")
		}
	case syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT:
	default:
		return
	}
	reload := one == syscall.SIGHUP && !s.program.Command.Terminal
	s.end.Reload = reload && (s.end.Reload || !s.end.Asked)
	s.end.Asked, s.end.last = true, time.Now()
	s.leaving = s.leaving || (had || passed) && !reload
	if had || reload {
		return // the program may have a use for it, as a shell does for a key
	}
	if s.options.StopTimeout > 0 && s.killAt.IsZero() {
		s.killAt = time.Now().Add(s.options.StopTimeout)
	}
}

// again reports whether an interrupt follows another one. In a terminal it must follow soon, since a program may have a
// use for single ones.
func (s *supervision) again(now time.Time) bool {
	before := s.interrupt
	if now.Sub(before) < signals.AsOne {
		return false
	}
	s.interrupt = now
	return !before.IsZero() && (!s.program.Command.Terminal || now.Sub(before) < 2*time.Second)
}

// obeyRevocation stops the program if another client has requested the lock.
func (s *supervision) obeyRevocation(now time.Time) {
	if s.options.OnRevoke != "term" || !s.stopAt.IsZero() {
		return
	}
	for _, h := range s.grant.parts {
		select {
		case <-h.Revoked():
			var killAt time.Time
			if s.options.StopTimeout > 0 {
				killAt = now.Add(s.options.StopTimeout)
			}
			s.end.Revoked = true
			s.stop("revoked", killAt)
			return
		default:
		}
	}
}
