package session

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/link"
	"github.com/zkrecipes/zkrecipes/internal/outcome"
)

// WithReason adds to the cause of a context the reason the call had not finished by then, unless that is nil.
func WithReason(cause, reason error) error {
	cause = sealed(cause)
	if reason == nil {
		return cause
	}
	return fmt.Errorf("%w (%w)", cause, reason)
}

// AsReason prepares err for use as an explanation in the error of a call or a loss. An error from a dialer, a mechanism
// or a resolver may match a server's answer, or the end of a context, client or hold that is not the caller's. The
// result keeps the text of such an error, but does not match these.
func AsReason(err error) error {
	if misleads(err) {
		return explanation{err}
	}
	return err
}

type explanation struct{ error }

func (e explanation) Is(target error) bool { return !misleads(target) && errors.Is(e.error, target) }

func misleads(err error) bool {
	return isResult(err) || slices.ContainsFunc(endings, func(ending error) bool { return errors.Is(err, ending) })
}

// endings are the errors by which callers learn that something of theirs has ended.
var endings = []error{
	context.Canceled, context.DeadlineExceeded, zkrecipes.ErrClosed, zkrecipes.ErrLost, zkrecipes.ErrReleased,
}

// CauseOf returns the cause of ctx, for the error of a call.
func CauseOf(ctx context.Context) error { return sealed(context.Cause(ctx)) }

// EndedBy reports whether the error of a call contains the cause of its context.
func EndedBy(ctx context.Context, err error) bool {
	cause := context.Cause(ctx)
	if _, ok := sealed(cause).(seal); ok { //nolint:errorlint // sealed wraps nothing
		return errors.As(err, new(seal))
	}
	return errors.Is(err, cause)
}

// sealed returns the cause of a context for the error of a call. The cause may be what another call returned, as with
// an errgroup. It must not be mistaken for the result of this call: a node is not missing because another one was, and
// a write was not fenced. A hold's loss is not such a result, even if a server reported it.
func sealed(cause error) error {
	if _, ok := cause.(*zkrecipes.LostError); ok { //nolint:errorlint // not that of another call
		return cause
	}
	if isResult(cause) {
		return seal{cause}
	}
	return cause
}

// isResult reports whether err is that of a call, or matches what a call may return.
func isResult(err error) bool {
	var other *OpError
	return errors.As(err, &other) || isAnswer(err)
}

// isAnswer reports whether err matches something that a server answers, or a result of one call.
func isAnswer(err error) bool {
	var code zkrecipes.Code
	return errors.As(err, &code) || outcome.Of(err) != outcome.Unknown ||
		slices.ContainsFunc(verdicts, func(verdict error) bool { return errors.Is(err, verdict) })
}

// verdicts are the errors by which a call reports what has become of what it was to do. The others, such as ErrClosed,
// are about what several calls use.
var verdicts = []error{
	zkrecipes.ErrLocked, zkrecipes.ErrFenced, zkrecipes.ErrUpgrade, zkrecipes.ErrDeadlock, zkrecipes.ErrNoLeader,
	zkrecipes.ErrUnknownOutcome, zkrecipes.ErrTooLarge, zkrecipes.ErrSessionFull, zkrecipes.ErrSequenceExhausted,
	zkrecipes.ErrForeignContender, zkrecipes.ErrUnsupportedServer, zkrecipes.ErrTaken,
}

// seal matches its error, unless that is itself an answer such as zk.ErrNoNode. It matches nothing else that its error
// matches.
type seal struct{ error }

func (s seal) Is(target error) bool {
	return reflect.TypeOf(target).Comparable() && target == s.error && !isBare(target)
}

// isBare reports whether err is an answer that other calls return as it is. An error that wraps an answer, or has its
// details, belongs to one call.
func isBare(err error) bool {
	switch err.(type) { //nolint:errorlint // what it wraps is not the question
	case interface{ Unwrap() error }, interface{ Unwrap() []error }, interface{ Is(target error) bool }:
		return false
	default:
		return isAnswer(err)
	}
}

// ExplainUnanswered is Explain for a caller that waits for an answer: if the session is connected, only the answer is
// missing.
func (s *session) ExplainUnanswered(cause error) error {
	now := s.Report()
	if !now.Up {
		return s.Explain(cause)
	}
	late := link.Rounded(time.Since(now.LastAnswer))
	return WithReason(cause, fmt.Errorf("no answer from %s, which last answered %v ago", now.Server, late))
}
