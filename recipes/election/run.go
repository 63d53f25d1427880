package election

import (
	"context"
	"errors"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/hold"
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
// Errors: a nil lead, at once; the error of lead; the cause of ctx; the errors of [Election.Campaign] but
// ErrAuthFailed, after which Run tries again with pauses.
//
// Source: Curator's LeaderSelector with autoRequeue.
func (e *Election) Run(ctx context.Context, lead func(ctx context.Context, t *Term) error) error {
	if lead == nil {
		return errors.New("run: the function is nil: want one that leads")
	}
	campaign := func(ctx context.Context) (*zkrecipes.Hold, error) {
		t, err := e.Campaign(ctx)
		if err != nil {
			return nil, err
		}
		return t.Hold, nil
	}
	return hold.Repeat(ctx, campaign, func(ctx context.Context, h *zkrecipes.Hold) (again bool, err error) {
		err = e.serve(ctx, &Term{h}, lead)
		return err == nil || e.retry(err), err
	})
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
		if hold.SaysEnded(err, context.Cause(ctx)) {
			err = nil
		}
		return nil
	}) // a loss ends the term, and not Run
	return err
}
