// Package web serves over HTTP which candidate leads, and a page that shows all queues.
package web

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/survey"
	"github.com/zkrecipes/zkrecipes/recipes/election"
	"github.com/zkrecipes/zkrecipes/zkhttp"
)

// Site is the HTTP site of zkr serve. It may report an election, campaign in it, and show all queues.
type Site struct {
	log       *slog.Logger
	mux       *http.ServeMux
	page      *page                      // nil if there is none
	hosts     []string                   // that requests may name
	login     *login                     // if nil, everyone may read
	tls       *tls.Config                // nil means plain text
	resigning chan chan<- *election.Term // a term that receives a channel ends, and is sent to that channel
	guests    *guests
	streams   chan struct{} // holds one element per event stream
}

// mostStreams bounds the event streams, which are long-lived, together with half the number of connections.
const mostStreams = 64

// New returns a site that answers /healthz.
func New(log *slog.Logger) *Site {
	most := mostGuests(descriptors())
	s := &Site{
		log: log, mux: http.NewServeMux(), resigning: make(chan chan<- *election.Term),
		guests: newGuests(most, log), streams: make(chan struct{}, max(1, min(mostStreams, most/2))),
	}
	s.mux.HandleFunc("GET /healthz", alive)
	return s
}

// Handle adds a handler.
func (s *Site) Handle(pattern string, h http.Handler) { s.mux.Handle(pattern, h) }

// Stand campaigns in an election until ctx ends. Requests may ask the candidate to resign.
func (s *Site) Stand(ctx context.Context, e *election.Election, path string) error {
	return e.Run(ctx, func(ctx context.Context, t *election.Term) error { return s.lead(ctx, t, path) })
}

// lead serves a term, which other programs query.
func (s *Site) lead(ctx context.Context, t *election.Term, path string) error {
	s.log.Info("elected", "path", path, "token", t.Token().String())
	if s.page != nil {
		s.page.term.Store(t)
		defer s.page.term.Store(nil)
	}
	select {
	case asked := <-s.resigning:
		s.log.Info("resigning, as requested", "path", path, "token", t.Token().String())
		asked <- t
		return nil
	case <-ctx.Done():
	}
	s.log.Info("term ended", "path", path, "token", t.Token().String(), "reason", context.Cause(ctx))
	if err := t.Err(); err != nil && s.page != nil { // the term was lost, and serve continues
		s.page.lost(path, fmt.Sprintf("this candidate lost its term with the token %v: %v", t.Token(), err))
	}
	return nil
}

// resignPatience bounds how long a request to resign waits for a term.
const resignPatience = time.Second

// TakeResignations allows programs on this machine to end the term of this candidate.
func (s *Site) TakeResignations() { s.mux.HandleFunc("POST /resign", s.resign) }

// resign ends the term of this candidate, and answers once the term has ended. It requires a Unix socket, which has an
// owner and a mode: its clients are on this machine, and none of them is a web page.
func (s *Site) resign(w http.ResponseWriter, r *http.Request) {
	if at, is := r.Context().Value(http.LocalAddrContextKey).(net.Addr); !is || at.Network() != "unix" {
		Reply(w, http.StatusForbidden, Failure("only on a unix socket: start zkr serve with --http unix:/path as well"))
		return
	}
	ending := make(chan *election.Term, 1)
	// /self shows the term shortly before lead is called for it.
	patience := time.NewTimer(resignPatience)
	defer patience.Stop()
	select {
	case s.resigning <- ending:
	case <-r.Context().Done():
		return
	case <-patience.C:
		Reply(w, http.StatusConflict, Failure("this candidate does not lead"))
		return
	}
	t := <-ending
	select {
	case <-t.Done():
		Reply(w, http.StatusOK, map[string]any{"resigned": t.Token()})
	case <-r.Context().Done():
	}
}

// TellLeader adds the handlers that report the election.
func (s *Site) TellLeader(e *election.Election) {
	leader := zkhttp.Leader(e)
	s.mux.Handle("/leader", leader)
	s.mux.Handle("/self", zkhttp.Self(e))
	s.mux.HandleFunc("GET /events", func(w http.ResponseWriter, r *http.Request) {
		end, full := s.beginStream()
		if full != nil {
			w.Header().Set("Retry-After", "5")
			Reply(w, http.StatusServiceUnavailable, Failure(full.Error()))
			return
		}
		defer end()
		leaderEvents(w, r, e)
	})
	s.mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) { nameOfLeader(w, r, leader) })
}

// nameOfLeader answers like the leader-elector sidecar of Kubernetes, but never from memory.
func nameOfLeader(w http.ResponseWriter, r *http.Request, leader http.Handler) {
	answer := &capture{header: http.Header{}, status: http.StatusOK}
	leader.ServeHTTP(answer, r)
	var body struct {
		Leader string `json:"leader"`
		Error  string `json:"error"`
	}
	switch err := json.Unmarshal(answer.body.Bytes(), &body); {
	case err != nil:
		Reply(w, http.StatusInternalServerError, Failure(err.Error()))
	case answer.status != http.StatusOK:
		Reply(w, http.StatusServiceUnavailable, Failure(body.Error))
	default:
		Reply(w, http.StatusOK, map[string]string{"name": survey.NameOf(zkrecipes.Participant{Name: body.Leader})})
	}
}

// capture records the answer of another handler.
type capture struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (c *capture) Header() http.Header            { return c.header }
func (c *capture) WriteHeader(status int)         { c.status = status }
func (c *capture) Write(text []byte) (int, error) { return c.body.Write(text) }

// leaderEvent is one view of the election. It names a leader only while the leader is known.
type leaderEvent struct {
	Known  bool      `json:"known"`
	Leader string    `json:"leader,omitempty"`
	Token  string    `json:"token,omitempty"`
	Since  time.Time `json:"since,omitzero"`
	AsOf   time.Time `json:"as_of"`
}

// leaderEvents streams the views. A client that reconnects gets the current one, since changes in between are not kept.
func leaderEvents(w http.ResponseWriter, r *http.Request, e *election.Election) {
	out, err := newStream(w)
	if err != nil {
		return
	}
	for view, err := range e.Watch(r.Context()) {
		if err != nil {
			return
		}
		event := leaderEvent{Known: view.Current, AsOf: view.AsOf}
		if view.Current && view.Exists {
			event.Leader, event.Token, event.Since = survey.NameOf(view.Leader), view.Leader.Token.String(), view.Leader.Since
		}
		text, err := survey.JSON(event)
		if err != nil || out.send(event.Token, slices.Values([]string{string(text)})) != nil {
			return // the client has gone
		}
	}
}

func alive(w http.ResponseWriter, _ *http.Request) {
	Reply(w, http.StatusOK, map[string]string{"state": "alive"})
}
