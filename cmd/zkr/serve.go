package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/survey"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/recipes/election"
	"github.com/zkrecipes/zkrecipes/zkhttp"
	"github.com/zkrecipes/zkrecipes/zkprom"
)

type serveFlags struct {
	addresses                        []string
	elect, observe, layout, id, root string
	stuck                            duration
	allowBreak                       bool
}

func newServe(a *app) *cobra.Command {
	flags := serveFlags{stuck: duration(10 * time.Minute)}
	cmd := &cobra.Command{
		Use:   "serve [flags]",
		Short: "Tell over HTTP which candidate leads, and show all locks in a browser",
		Example: `  zkr serve --elect /app/leader --id "$POD_NAME"
  zkr serve --observe /app/leader
  zkr serve --elect /app/leader --http :4040 --http unix:/run/zkr/socket
  zkr serve --ui-root /jobs   # then open http://127.0.0.1:4040/ui/`,
		Long: `serve answers HTTP requests. It only reads, but --elect makes it a candidate, and --allow-break lets the page delete contenders.
It is for programs beside it, in any language: the default address is on the loopback, and reading needs no password.

  /         {"name": "..."} of the leader; 503 if it is not known
  /leader   leader, token, since, asOf; 404 if there is no candidate, 503 if the servers do not answer
  /self     200 only while this candidate leads and its deadline lies ahead; else 503
  /events   server-sent events, one for each change of the leader; the id of an event is the token
  /healthz  200 while zkr runs                   /readyz   200 while the servers answer
  /metrics  for Prometheus                       /ui/      all locks and elections below --ui-root, live
  /resign   POST on a unix socket: this candidate resigns, and stands again at the end of the queue

With --allow-break, serve prints a key at its start. The page asks for it, shows the contender, and asks again before it deletes
the contender, as zkr break does.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.serve(cmd.Context(), flags) },
	}
	cmd.Flags().StringSliceVar(&flags.addresses, "http", []string{"127.0.0.1:4040"}, "`address` to listen at, or several of them; unix:/path for a socket")
	cmd.Flags().StringVar(&flags.elect, "elect", "", "be a candidate at this `path`")
	cmd.Flags().StringVar(&flags.observe, "observe", "", "tell which candidate leads at this `path`, and be none")
	cmd.Flags().StringVar(&flags.id, "id", "", "`name` of this candidate; default host/process")
	cmd.Flags().StringVar(&flags.root, "ui-root", "/", "`path` of the subtree that the page shows; empty for no page")
	cmd.Flags().Var(&flags.stuck, "stuck", "the page marks queues whose first waiter has waited for so long")
	cmd.Flags().BoolVar(&flags.allowBreak, "allow-break", false, "let a browser that has the key delete contenders")
	noEnv(cmd, "allow-break")
	addLayout(cmd, &flags.layout)
	return cmd
}

func (a *app) serve(parent context.Context, flags serveFlags) error {
	if flags.elect != "" && flags.observe != "" {
		return usagef("--elect and --observe: want one of them")
	}
	if flags.allowBreak && flags.root == "" {
		return usagef("--allow-break needs the page: want a path for --ui-root")
	}
	layout, err := layoutOf(flags.layout)
	if err != nil {
		return err
	}
	ctx, done := a.signals.context(parent)
	defer done()
	metrics, err := zkprom.New()
	if err != nil {
		return err
	}
	options := []conn.Option{conn.WithTracer(metrics)}
	if flags.id != "" {
		options = append(options, conn.WithIdentity(flags.id))
	}
	client, err := a.dial(ctx, options...)
	if err != nil {
		return err
	}
	defer client.Close() //nolint:errcheck // it returns nil
	mux := http.NewServeMux()
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics)
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", alive)
	mux.Handle("/readyz", zkhttp.Health(client))
	s := &sidecar{app: a, mux: mux, path: flags.elect, resigning: make(chan chan<- *election.Term)}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var running sync.WaitGroup
	defer running.Wait()
	defer fail(nil)
	if flags.root != "" {
		live, err := survey.Follow(client, flags.root)
		if err != nil {
			return exitWith(exitUsage, err)
		}
		b, err := a.newBreaker(client, flags.root, flags.allowBreak)
		if err != nil {
			return err
		}
		s.page = newPage(live, flags.root, time.Duration(flags.stuck), b)
		if err := s.page.register(mux); err != nil {
			return err
		}
		running.Go(func() { s.page.follow(ctx) })
	}
	if path := flags.elect + flags.observe; path != "" {
		e, err := election.New(client, path, election.WithLayout(layout))
		if err != nil {
			return exitWith(exitUsage, err)
		}
		s.tellLeader(e)
		if flags.elect != "" {
			mux.HandleFunc("POST /resign", s.resign)
			running.Go(func() { fail(e.Run(ctx, s.lead)) })
		}
	} else {
		mux.Handle("GET /{$}", http.RedirectHandler("/ui/", http.StatusFound))
	}
	return s.listen(ctx, flags.addresses)
}

// sidecar is what serve runs.
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

// failure is the body of an answer that is no success.
func failure(text string) map[string]string { return map[string]string{"error": text} }

// listen serves at the addresses until ctx ends, or one of them fails.
func (s *sidecar) listen(ctx context.Context, addresses []string) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var serving sync.WaitGroup
	defer serving.Wait()
	for _, address := range addresses {
		network := "tcp"
		if path, is := strings.CutPrefix(address, "unix:"); is {
			network, address = "unix", path
		}
		l, err := (&net.ListenConfig{}).Listen(ctx, network, address)
		if err != nil {
			fail(err)
			break
		}
		serving.Go(func() { fail(s.serveAt(ctx, l)) })
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

// serveAt serves at one address until ctx ends.
func (s *sidecar) serveAt(ctx context.Context, l net.Listener) error {
	server := &http.Server{
		Handler: local(l.Addr(), s.mux), ReadHeaderTimeout: 10 * time.Second,
		BaseContext: func(net.Listener) context.Context { return ctx }, // streams end with it
	}
	s.app.log.Info("listening", "address", l.Addr().String())
	var stopping sync.WaitGroup
	defer stopping.Wait()
	stopped := context.AfterFunc(ctx, func() {
		defer stopping.Done()
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if server.Shutdown(last) != nil {
			_ = server.Close() // what has not ended by now is cut
		}
	})
	stopping.Add(1)
	err := server.Serve(l)
	if stopped() { // the listener failed first
		stopping.Done()
	}
	if errors.Is(err, http.ErrServerClosed) {
		return context.Cause(ctx)
	}
	return err
}

// local lets a listener at the loopback answer only requests for the loopback by name. Else a web page of another site could
// have its own name resolved to 127.0.0.1, and read the answers in the browser of an operator.
func local(address net.Addr, next http.Handler) http.Handler {
	at, tcp := address.(*net.TCPAddr)
	if !tcp || !at.IP.IsLoopback() {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		if ip := net.ParseIP(strings.Trim(host, "[]")); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			writeJSON(w, http.StatusForbidden, failure("Host "+r.Host+": want localhost or 127.0.0.1"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// tellLeader adds the handlers that tell of the election.
func (s *sidecar) tellLeader(e *election.Election) {
	leader := zkhttp.Leader(e)
	s.mux.Handle("/leader", leader)
	s.mux.Handle("/self", zkhttp.Self(e))
	s.mux.HandleFunc("GET /events", func(w http.ResponseWriter, r *http.Request) { leaderEvents(w, r, e) })
	s.mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) { nameOfLeader(w, r, leader) })
}

func alive(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]string{"state": "alive"})
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

func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the caller may have gone
}

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
			event.Leader, event.Token, event.Since = view.Leader.ID, view.Leader.Token.String(), view.Leader.Since
		}
		text, err := json.Marshal(event)
		if err != nil || out.send(event.Token, text) != nil {
			return // the reader has gone
		}
	}
}
