package world

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/fence"
)

// Moment is a time in milliseconds since the start of the world.
type Moment float64

// Open is the end of a span that has not ended.
const Open Moment = -1

// Span is something with a duration.
type Span struct {
	Kind  string // of a lane: "waits", "holds", "reads"; of a fault: "cut", "frozen"; of a server: "session"
	From  Moment
	To    Moment // Open while it lasts
	Token zkrecipes.Token
	Why   string // why it ended
}

// Mark is something that happens at a moment.
type Mark struct {
	Kind string // "event", "write", "refused", "unanswered", "lost", "reset"
	At   Moment
	Text string
}

// Request is one request to the server.
type Request struct {
	Op       string
	Sent     Moment
	Done     Moment // Open while it is in flight
	Lost     bool   // no answer will come
	Changing bool
}

// Line is a line of the story.
type Line struct {
	At   Moment
	Who  string
	Text string
}

// history records what has happened. Tracers and connections write to it, so its lock is held only for moments.
type history struct {
	mu      sync.Mutex
	begin   time.Time
	version int   // grows with each entry
	seen    int64 // the latest of the server's transactions that it covers
	lanes   []*lane
	story   []Line
}

// lane is the history of one process.
type lane struct {
	*history
	name     string
	spans    []Span
	faults   []Span
	sessions []session
	requests []Request
	dropped  int // requests removed from the front: a tap identifies requests by number
	marks    []Mark
	closing  bool // the client has asked to end a session
	up       bool
	state    zkrecipes.State
	until    func() time.Time // the deadline of the current hold; nil without one
	curator  *curator         // nil if the recipe is not exclusive
}

// session is one session as the server sees it.
type session struct {
	Span
	id int64
}

func (h *history) lane(name string, exclusive bool) *lane {
	l := &lane{history: h, name: name}
	if exclusive {
		l.curator = &curator{suspended: Open}
	}
	h.lanes = append(h.lanes, l)
	return l
}

func (h *history) moment(t time.Time) Moment { return Moment(float64(t.Sub(h.begin)) / 1e6) }

func (h *history) now() Moment { return h.moment(time.Now()) }

// say adds a line to the story.
func (h *history) say(who, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tell(h.now(), who, text)
}

// tell is like say, but the caller holds the lock.
func (h *history) tell(at Moment, who, text string) {
	h.version++
	i := len(h.story)
	for i > 0 && h.story[i-1].At > at { // the server's transactions are read late
		i--
	}
	h.story = slices.Insert(h.story, i, Line{at, who, text})
}

// forget drops what ended before the given moment. The caller holds the lock.
func (h *history) forget(before Moment) {
	over := func(s Span) bool { return s.To != Open && s.To < before }
	h.story = slices.DeleteFunc(h.story, func(l Line) bool { return l.At < before })
	for _, l := range h.lanes {
		l.spans, l.faults = slices.DeleteFunc(l.spans, over), slices.DeleteFunc(l.faults, over)
		l.sessions = slices.DeleteFunc(l.sessions, func(s session) bool { return over(s.Span) })
		l.marks = slices.DeleteFunc(l.marks, func(m Mark) bool { return m.At < before })
		old := 0
		for old < len(l.requests) && l.requests[old].Done != Open && l.requests[old].Done < before {
			old++
		}
		l.requests, l.dropped = slices.Delete(l.requests, 0, old), l.dropped+old
		if l.curator != nil {
			l.curator.holds = slices.DeleteFunc(l.curator.holds, func(r ruled) bool { return over(r.Span) })
		}
	}
}

// last returns the newest span of a kind that has not ended, or nil.
func last(spans []Span, kind string) *Span {
	for i := len(spans) - 1; i >= 0; i-- {
		if spans[i].To == Open && (kind == "" || spans[i].Kind == kind) {
			return &spans[i]
		}
	}
	return nil
}

func (l *lane) say(text string) { l.history.say(l.name, text) }

// mark adds a mark, and adds its text to the story. The caller holds the lock.
func (l *lane) mark(kind, text string) {
	l.version++
	l.marks = append(l.marks, Mark{kind, l.now(), text})
	if text != "" {
		l.tell(l.now(), l.name, text)
	}
}

// unanswered records a write that the server applied and whose reply is lost.
func (l *lane) unanswered() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mark("unanswered", "its write is applied on the server, but the reply is lost")
}

func (l *lane) starts() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.up = true
	if l.curator != nil {
		l.curator.begins(l.now())
	}
	l.tell(l.now(), l.name, "starts")
}

func (l *lane) ends(killed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	l.up = false
	for i := range l.faults {
		if l.faults[i].To == Open {
			l.faults[i].To = now
		}
	}
	if l.curator != nil {
		l.curator.ends(now)
	}
	if killed {
		l.tell(now, l.name, "is killed: the server no longer hears from it")
	} else {
		l.tell(now, l.name, "stops cleanly")
	}
}

func (l *lane) fault(kind string, begins bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	words := map[string][2]string{
		"cut":    {"is connected again", "is cut off: no data gets through"},
		"frozen": {"resumes where it was frozen", "is frozen: it has checked its hold, and stops just before it writes"},
	}[kind]
	if begins {
		l.faults = append(l.faults, Span{Kind: kind, From: l.now(), To: Open})
		l.tell(l.now(), l.name, words[1])
		return
	}
	if f := last(l.faults, kind); f != nil {
		f.To = l.now()
	}
	l.tell(l.now(), l.name, words[0])
}

// wrote records a write under the lock, with the answer of the fence.
func (l *lane) wrote(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var stale *fence.StaleError
	switch {
	case err == nil:
		l.mark("write", "")
	case errors.As(err, &stale):
		l.mark("refused", fmt.Sprintf("writes with token %d; the fence has seen %d and rejects it",
			stale.Presented, stale.Highest))
	}
}

// tracer writes what the library reports into the lane.
func (l *lane) tracer() *zkrecipes.Tracer {
	return &zkrecipes.Tracer{
		AcquireStart: func(ctx context.Context, a zkrecipes.AcquireStart) context.Context {
			l.waits(a)
			return ctx
		},
		AcquireEnd: func(_ context.Context, a zkrecipes.AcquireEnd) { l.waited(a) },
		HoldStart: func(ctx context.Context, h zkrecipes.HoldStart) context.Context {
			l.holds(h)
			return ctx
		},
		HoldEnd: func(_ context.Context, h zkrecipes.HoldEnd) { l.held(h) },
		State:   l.changes,
	}
}

func (l *lane) waits(a zkrecipes.AcquireStart) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.spans = append(l.spans, Span{Kind: "waits", From: l.now(), To: Open})
	what := "asks for the lock"
	switch a.Recipe {
	case "rwlock-read":
		what = "asks to read"
	case "rwlock-write":
		what = "asks to write"
	case "semaphore":
		what = "asks for a lease"
	case "election":
		what = "stands for election"
	}
	l.tell(l.now(), l.name, what)
}

func (l *lane) waited(a zkrecipes.AcquireEnd) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := last(l.spans, "waits"); s != nil {
		s.To = l.now()
	}
	if a.Err != nil {
		l.tell(l.now(), l.name, "stops waiting")
	}
}

func (l *lane) holds(h zkrecipes.HoldStart) {
	l.mu.Lock()
	defer l.mu.Unlock()
	kind := "holds"
	if h.Recipe == "rwlock-read" {
		kind = "reads"
	}
	if s := last(l.spans, "waits"); s != nil {
		s.To = l.now()
	}
	l.spans = append(l.spans, Span{Kind: kind, From: l.now(), To: Open, Token: h.Token})
	l.until = h.ValidUntil
	if l.curator != nil {
		l.curator.granted(l.now(), h.Path, h.Token)
	}
	l.tell(l.now(), l.name, fmt.Sprintf("%s, with token %d", kind, h.Token))
}

// held ends the hold. A hold that ran out ended at its deadline, however late that was noticed.
func (l *lane) held(h zkrecipes.HoldEnd) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.IndexFunc(l.spans, func(s Span) bool { return s.To == Open && s.Kind != "waits" && s.Token == h.Token })
	if i < 0 {
		return
	}
	l.until = nil
	l.spans[i].To, l.spans[i].Why = l.now(), "released"
	switch {
	case h.Lost == nil:
		l.tell(l.now(), l.name, "releases")
		if l.curator != nil {
			l.curator.ends(l.now())
		}
	case h.Lost.Reason == zkrecipes.LossClosed:
		l.spans[i].Why = h.Lost.Reason.String()
	default:
		l.spans[i].To, l.spans[i].Why = l.moment(h.Lost.At), h.Lost.Reason.String()
		l.mark("lost", lostFor(h.Lost.Reason.String()))
	}
}

// lostFor returns the line of the story for a hold that was lost.
func lostFor(why string) string { return "loses its hold: " + strings.ReplaceAll(why, "-", " ") }

// nameLosses names the lost session as the reason of each hold that ended because its node was deleted along with the
// session: the client may have learned of the deletion first. The caller holds the lock.
func (l *lane) nameLosses() {
	deleted := zkrecipes.LossNodeDeleted.String()
	for i := range l.spans {
		s := &l.spans[i]
		if s.Why != deleted || !slices.ContainsFunc(l.sessions, func(of session) bool {
			return of.From <= s.From && of.To != Open && of.To >= s.From && of.To <= s.To && of.Why == "expired"
		}) {
			continue
		}
		s.Why = "session-ended"
		for j := range l.story {
			if line := &l.story[j]; line.Who == l.name && line.Text == lostFor(deleted) && line.At >= s.To {
				line.Text = lostFor(s.Why)
				break
			}
		}
	}
}

func (l *lane) changes(c zkrecipes.StateChange) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state = c.To
	switch {
	case c.To == zkrecipes.Suspended:
		l.mark("suspended", "loses its connection")
	case c.To == zkrecipes.Lost:
		l.tell(l.now(), l.name, "loses its session")
	case c.To == zkrecipes.Connected && c.From == zkrecipes.Suspended:
		l.tell(l.now(), l.name, "resumes its session")
	case c.To == zkrecipes.Connected:
		l.tell(l.now(), l.name, "has a session")
	}
}
