package survey

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/zkrecipes/zkrecipes/layout"
)

// Queue is one lock, semaphore or election, as it was read.
type Queue struct {
	Path     string       `json:"path"`
	Kind     string       `json:"kind"`   // mutex, election, read-write lock, semaphore, or unknown
	Layout   string       `json:"layout"` // curator, kazoo, curator+kazoo, or empty
	Verdict  string       `json:"verdict"`
	Words    string       `json:"words"` // the verdict as a sentence
	Findings []Finding    `json:"findings"`
	Holders  []*Contender `json:"holders"`
	Waiters  []*Contender `json:"waiters"`
	Foreign  []*Contender `json:"foreign,omitempty"`
	Exists   bool         `json:"exists"` // the path has a node
	AsOf     time.Time    `json:"as_of,omitzero"`

	limit  int  // of a kazoo semaphore; 0 if unknown
	unread bool // the client may not read a part of it
}

// Finding is a remark about a queue.
type Finding struct {
	Verdict string `json:"verdict"`
	Words   string `json:"words"`
	Node    string `json:"node,omitempty"`
}

// The verdicts, from worst to best.
const (
	Mixed     = "mixed"        // contenders of layouts that do not exclude each other
	Foreign   = "foreign node" // a contender of no known recipe
	Ghost     = "ghost"        // a contender that does not leave by itself, or whose session has gone
	Exhausted = "exhausted"    // the sequence numbers do not determine the order
	Stuck     = "stuck behind" // the first waiter has waited for too long
	Revoke    = "revoke asked"
	Held      = "held"
	Free      = "free"
)

// Verdicts lists all verdicts, from worst to best.
var Verdicts = []string{Mixed, Foreign, Ghost, Exhausted, Stuck, Revoke, Held, Free}

// Contenders returns holders, waiters and foreign nodes.
func (q *Queue) Contenders() []*Contender { return slices.Concat(q.Holders, q.Waiters, q.Foreign) }

// arrange determines holders and waiters, from contenders by their roles.
func (q *Queue) arrange(holding, waiting, beside []*Contender) {
	for _, list := range [][]*Contender{holding, waiting, beside} {
		slices.SortFunc(list, compare)
	}
	q.name(holding, waiting, beside)
	defer func() { // scripts expect [], not null
		q.Holders, q.Waiters = append([]*Contender{}, q.Holders...), append([]*Contender{}, q.Waiters...)
	}()
	if q.Kind != "semaphore" {
		q.Holders, q.Waiters = grant(holding)
		return
	}
	q.Holders, q.Waiters = ungranted(holding, waiting)
	for i, c := range waiting {
		c.Place = i + 1
		if i > 0 {
			c.Behind = waiting[i-1].Node
		}
	}
	holders, waiters := grant(beside)
	q.Holders, q.Waiters = slices.Concat(q.Holders, holders), slices.Concat(q.Waiters, waiters)
}

// ungranted removes the newest leases from the holders if the first waiter has created them. A waiter of Curator's
// layout creates its leases, and then waits until there are few enough. Such leases were created in one transaction,
// after the node that waits.
func ungranted(holding, waiting []*Contender) (holders, waiters []*Contender) {
	if len(holding) == 0 || len(waiting) == 0 || holding[len(holding)-1].named.Kind != layout.Lease {
		return holding, waiting
	}
	newest, first := holding[len(holding)-1], waiting[0]
	if newest.Session != first.Session || newest.Token < first.Token {
		return holding, waiting
	}
	for _, c := range holding {
		if c.Token == newest.Token {
			first.Leases = append(first.Leases, c.Node)
		} else {
			holders = append(holders, c)
		}
	}
	return holders, waiting
}

// name derives what the queue is from the kinds of its contenders.
func (q *Queue) name(holding, waiting, beside []*Contender) {
	found, libraries := map[string]bool{}, map[string]bool{}
	inside, outside := false, false // parts of a semaphore below the path, as in Curator's layout, or not
	for _, c := range slices.Concat(holding, waiting, beside) {
		found[c.named.Kind], libraries[c.Library] = true, true
	}
	for _, c := range slices.Concat(holding, waiting) {
		at := parent(c.Node)
		below := at == join(q.Path, layout.Leases) || at == join(q.Path, layout.Door)
		inside, outside = inside || below, outside || !below
	}
	switch {
	case q.Kind != "":
	case found[layout.Read], found[layout.Write], found[layout.KazooRead]:
		q.Kind = "read-write lock"
	case found[layout.Latch]:
		q.Kind = "election"
	case found[layout.Lock], found[layout.KazooLock]:
		q.Kind = "mutex"
	case found[layout.Lease]:
		q.Kind = "semaphore"
	default:
		q.Kind = "unknown"
	}
	var layouts []string
	for _, l := range []string{curator, kazoo} {
		if libraries[l] {
			layouts = append(layouts, l)
		}
	}
	q.Layout = strings.Join(layouts, "+")
	if q.Kind == "read-write lock" {
		for _, c := range holding {
			if c.named.Kind == layout.KazooLock {
				c.Mode = "write"
			}
		}
	}
	groups := 0
	for _, group := range [][]string{
		{layout.Lock}, {layout.Latch}, {layout.Read, layout.Write, layout.KazooRead}, {layout.Lease, layout.KazooLease},
	} {
		if slices.ContainsFunc(group, func(kind string) bool { return found[kind] }) {
			groups++
		}
	}
	if q.Kind == "semaphore" && (len(beside) > 0 || inside && outside) || q.Kind != "semaphore" && groups > 1 {
		q.find(Mixed, "",
			"contenders of several recipes share the path but do not exclude each other: each recipe needs its own path")
	}
}

func (q *Queue) find(verdict, node, format string, args ...any) {
	q.Findings = append(q.Findings, Finding{verdict, fmt.Sprintf(format, args...), node})
}

// judge determines the findings of the queue, and its verdict.
func (q *Queue) judge(now time.Time, stuck time.Duration) {
	for _, c := range q.Foreign {
		q.find(Foreign, c.Node,
			"blocked by foreign node %s: it is ephemeral and its name ends in ten digits, but is not of a known recipe",
			base(c.Node))
	}
	for _, c := range slices.Concat(q.Holders, q.Waiters) {
		if c.Session == "" {
			q.find(Ghost, c.Node, "ghost: %s is not ephemeral, so it remains when its process ends", base(c.Node))
		}
		if c.named.Key != "" && c.named.Exhausted() {
			q.find(Exhausted, c.Node, "the sequence numbers are exhausted at %s: delete the path while no program uses it",
				base(c.Node))
		}
		if !c.Asked.IsZero() {
			q.find(Revoke, c.Node, "%s was asked to release %v ago", c.Name(), Round(now.Sub(c.Asked)))
		}
	}
	// A candidate waits for as long as the leader lives, by design.
	if len(q.Holders) > 0 && len(q.Waiters) > 0 && q.Kind != "election" && stuck > 0 && q.Waiters[0].age(now) >= stuck {
		q.find(Stuck, q.Holders[0].Node, "stuck behind %s: %s has waited for %v", q.holders(), q.Waiters[0].Name(),
			Round(q.Waiters[0].age(now)))
	}
	switch {
	case q.Has(Stuck):
	case len(q.Holders) > 0:
		q.find(Held, q.Holders[0].Node, "held by %s", q.holders())
	case len(q.Waiters) > 0:
		q.find(Held, q.Waiters[0].Node, "%s is about to acquire it", q.Waiters[0].Name())
	case !q.Exists:
		q.find(Free, "", "free: there is no such node, because it was never used or has since been removed")
	default:
		q.find(Free, "", "free")
	}
	slices.SortStableFunc(q.Findings, func(a, b Finding) int {
		return slices.Index(Verdicts, a.Verdict) - slices.Index(Verdicts, b.Verdict)
	})
	q.Verdict, q.Words = q.Findings[0].Verdict, q.Findings[0].Words
}

// Has reports whether the findings include the verdict.
func (q *Queue) Has(verdict string) bool {
	return slices.ContainsFunc(q.Findings, func(f Finding) bool { return f.Verdict == verdict })
}

// holders names the first holder and counts the others.
func (q *Queue) holders() string {
	name := q.Holders[0].Name()
	if others := len(q.Holders) - 1; others > 0 {
		name = fmt.Sprintf("%s and %d more", name, others)
	}
	if q.limit > 0 {
		name = fmt.Sprintf("%s (%d of %d permits)", name, len(q.Holders), q.limit)
	}
	return name
}

// Round rounds an age to what people care about.
func Round(d time.Duration) time.Duration {
	switch {
	case d < 0:
		return 0
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond)
	case d < time.Hour:
		return d.Round(time.Second)
	}
	return d.Round(time.Minute)
}

func base(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }
