package web

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/survey"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/recipes/election"
)

//go:embed ui
var assets embed.FS

// Queues configures what the page shows.
type Queues struct {
	Live     *survey.Live
	Root     string        // the page shows nothing above this path
	Stuck    time.Duration // a queue whose first waiter has waited this long is marked
	Break    http.Handler  // deletes a contender, or answers why not
	MayBreak bool
	Explain  func(error) string // text for an error
	Status   func() conn.Status
	History  string // file that keeps the changes; may be empty
	// Shards reads the shards at a path.
	Shards func(ctx context.Context, path string) (Shards, error)
}

// page shows all queues below a path, and follows them.
type page struct {
	queues  Queues
	log     *slog.Logger
	history *history // if nil, changes are only kept in memory

	beginStream func() (end func(), full error)

	mu      sync.Mutex
	now     pageView
	changed chan struct{} // closed when now is replaced

	term   atomic.Pointer[election.Term] // of this zkr's candidate
	groups map[string]group              // of shards, by path; only used by look
}

// pageView is one state of the page. It is replaced, never changed.
type pageView struct {
	queues  map[string]*pageQueue // by path
	changes changes
	asOf    time.Time
	lost    time.Time // since when zkr has had no connection
	cause   string    // of the lost connection
	current bool
	begun   bool // it has been current once; what existed then is not a change
	err     string
	hidden  string   // description of what the page cannot show
	unread  []string // its paths
}

// pageQueue is a queue in a view. Views share unchanged ones, and all readers share their text.
type pageQueue struct {
	// text is JSON of a shownQueue or of shownShards; it is empty for a queue that a group of shards represents.
	text    string
	holders []*survey.Contender
	granted map[string]time.Time
}

// orNone returns a queue without holders for nil.
func (q *pageQueue) orNone() pageQueue {
	if q == nil {
		return pageQueue{}
	}
	return *q
}

// shownQueue is a queue as the page shows it.
type shownQueue struct {
	*survey.Queue
	Granted map[string]time.Time `json:"granted,omitempty"` // the nodes of holders whose grant zkr has seen
}

// ownTerm is until when at least this zkr's candidate leads. Other candidates know that only of themselves.
type ownTerm struct {
	Node       string    `json:"node"`
	ValidUntil time.Time `json:"valid_until"`
}

// message is an event for the page: what has changed since the last one.
type message struct {
	Root    string    `json:"root"`
	First   bool      `json:"first,omitempty"`
	Now     time.Time `json:"now"`
	AsOf    time.Time `json:"as_of,omitzero"`
	Current bool      `json:"current"`
	Server  string    `json:"server,omitempty"` // that zkr is connected to
	Lost    time.Time `json:"lost,omitzero"`    // since when it has had no connection
	Cause   string    `json:"cause,omitempty"`  // of the lost connection
	Error   string    `json:"error,omitempty"`
	Hidden  string    `json:"hidden,omitempty"`
	Unread  []string  `json:"unread,omitempty"`  // the first paths of what is hidden
	Unreads int       `json:"unreads,omitempty"` // how many there are
	Gone    []string  `json:"gone,omitempty"`
	Changes []change  `json:"changes,omitempty"`
	Own     *ownTerm  `json:"own,omitempty"`
	Break   bool      `json:"break,omitempty"` // the page may offer to delete contenders
	Full    string    `json:"full,omitempty"`  // why this event is the last
}

// ShowQueues adds the page. Follow keeps it up to date.
func (s *Site) ShowQueues(q Queues) error {
	files, err := fs.Sub(assets, "ui")
	if err != nil {
		return err
	}
	s.page = &page{queues: q, log: s.log, changed: make(chan struct{}), beginStream: s.beginStream}
	if q.History != "" {
		if err := s.page.remember(); err != nil {
			return err
		}
	}
	static := http.StripPrefix("/ui/", http.FileServerFS(files))
	s.mux.HandleFunc("GET /ui/events", s.page.events)
	s.mux.Handle("POST /ui/break", q.Break)
	s.mux.Handle("GET /ui", http.RedirectHandler("/ui/", http.StatusFound))
	s.mux.HandleFunc("GET /ui/", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy",
			"default-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		static.ServeHTTP(w, r)
	})
	return nil
}

// Follow updates the page when the queues change, until ctx ends. It keeps the changes.
func (s *Site) Follow(ctx context.Context) {
	var keeping sync.WaitGroup
	defer keeping.Wait()
	if s.page.history != nil {
		keeping.Go(func() { s.page.keep(ctx) })
	}
	keeping.Go(func() { s.page.queues.Live.FollowClock(ctx) })
	s.page.follow(ctx)
}

// remember loads the changes that an earlier zkr has kept.
func (p *page) remember() error {
	h, c, err := openHistory(p.queues.History)
	if err != nil {
		return fmt.Errorf("--history: %w", err)
	}
	p.history, p.now.changes = h, c.with(change{At: time.Now(), Words: "zkr was started", Started: true})
	return h.add(p.now.changes, p.now.changes.since(c))
}

// keep writes each change, until ctx ends. Changes that cannot be written are written together with the next one.
func (p *page) keep(ctx context.Context) {
	defer p.history.close()
	view, changed := p.next()
	failed := false
	for ctx.Err() == nil {
		select {
		case <-changed:
		case <-ctx.Done():
		}
		before := view.changes
		view, changed = p.next()
		fresh := view.changes.since(before)
		if len(fresh) == 0 {
			continue
		}
		err := p.history.add(view.changes, fresh)
		if err != nil && !failed {
			p.log.Warn("cannot write the changes to --history, keeping them in memory", "error", err)
		}
		failed = err != nil
	}
}

// mostUnread bounds the list of unreadable paths on the page.
const mostUnread = 100

// patience bounds queries of the servers. A hanging server is worth a line of output, not a minute of waiting.
const patience = 5 * time.Second

// How often the page is updated: at most once per breath after changes, and at least once per beat, because verdicts
// depend on ages.
const (
	pageBreath = 200 * time.Millisecond
	pageBeat   = 2 * time.Second
)

// follow replaces the view when the queues change, until ctx ends.
func (p *page) follow(ctx context.Context) {
	wake := make(chan struct{}, 1)
	var following sync.WaitGroup
	defer following.Wait()
	var ended error
	done := make(chan struct{})
	following.Go(func() {
		defer close(done)
		ended = p.queues.Live.Changed(ctx, func() {
			select {
			case wake <- struct{}{}:
			default:
			}
		})
	})
	for ctx.Err() == nil {
		start := time.Now()
		p.look(ctx)
		// Updates of a large subtree take a fifth of a core, except that on a busy machine, or for a huge subtree, the pause
		// is no longer than a beat.
		pause := time.NewTimer(min(max(pageBreath, 4*time.Since(start)), pageBeat))
		select {
		case <-pause.C:
		case <-ctx.Done():
		}
		pause.Reset(pageBeat)
		select {
		case <-wake:
		case <-pause.C:
		case <-done:
			if ctx.Err() == nil {
				p.replace(func(v *pageView) {
					v.current, v.err = false, fmt.Sprintf("cannot follow %s: %s", p.queues.Root, p.queues.Explain(ended))
				})
			}
			pause.Stop()
			return
		case <-ctx.Done():
		}
		pause.Stop()
	}
}

// look reads the queues and replaces the view.
func (p *page) look(ctx context.Context) {
	asking, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	view, err := p.queues.Live.View(asking, p.queues.Stuck)
	if err != nil {
		p.replace(func(v *pageView) {
			v.current, v.err = false, ""
			v.note(p.queues.Status(), p.queues.Explain)
			if errors.Is(err, zk.ErrNoAuth) { // lasts until the ACL or the node changes
				v.err = p.queues.Explain(err)
			}
		})
		return
	}
	before, _ := p.next()
	queues := make(map[string]*pageQueue, len(view.Queues))
	for _, q := range view.Queues {
		q.AsOf = time.Time{} // the same for all
		granted := before.grants(q, view.Current)
		text, err := survey.JSON(shownQueue{q, granted})
		if err != nil {
			continue // no field of it can fail
		}
		if known := before.queues[q.Path]; known != nil && known.text == string(text) {
			queues[q.Path] = known
		} else {
			queues[q.Path] = &pageQueue{string(text), q.Holders, granted}
		}
	}
	p.lookAtShards(asking, view, queues)
	p.replace(func(v *pageView) {
		v.note(p.queues.Status(), p.queues.Explain)
		v.changes = v.changes.with(v.successions(queues)...)
		v.queues, v.asOf, v.current, v.err = queues, view.AsOf, view.Current, ""
		v.hidden, v.unread = notShown(view.Forbidden), view.Forbidden
		v.begun = v.begun || view.Current
	})
}

// note records when the connection was lost, and why. Once the connection is back, note adds the outage to the list of
// changes.
func (v *pageView) note(status conn.Status, explain func(error) string) {
	if status.State != zkrecipes.Connected {
		if v.lost.IsZero() {
			v.lost = status.Since
		}
		if status.LastError != nil && !status.LastErrorAt.Before(v.lost) {
			v.cause = explain(status.LastError)
		}
		return
	}
	if v.begun && !v.lost.IsZero() {
		v.changes = v.changes.with(change{
			At: time.Now(), After: v.lost,
			Words: strings.TrimSuffix("no connection to ZooKeeper: "+v.cause, ": "),
		})
	}
	v.lost, v.cause = time.Time{}, ""
}

// notShown describes which nodes may not be read; it returns "" if all may.
func notShown(nodes []string) string {
	switch n := len(nodes); n {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("1 node is not shown, %s: its ACL does not grant read, see --auth-file", nodes[0])
	default:
		return fmt.Sprintf("%d nodes are not shown, such as %s: their ACLs do not grant read, see --auth-file", n,
			nodes[0])
	}
}

// grants returns when the holders of a queue were granted, as far as that was observed; v is the previous view. Nodes
// only show when their contenders joined.
func (v *pageView) grants(q *survey.Queue, current bool) map[string]time.Time {
	before, granted := v.queues[q.Path].orNone(), map[string]time.Time{}
	fresh := without(q.Holders, before.holders)
	for _, c := range q.Holders {
		if at, seen := before.granted[c.Node]; seen && !slices.Contains(fresh, c) {
			granted[c.Node] = at
		}
	}
	if v.begun && v.current && current {
		for _, c := range fresh {
			granted[c.Node] = time.Now()
		}
	}
	return granted
}

// successions returns the changes of holders that lead from v to other queues.
func (v *pageView) successions(queues map[string]*pageQueue) (list []change) {
	if !v.begun {
		return nil
	}
	now, after := time.Now(), time.Time{}
	if !v.current {
		after = v.asOf
	}
	paths := slices.Collect(maps.Keys(queues))
	for path := range v.queues {
		if _, there := queues[path]; !there {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	for _, path := range paths {
		holders := queues[path].orNone().holders
		if words := succession(v.queues[path].orNone().holders, holders); words != "" {
			list = append(list, change{At: now, After: after, Path: path, Words: words, Held: few(holders)})
		}
	}
	return list
}

// lost records a loss of this zkr's candidate.
func (p *page) lost(path, words string) {
	p.replace(func(v *pageView) {
		v.changes = v.changes.with(change{At: time.Now(), Path: path, Words: words, Lost: true})
	})
}

// replace changes a copy of the view, and wakes those that wait for the next one.
func (p *page) replace(edit func(*pageView)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	edit(&p.now)
	close(p.changed)
	p.changed = make(chan struct{})
}

// next returns the view, and a channel that is closed when there is another one.
func (p *page) next() (pageView, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now, p.changed
}

// difference returns, in parts, the event that leads from one view to another. The texts of queues are those of the
// view.
func (p *page) difference(before, after pageView, first bool) (iter.Seq[string], error) {
	m := message{
		Root: p.queues.Root, First: first, Now: time.Now(), AsOf: after.asOf, Current: after.current, Error: after.err,
		Hidden: after.hidden,
		Server: p.queues.Status().Server, Lost: after.lost, Cause: after.cause,
		Changes: after.changes.since(before.changes), Break: p.queues.MayBreak,
		Unread: after.unread[:min(len(after.unread), mostUnread)], Unreads: len(after.unread),
	}
	if t := p.term.Load(); t != nil {
		m.Own = &ownTerm{t.Path(), t.ValidUntil()}
	}
	for path, q := range before.queues {
		if q.text != "" && after.queues[path].orNone().text == "" {
			m.Gone = append(m.Gone, path)
		}
	}
	slices.Sort(m.Gone)
	head, err := survey.JSON(m)
	return func(yield func(string) bool) {
		if !yield(strings.TrimSuffix(string(head), "}")) {
			return
		}
		separator, end := `,"changed":[`, "}"
		for path, q := range after.queues {
			if known := before.queues[path]; known == q || q.text == "" || known.orNone().text == q.text {
				continue
			}
			if !yield(separator) || !yield(q.text) {
				return
			}
			separator, end = ",", "]}"
		}
		yield(end)
	}, err
}

// events streams the view and its changes, with a heartbeat every beat.
func (p *page) events(w http.ResponseWriter, r *http.Request) {
	out, err := newStream(w)
	if err != nil {
		return
	}
	end, full := p.beginStream()
	if full != nil { // browsers do not expose the status of a stream to a page, only its events
		if text, err := survey.JSON(message{Root: p.queues.Root, Now: time.Now(), Full: full.Error()}); err == nil {
			_ = out.send("", slices.Values([]string{string(text)})) // it was the last
		}
		return
	}
	defer end()
	var before pageView
	first := true
	for {
		view, changed := p.next()
		event, err := p.difference(before, view, first)
		if err != nil || out.send("", event) != nil {
			return // the browser has gone, or does not read
		}
		before, first = view, false
		select {
		case <-changed:
		case <-time.After(pageBeat): // the queues are no longer followed, or servers hang
		case <-r.Context().Done():
			return
		}
	}
}
