package world

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// View is everything that a page draws of one moment, as plain data for encoding/json.
type View struct {
	Now     Moment
	Timeout Moment
	Recipe  Recipe
	Limit   int
	Lanes   []Lane
	Queue   []Contender
	Story   []Line // the newest lines
	// Fault is what the server found wrong in itself or in the library. It is empty unless there is a bug.
	Fault string
}

// Lane is a process.
type Lane struct {
	Name                string
	State               string // "stopped", "idle", "waits", "holds", "reads"
	Connected           bool
	Cut, Frozen, Losing bool
	Token               zkrecipes.Token // of the current hold
	Deadline            Moment          // of the current hold; 0 without one
	Expires             Moment          // when the server ends the session if it hears nothing more; 0 without one
	RuleDeadline        Moment          // when Curator's rule reports LOST if nothing more is heard; 0 without a hold
	Spans, Faults       []Span
	Sessions, Rule      []Span
	Overlaps            []Span // when this process holds by the rule while another one holds
	Both                []Span // when this process and a later one hold against the rules; see [history.overlaps]
	Requests            []Request
	Marks               []Mark
}

// Contender is a node in the queue, in the order of the queue.
type Contender struct {
	Name    string // of the process
	Node    string // the end of the node's name, such as "lock-0000000003"
	Kind    string // "waits", "holds", "reads"; "left" if the process knows of no hold and is not waiting
	Token   zkrecipes.Token
	Watches []string // names of the processes that watch the node
}

// View returns what has happened since the given moment, and drops what is older than a minute and a half.
func (w *World) View(since Moment) View {
	v := View{Timeout: timeoutMs, Recipe: w.setting.Recipe, Limit: w.setting.Limit}
	sessions := w.server.Sessions()
	tree := w.server.Tree(path)
	owners := map[int64]string{}
	for _, s := range sessions {
		owners[s.ID] = nameOf(s.Client)
	}
	watchers := map[string][]int64{}
	for _, node := range tree {
		watchers[node.Path] = w.server.Watchers(node.Path)
	}
	history := w.server.History()
	for _, p := range w.processes {
		v.Lanes = append(v.Lanes, p.view(sessions))
	}
	if found := w.server.Violations(); len(found) > 0 {
		v.Fault = found[0].Error()
	}

	h := w.history
	h.mu.Lock()
	defer h.mu.Unlock()
	v.Now = h.now()
	h.forget(v.Now - memory)
	h.read(history)
	for i, l := range h.lanes {
		l.nameLosses()
		l.view(&v.Lanes[i], since, v.Now)
	}
	v.Queue = queue(tree, owners, watchers, v.Lanes)
	h.overlaps(v.Lanes)
	v.Story = slices.Clone(h.story[max(0, len(h.story)-storyLines):])
	return v
}

const (
	memory     = 90_000 // how far back the history goes, in milliseconds
	storyLines = 60
)

// Version increases with every entry of the history.
func (w *World) Version() int {
	w.history.mu.Lock()
	defer w.history.mu.Unlock()
	return w.history.version
}

// nameOf returns the name of the process with a label.
func nameOf(label string) string {
	name, _, _ := strings.Cut(label, "-")
	return name
}

// view returns the state of the process, and when its newest session will end. The sessions are sorted, oldest first.
func (p *process) view(sessions []zktest.SessionInfo) Lane {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := Lane{Name: p.name, Cut: p.cut, Frozen: p.woken != nil, Losing: p.isLosing()}
	for _, s := range sessions {
		if s.Client == p.label {
			l.Expires = p.lane.moment(s.Expires)
		}
	}
	if until := p.lane.deadline(); until != nil {
		l.Deadline = p.lane.moment(until())
	}
	return l
}

// deadline returns the function that yields the deadline of the current hold, or nil without one. That function must be
// called without the lock.
func (l *lane) deadline() func() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.until
}

// read records what the server has done since the last call. The caller holds the lock.
func (h *history) read(txns []zktest.Txn) {
	for _, t := range txns {
		if t.Zxid <= h.seen || t.Err != zktest.CodeOK {
			continue
		}
		h.seen = t.Zxid
		at := h.moment(t.Time)
		for _, l := range h.lanes {
			switch {
			case t.Op == zktest.OpConnect && nameOf(t.Client) == l.name:
				l.sessions = append(l.sessions, session{Span{Kind: "session", From: at, To: Open}, t.Session})
			case t.Op == zktest.OpCloseSession:
				l.sessionEnds(at, t)
			case l.curator != nil:
				for _, change := range t.Changes {
					if change.Kind == zktest.ChangeDelete {
						l.curator.removed(at, change.Path)
					}
				}
			}
		}
	}
}

func (l *lane) sessionEnds(at Moment, t zktest.Txn) {
	for i := range l.sessions {
		if s := &l.sessions[i]; s.id == t.Session && s.To == Open {
			s.To, s.Why = at, "expired"
			if l.closing {
				s.Why, l.closing = "closed", false
				continue
			}
			l.tell(at, l.name, "its session ends on the server")
		}
	}
}

// view fills in what has happened. The caller holds the lock.
func (l *lane) view(v *Lane, since, now Moment) {
	recent := func(spans []Span) []Span {
		return slices.DeleteFunc(slices.Clone(spans), func(s Span) bool { return s.To != Open && s.To < since })
	}
	v.Spans, v.Faults = recent(l.spans), recent(l.faults)
	for _, s := range l.sessions {
		v.Sessions = append(v.Sessions, s.Span)
	}
	v.Sessions = recent(v.Sessions)
	for _, r := range l.requests {
		if r.Done == Open || r.Done >= since {
			v.Requests = append(v.Requests, r)
		}
	}
	for _, m := range l.marks {
		if m.At >= since {
			v.Marks = append(v.Marks, m)
		}
	}
	v.Connected = l.up && l.state == zkrecipes.Connected
	v.State = "idle"
	if !l.up {
		v.State = "stopped"
	}
	if s := last(l.spans, ""); s != nil && l.up {
		v.State, v.Token = s.Kind, s.Token
	}
	if c := l.curator; c != nil {
		c.settle(now)
		for _, r := range c.holds {
			v.Rule = append(v.Rule, r.Span)
		}
		v.Rule = recent(v.Rule)
		if c.present() != nil {
			v.RuleDeadline = c.deadline()
		}
	}
}

// overlaps computes when a process holds by the rule while another one holds. It also computes when two processes hold:
// that happens only if someone deletes the node or ends the session of a process that is cut off and cannot learn of
// it. The caller holds the lock.
func (h *history) overlaps(lanes []Lane) {
	now := h.now()
	end := func(s Span) Moment {
		if s.To == Open {
			return now
		}
		return s.To
	}
	for i := range lanes {
		if h.lanes[i].curator == nil {
			return // several may hold
		}
		meets := func(mine Span, kind string, found *[]Span, counts func(Span) bool) {
			for j := range lanes {
				for _, s := range lanes[j].Spans {
					from, to := max(mine.From, s.From), min(end(mine), end(s))
					if i != j && s.Kind != "waits" && from < to && counts(s) {
						*found = append(*found, Span{Kind: kind, From: from, To: to, Why: lanes[j].Name})
					}
				}
			}
		}
		for _, rule := range lanes[i].Rule {
			meets(rule, "overlap", &lanes[i].Overlaps, func(Span) bool { return true })
		}
		for _, hold := range lanes[i].Spans {
			if hold.Kind != "waits" {
				meets(hold, "both", &lanes[i].Both, func(s Span) bool { return s.Token > hold.Token })
			}
		}
	}
}

// queue lists the contenders in the order of the queue.
func queue(tree []zktest.Node, owners map[int64]string, watchers map[string][]int64, lanes []Lane) []Contender {
	var found []Contender
	for _, node := range tree {
		if node.Stat.EphemeralOwner == 0 {
			continue
		}
		c := Contender{Name: owners[node.Stat.EphemeralOwner], Token: zkrecipes.Token(node.Stat.Czxid), Kind: "left"}
		c.Node = node.Path[strings.LastIndexByte(node.Path, '/')+1:]
		if i := len("_c_00000000-0000-0000-0000-000000000000-"); len(c.Node) > i {
			c.Node = c.Node[i:]
		}
		for _, id := range watchers[node.Path] {
			if owner := owners[id]; owner != "" && owner != c.Name {
				c.Watches = append(c.Watches, owner)
			}
		}
		slices.Sort(c.Watches)
		for _, l := range lanes {
			if l.Name != c.Name || l.State == "idle" || l.State == "stopped" {
				continue
			}
			if l.State == "waits" || l.Token == c.Token {
				c.Kind = l.State
			}
		}
		found = append(found, c)
	}
	// The server counts separately below each parent. In a semaphore, leases precede the callers at its door.
	slices.SortStableFunc(found, func(a, b Contender) int {
		return cmp.Or(cmp.Compare(place(a.Node), place(b.Node)), cmp.Compare(number10(a.Node), number10(b.Node)))
	})
	return found
}

func place(node string) int {
	if strings.HasPrefix(node, "lease-") {
		return 0
	}
	return 1
}

// number10 returns the number at the end of a node's name.
func number10(node string) int {
	if len(node) < 10 {
		return math.MaxInt
	}
	n, err := strconv.Atoi(node[len(node)-10:])
	if err != nil {
		return math.MaxInt
	}
	return n
}
