package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/survey"
	"github.com/zkrecipes/zkrecipes/recipes/election"
	"github.com/zkrecipes/zkrecipes/zkhttp"
)

// sidecar is what serve runs: it answers for an election, and may be a candidate in it.
type sidecar struct {
	app       *app
	mux       *http.ServeMux
	path      string                     // of the election in which it stands
	page      *page                      // nil without one
	resigning chan chan<- *election.Term // a term that takes a channel from it ends, and tells its name there
}

// lead is a term: other programs ask for it.
func (s *sidecar) lead(ctx context.Context, t *election.Term) error {
	s.app.log.Info("leading", "token", t.Token().String())
	select {
	case asked := <-s.resigning:
		s.app.log.Info("resigning, as a request asks for", "token", t.Token().String())
		asked <- t
		return nil
	case <-ctx.Done():
	}
	s.app.log.Info("leading no more", "token", t.Token().String(), "cause", context.Cause(ctx))
	if err := t.Err(); err != nil && s.page != nil { // the term was lost, and serve goes on
		s.page.lost(s.path, fmt.Sprintf("this candidate has lost the term with the token %v: %v", t.Token(), err))
	}
	return nil
}

// resignPatience is how long a request to resign waits for a term.
const resignPatience = time.Second

// resign ends the term of this candidate, and answers when it has ended. A socket has an owner and a mode, so its clients are
// of this machine, and no web page is among them.
func (s *sidecar) resign(w http.ResponseWriter, r *http.Request) {
	if at, is := r.Context().Value(http.LocalAddrContextKey).(net.Addr); !is || at.Network() != "unix" {
		writeJSON(w, http.StatusForbidden, failure("only on a unix socket: start zkr serve with --http unix:/path as well"))
		return
	}
	ending := make(chan *election.Term, 1)
	// The term shows in /self a moment before lead is called for it.
	patience := time.NewTimer(resignPatience)
	defer patience.Stop()
	select {
	case s.resigning <- ending:
	case <-r.Context().Done():
		return
	case <-patience.C:
		writeJSON(w, http.StatusConflict, failure("this candidate does not lead"))
		return
	}
	t := <-ending
	select {
	case <-t.Done():
		writeJSON(w, http.StatusOK, map[string]any{"resigned": t.Token()})
	case <-r.Context().Done():
	}
}

// tellLeader adds the handlers that tell of the election.
func (s *sidecar) tellLeader(e *election.Election) {
	leader := zkhttp.Leader(e)
	s.mux.Handle("/leader", leader)
	s.mux.Handle("/self", zkhttp.Self(e))
	s.mux.HandleFunc("GET /events", func(w http.ResponseWriter, r *http.Request) { leaderEvents(w, r, e) })
	s.mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) { nameOfLeader(w, r, leader) })
}

// nameOfLeader answers as the leader-elector sidecar of Kubernetes did, but never from memory.
func nameOfLeader(w http.ResponseWriter, r *http.Request, leader http.Handler) {
	answer := &capture{header: http.Header{}, status: http.StatusOK}
	leader.ServeHTTP(answer, r)
	var body struct {
		Leader string `json:"leader"`
		Error  string `json:"error"`
	}
	switch err := json.Unmarshal(answer.body.Bytes(), &body); {
	case err != nil:
		writeJSON(w, http.StatusInternalServerError, failure(err.Error()))
	case answer.status != http.StatusOK:
		writeJSON(w, http.StatusServiceUnavailable, failure(body.Error))
	default:
		writeJSON(w, http.StatusOK, map[string]string{"name": body.Leader})
	}
}

// capture keeps the answer of another handler.
type capture struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (c *capture) Header() http.Header            { return c.header }
func (c *capture) WriteHeader(status int)         { c.status = status }
func (c *capture) Write(text []byte) (int, error) { return c.body.Write(text) }

// leaderEvent is one view of the election. It names a leader only while that is known.
type leaderEvent struct {
	Known  bool      `json:"known"`
	Leader string    `json:"leader,omitempty"`
	Token  string    `json:"token,omitempty"`
	Since  time.Time `json:"since,omitzero"`
	AsOf   time.Time `json:"as_of"`
}

// leaderEvents streams the views. A reader that comes back gets the present one: changes in between are not kept.
func leaderEvents(w http.ResponseWriter, r *http.Request, e *election.Election) {
	out := newStream(w)
	for view, err := range e.Observe(r.Context()) {
		if err != nil {
			return
		}
		event := leaderEvent{Known: view.Current, AsOf: view.AsOf}
		if view.Current && !view.None {
			event.Leader, event.Token, event.Since = survey.NameOf(view.Leader), view.Leader.Token.String(), view.Leader.Since
		}
		text, err := json.Marshal(event)
		if err != nil || out.send(event.Token, text) != nil {
			return // the reader has gone
		}
	}
}

func alive(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]string{"state": "alive"})
}

// failure is the body of an answer that is no success.
func failure(text string) map[string]string { return map[string]string{"error": text} }

func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the caller may have gone
}
