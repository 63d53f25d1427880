package election

import (
	"context"
	"errors"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/hold"
)

// Run campaigns, calls the lead function once elected, and campaigns again when the function returns, until ctx is
// done. The context passed to the function is canceled when the term ends or ctx is done, whichever comes first; see
// [zkrecipes.Hold.Context]. Run resigns when the lead function returns, so the next leader is elected only after that.
// If the term is lost instead, the next leader is elected after the function's context is canceled, but perhaps before
// the function returns. If ctx is done when the lead function returns, Run does not wait for the candidate to be
// deleted; the deletion continues in the background.
//
// After a term that ended within a second, Run backs off before it campaigns again. The pause is 50 ms the first time
// and doubles each time up to 5 seconds, plus or minus a random amount of up to half. A longer term resets the backoff.
//
// An error from the lead function ends Run, with two exceptions: an error that only reports that the function's context
// was done, and one that [WithRetry] accepts. A joined error falls under the first exception only if each of its parts
// does. If the function panics, Run resigns, and the panic continues.
//
// Errors: a nil lead function, immediately; an error from that function; context.Cause(ctx); or those from
// [Election.Campaign] except ErrAuthFailed, after which Run backs off and retries.
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

// Term returns the term that this process currently holds, and reports whether there is one. Use it where the term
// isn't at hand, for example in a request handler. It finds only terms obtained through this same Election, not
// through another one for the same client and path, so share the Election that campaigns.
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

// serve runs one term. It returns the error from the lead function, unless that only reports the end of the function's
// context.
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
