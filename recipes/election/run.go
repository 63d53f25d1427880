package election

import (
	"context"
	"errors"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/hold"
)

// Run campaigns, calls lead once elected, and campaigns again when lead returns, until ctx ends. lead's context is
// canceled when the term or ctx ends, whichever comes first; see [zkrecipes.Hold.Context]. Because Run deletes the
// candidate only when lead returns, a leader that stops with its context has stopped before the next one is elected. If
// the term is lost, lead must stop before the servers expire the session, which happens later than
// [zkrecipes.Hold.ValidUntil].
//
// After a term that ended within a second, Run backs off before it campaigns again: 50 ms the first time, doubling each
// time up to 5 seconds, plus or minus a random amount of up to half. A longer term resets the back-off.
//
// An error from lead ends Run, with two exceptions: an error that only reports the end of lead's context, and one that
// [WithRetry] accepts. A joined error only reports the end of the context if each of its parts does. If lead panics,
// Run resigns, and the panic continues.
//
// Errors: a nil lead, at once; an error from lead; context.Cause(ctx); those from [Election.Campaign] except
// ErrAuthFailed, after which Run backs off and retries.
//
// Source: Curator's LeaderSelector with autoRequeue.
func (e *Election) Run(ctx context.Context, lead func(ctx context.Context, t *Term) error) error {
	if lead == nil {
		return errors.New("run: the function is nil: want one that leads")
	}
	return hold.Repeat(ctx, e.campaign, func(ctx context.Context, h *zkrecipes.Hold) (again bool, err error) {
		err = e.serve(ctx, &Term{h}, lead)
		return err == nil || e.retry(err), err
	})
}

func (e *Election) campaign(ctx context.Context) (*zkrecipes.Hold, error) {
	t, err := e.Campaign(ctx)
	if err != nil {
		return nil, err
	}
	return t.Hold, nil
}

// Term returns the term that this process currently holds, and reports whether there is one. Use it where the term is
// not at hand, for example in a request handler. It finds only terms obtained by [Election.Run] or [Election.Campaign]
// on this same Election, not on another one for the same client and path, so share the Election that campaigns.
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

// serve runs one term. It returns the error of lead, unless that only reports the end of lead's context.
func (e *Election) serve(ctx context.Context, t *Term, lead func(context.Context, *Term) error) (err error) {
	_ = hold.Under(ctx, t.Hold, func(ctx context.Context, _ *zkrecipes.Hold) error {
		err = lead(ctx, t)
		if hold.SaysEnded(err, context.Cause(ctx)) {
			err = nil
		}
		return nil
	}) // a loss ends the term, but not Run
	return err
}
