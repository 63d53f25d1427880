package supervise

import (
	"errors"
	"log/slog"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/bootclock"
)

// obeyLoss stops the program if the lock is lost or about to be lost.
func (s *supervision) obeyLoss(now time.Time) {
	if s.end.Lost && s.grant.Err() == nil && s.options.OnLoss != "kill" {
		return
	}
	until := s.grant.ValidUntil()
	err := s.grant.Err()
	verdict := s.deadline.look(now, bootclock.Now(), until)
	if err == nil {
		s.publish(until, verdict)
	}
	switch {
	case err != nil:
		s.loss(now, err)
	case verdict != goodTime:
		s.losing(now, verdict, s.deadline.cause(now))
	default:
		s.suspect(now, until)
	}
}

// loss handles a lost lock, which its next holder may already have.
func (s *supervision) loss(now time.Time, err error) {
	if s.end.Lost && s.options.OnLoss != "kill" {
		return
	}
	first := !s.end.Lost
	s.end.Lost = true
	var lost *zkrecipes.LostError
	switch known := errors.As(err, &lost); {
	case s.options.OnLoss == "ignore":
	case s.options.OnLoss == "term":
		s.stop("lost", time.Time{})
	case s.options.LossGrace > 0 && known && lost.Reason != zkrecipes.LossDeadline:
		s.stop("lost", now.Add(s.options.LossGrace))
		// This is the same moment at each look, or an earlier one.
		s.child.KillAt(bootclock.Now() + s.killAt.Sub(now) + s.deadline.lead)
	default:
		s.kill("lost")
	}
	if first {
		s.tellState(0)
		s.events.say(slog.LevelWarn, "lost", s.why(fields{"path": s.target.Paths[0], ReasonKey: err.Error()}), "%s is lost",
			s.target.word("the lock", "the term"))
	}
}

// losing handles a lock that no server has confirmed for too long. The program has been told that the lock is lost, so
// it gets no more than the grace, even if a server then confirms the lock.
func (s *supervision) losing(now time.Time, due verdict, cause string) {
	first := !s.end.Lost
	if s.options.OnLoss == "ignore" {
		return
	}
	s.end.Lost = true
	switch {
	case s.options.OnLoss == "term":
		s.stop(cause, time.Time{})
	case due == timeToKill:
		s.kill(cause)
	default:
		s.stop(cause, now.Add(s.deadline.grace))
	}
	if first {
		s.tellState(0)
	}
}

// suspect reports once when the deadline is closer than it ever is while servers answer. How long the deadline has been
// constant says less: after a grant it is constant for half a timeout, because a contact counts only when it is a
// quarter of the timeout old.
func (s *supervision) suspect(now, until time.Time) {
	switch stuck := until.Sub(now) < time.Duration(suspicious*float64(s.timeout)); {
	case stuck && s.deadline.awaitsAnswer(now): // not because an answer is missing
	case stuck && !s.suspected:
		s.suspected = true
		consequence, left := "the program will be stopped", until.Sub(now)-s.deadline.grace-s.deadline.lead
		if s.options.OnLoss == "ignore" {
			consequence, left = "its deadline is", until.Sub(now)
		}
		s.events.say(slog.LevelWarn, "suspect",
			s.why(fields{"path": s.target.Paths[0], "valid_until": until.UTC().Format(time.RFC3339Nano)}),
			"no server has confirmed the lock for %v; %s in %v",
			s.deadline.stuck(now).Round(time.Millisecond), consequence, left.Round(time.Millisecond))
	case !stuck && s.suspected:
		s.suspected = false
		s.events.say(slog.LevelWarn, "confirmed",
			fields{"path": s.target.Paths[0], "valid_until": until.UTC().Format(time.RFC3339Nano)},
			"a server has confirmed the lock again")
	}
}

// why adds what is known about the connection to the consequences of a loss: the server that does not answer, and the
// last error if it is newer than all answers.
func (s *supervision) why(to fields) fields {
	if _, has := to[ReasonKey]; has && !s.end.Lost {
		return to // such as "max-run"
	}
	status := s.status()
	if status.Server != "" {
		to["server"] = status.Server
	}
	if status.LastErrorAt.After(status.LastAnswer) {
		to[ErrorKey] = status.LastError.Error() // it names the server
	}
	return to
}

// publish passes a new deadline to the guard, and to the program unless it must stop.
func (s *supervision) publish(until time.Time, left verdict) {
	if until.Equal(s.told) {
		return
	}
	s.told = until
	s.child.KillAt(s.lastMoment())
	// Once asked to stop, the program must not see the lock as held again.
	if !s.end.Lost && (left == goodTime || s.options.OnLoss == "ignore") {
		s.tellState(s.deadline.onBoot)
	}
}

// tellState writes until when the lock is proven.
func (s *supervision) tellState(until time.Duration) {
	if err := s.state.tell(s.stateFor(until)); err != nil {
		s.events.warn("cannot write ZKR_STATE: zkr held cannot see later proofs", "err", err)
	}
}

// lastMoment returns when the guard kills the program, on the boot clock: slightly later than this process would.
func (s *supervision) lastMoment() time.Duration {
	if s.options.OnLoss != "kill" {
		return 0
	}
	return s.deadline.onBoot - s.deadline.lead/2
}

// stateFor returns the state of a lock that is proven until the given time on the boot clock.
func (s *supervision) stateFor(until time.Duration) State {
	return State{until, s.grant.parts[0].Token().String(), s.target.Paths[0]}
}
