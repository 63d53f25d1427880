package election

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/hold"
)

// A term that ends within brief is followed by a pause, which doubles from one such term to the next.
const (
	brief      = time.Second
	firstPause = 50 * time.Millisecond
	lastPause  = 5 * time.Second
)

// Run campaigns, calls lead when elected, and campaigns again when lead has returned, until ctx ends. The context of
// lead ends with the term or with ctx, whichever is first; see [zkrecipes.Hold.Context]. Run deletes the candidate only
// after lead has returned. So a leader that stops with its context has stopped before the next one is elected. If the term
// is lost, lead must stop before the servers expire the session, which they do later than [zkrecipes.Hold.ValidUntil].
//
// After a term that ended within a second, Run waits before it campaigns again: 50 ms the first time, twice as long after
// each further one, 5 s at most, a random half more or less. A longer term starts this anew.
//
// An error of lead ends Run, with two exceptions: one that only says that lead's context had ended, and one that
// [WithRetry] accepts. Several errors that are joined say more if one of them does. If lead panics, Run resigns, and the
// panic goes on.
//
// Errors: a nil lead, at once; the error of lead; the cause of ctx; the errors of [Election.Campaign].
//
// Source: Curator's LeaderSelector with autoRequeue.
func (e *Election) Run(ctx context.Context, lead func(ctx context.Context, t *Term) error) error {
	if lead == nil {
		return errors.New("run: the function is nil: want one that leads")
	}
	pause := backoff.NewExponentialBackOff(backoff.WithInitialInterval(firstPause), backoff.WithMultiplier(2),
		backoff.WithMaxInterval(lastPause), backoff.WithMaxElapsedTime(0))
	for ctx.Err() == nil {
		t, err := e.Campaign(ctx)
		if err != nil {
			return err
		}
		began := time.Now()
		err = e.serve(ctx, t, lead)
		if err != nil && !e.retry(err) {
			return err
		}
		if time.Since(began) >= brief {
			pause.Reset()
			continue
		}
		select {
		case <-time.After(pause.NextBackOff()):
		case <-ctx.Done():
		}
	}
	return context.Cause(ctx)
}

// Term returns the term that this process has, as long as it is held: of [Election.Run] or [Election.Campaign], through any Election
// of the same client with the same path and layout. A client made by Sub counts as the same. The path of the term is as the object
// names it that campaigned.
func (e *Election) Term() (*Term, bool) {
	t := e.term.Load()
	if t == nil {
		return nil, false
	}
	if t.Err() != nil {
		e.term.CompareAndSwap(t, nil)
		return nil, false
	}
	return t, true
}

// serve is one term. It returns the error of lead, unless that says only that the context of lead has ended.
func (e *Election) serve(ctx context.Context, t *Term, lead func(context.Context, *Term) error) (err error) {
	_ = hold.Under(ctx, t.Hold, func(ctx context.Context, _ *zkrecipes.Hold) error {
		err = lead(ctx, t)
		if ctx.Err() != nil && saysEnded(err, context.Cause(ctx)) {
			err = nil
		}
		return nil
	}) // a loss ends the term, and not Run
	return err
}

// saysEnded reports whether err says no more than that a context has ended for that cause. If several errors are joined,
// each of them must. The errors of this library are excepted, which also name what was in the way.
func saysEnded(err, cause error) bool {
	switch e := err.(type) { //nolint:errorlint // what err wraps is looked at in its turn
	case *conn.OpError, *zkrecipes.WaitError, *zkrecipes.LostError:
	case interface{ Unwrap() []error }:
		return !slices.ContainsFunc(e.Unwrap(), func(part error) bool { return !saysEnded(part, cause) })
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			return saysEnded(inner, cause)
		}
	}
	return slices.ContainsFunc([]error{context.Canceled, context.DeadlineExceeded, cause, zkrecipes.ErrLost, zkrecipes.ErrFenced},
		func(end error) bool { return errors.Is(err, end) })
}
