package zkhttp

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/recipes/election"
)

// leaderBody is the response of Leader. Unknown fields are left out.
type leaderBody struct {
	Leader string          `json:"leader,omitempty"`
	Token  zkrecipes.Token `json:"token,omitempty"`
	Path   string          `json:"path,omitempty"`
	Since  time.Time       `json:"since,omitzero"`
	AsOf   time.Time       `json:"asOf,omitzero"`
	Age    float64         `json:"ageSeconds,omitempty"`
	Error  string          `json:"error,omitempty"`
}

// Leader reports who leads: 200 with the leader's name and token, 404 if there is no candidate, 503 if the servers do
// not answer within half a second. The answer is at least as recent as the request. A 503 reports the age of this
// handler's most recent view, but does not name a leader.
//
// If the leader was asked to resign, its name is left out, because the request replaces the name on its node.
//
// The leader may change between the response and its use. If that matters to a resource, have the resource check the
// token.
//
// Leader panics if the election is nil.
func Leader(e *election.Election) http.Handler {
	need(e != nil, "Leader", noElection)
	q := newQuestion(func(ctx context.Context) (zkrecipes.Participant, error) {
		leader, err := e.Leader(ctx)
		if errors.Is(err, zkrecipes.ErrNoLeader) {
			return zkrecipes.Participant{}, nil // which is an answer
		}
		return leader, err
	})
	return view(func(r *http.Request) (int, any) {
		a := q.ask(r.Context())
		switch {
		case a.err != nil:
			body := leaderBody{Error: a.err.Error()}
			if asOf := q.good.Load(); asOf != nil {
				body.AsOf, body.Age = *asOf, time.Since(*asOf).Seconds()
			}
			return http.StatusServiceUnavailable, body
		case a.value.Token == 0:
			return http.StatusNotFound, leaderBody{AsOf: a.asOf, Error: "no candidate"}
		default:
			p := a.value
			return http.StatusOK, leaderBody{Leader: p.Name, Token: p.Token, Path: p.Path, Since: p.Since, AsOf: a.asOf}
		}
	})
}

type selfBody struct {
	Token      zkrecipes.Token `json:"token"`
	Path       string          `json:"path"`
	Since      time.Time       `json:"since"`
	ValidUntil time.Time       `json:"validUntil"`
	ValidFor   float64         `json:"validForSeconds"`
}

// Self reports whether this process leads through the given election, in a term of [election.Election.Term]: 200 only
// while the term's deadline lies ahead, otherwise 503. Pass the election that campaigns, because another object on the
// same path does not know its terms. Self checks the clock during the request and sends no request to a server.
//
// No other candidate leads before validUntil, unless the term ends earlier. Because the response may be read late, note
// that validForSeconds counts from when it was written.
//
// Self panics if the election is nil.
func Self(e *election.Election) http.Handler {
	need(e != nil, "Self", noElection)
	return view(func(*http.Request) (int, any) {
		t, leads := e.Term()
		if !leads {
			return http.StatusServiceUnavailable, failure{"this process does not lead"}
		}
		body := selfBody{Token: t.Token(), Path: t.Path(), Since: t.Since(), ValidUntil: t.ValidUntil()}
		left := time.Until(body.ValidUntil)
		if left <= 0 { // it has ended since the call of Term
			return http.StatusServiceUnavailable, failure{"the term of this process has ended"}
		}
		body.ValidFor = left.Seconds()
		return http.StatusOK, body
	})
}
