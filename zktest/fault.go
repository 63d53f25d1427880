package zktest

import (
	"fmt"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zkrecipes/zkrecipes/zktest/internal/proto"
	"github.com/zkrecipes/zkrecipes/zktest/internal/request"
	"github.com/zkrecipes/zkrecipes/zktest/internal/transport"
)

// Who selects clients: by [Label], by [Session], or [Everyone].
type Who struct {
	by      criterion
	label   string
	session int64
}

// criterion is what a [Who] looks at.
type criterion int

const (
	byNothing criterion = iota
	byLabel
	bySession
)

// Everyone selects all clients.
var Everyone Who

// Label selects all connections with the label, including later ones. The empty label selects those without one.
func Label(label string) Who { return Who{by: byLabel, label: label} }

// Session selects the session's connection, now or later. Session 0, which [Server.SessionOf] returns for a client that
// has none, selects no connection.
func Session(id int64) Who { return Who{by: bySession, session: id} }

func (w Who) includes(label string, session int64) bool {
	switch w.by {
	case byLabel:
		return w.label == label
	case bySession:
		return w.session != 0 && w.session == session
	default:
		return true
	}
}

// Request is a request that [Server.Intercept] can match.
type Request struct {
	Client  string // label of the connection
	Session int64  // 0 while one is being requested
	Xid     int32
	Op      Op
	Path    string   // empty if the operation has none
	Paths   []string // of the operations of a multi
}

// String names the request in one line.
func (r Request) String() string {
	what := r.Op.String()
	if r.Path != "" {
		what += " " + r.Path
	}
	if len(r.Paths) > 0 {
		what += fmt.Sprintf(" %v", r.Paths)
	}
	return fmt.Sprintf("%s of %q in session %#x", what, r.Client, uint64(r.Session))
}

// Match selects requests. The zero Match selects the next request from any client. Pings and handshakes are selected
// only if Op names them.
type Match struct {
	From  Who
	Op    Op
	Path  string             // regular expression that the path, or one path of a multi, matches; empty for any
	Where func(Request) bool // further condition; called without locks
	Skip  int                // number of matching requests that pass first
	Times int                // number of requests that are then matched; 0 means one, a negative number all
}

type actionKind int

const (
	actProceed actionKind = iota
	actDrop
	actIgnore
	actDelay
	actFail
	actCut
	actHold
	actBefore
	actAfter
	actForbid
)

// Action is what happens to a selected request.
type Action struct {
	kind  actionKind
	delay time.Duration
	until <-chan struct{}
	code  proto.Code
	fn    func(Request)
	end   chan struct{} // closed by finish, which ends the hold of actAfter
}

// Proceed serves the request. A rule with this action is useful to count requests, or to exempt them from later rules.
func Proceed() Action { return Action{} }

// DropRequest closes the connection before the request is applied.
func DropRequest() Action { return Action{kind: actDrop} }

// DropReply applies the request and then closes the connection without answering.
func DropReply() Action { return Action{kind: actCut} }

// Ignore neither applies nor answers the request, which therefore doesn't extend the session either. The connection
// stays open.
func Ignore() Action { return Action{kind: actIgnore} }

// Delay serves the request later. Later requests on the connection wait behind it.
func Delay(d time.Duration) Action { return Action{kind: actDelay, delay: d} }

// DelayUntil is like [Delay], but waits until the channel is closed. It panics if the channel is nil.
func DelayUntil(ch <-chan struct{}) Action {
	need(ch != nil, "DelayUntil: the channel is nil")
	return Action{kind: actDelay, until: ch}
}

// HoldReply applies the request immediately and answers it later. Later replies and events on the connection wait
// behind the answer.
func HoldReply(d time.Duration) Action { return Action{kind: actHold, delay: d} }

// HoldReplyUntil is like [HoldReply], but waits until the channel is closed. It panics if the channel is nil.
func HoldReplyUntil(ch <-chan struct{}) Action {
	need(ch != nil, "HoldReplyUntil: the channel is nil")
	return Action{kind: actHold, until: ch}
}

// Fail answers with the error and does not apply the request. A handshake is answered as if the session had expired.
// Fail panics if the code is [CodeOK].
func Fail(code Code) Action {
	need(code != CodeOK, "Fail: CodeOK is no error: want another code, or Proceed")
	return Action{kind: actFail, code: code}
}

// Before calls fn and then serves the request. The function may use the server, except for [Server.Close], which waits
// for it. It may also block, in which case the connection waits, and so does Close. Before panics if fn is nil.
func Before(fn func(Request)) Action {
	need(fn != nil, "Before: the function is nil")
	return Action{kind: actBefore, fn: fn}
}

// After is like [Before], but serves the request first, and calls fn before the answer is sent.
func After(fn func(Request)) Action {
	need(fn != nil, "After: the function is nil")
	return Action{kind: actAfter, fn: fn}
}

// Forbid serves the request and reports a violation.
func Forbid() Action { return Action{kind: actForbid} }

// need panics where an action is made that could not act, rather than when a request meets it.
func need(ok bool, what string) {
	if !ok {
		panic("zktest." + what)
	}
}

// Rule is a [Match] with its [Action]. It is in effect until it has matched Match.Times requests or is removed.
type Rule struct {
	faults *faults
	match  Match
	path   *regexp.Regexp
	action Action
	where  string // file and line of the call to Intercept

	// Guarded by faults.mu.
	seen, hits int
	done       chan struct{}
}

// Hits returns how many requests the rule has matched so far.
func (r *Rule) Hits() int {
	r.faults.mu.Lock()
	defer r.faults.mu.Unlock()
	return r.hits
}

// Done returns a channel that is closed when the rule is no longer in effect.
func (r *Rule) Done() <-chan struct{} { return r.done }

// Remove removes the rule. Requests that it is already delaying stay delayed.
func (r *Rule) Remove() {
	r.faults.mu.Lock()
	defer r.faults.mu.Unlock()
	r.faults.drop(r)
}

// faults is the list of rules in effect. Its lock is never held while a rule acts.
type faults struct {
	live  atomic.Int32 // number of rules, for checks without the lock
	mu    sync.Mutex
	rules []*Rule
	idle  []*Rule // rules, in effect or not, that have hit nothing; the first maxIdle of them
}

// drop removes a rule. The caller holds mu.
func (f *faults) drop(r *Rule) {
	if i := slices.Index(f.rules, r); i >= 0 {
		f.rules = slices.Delete(f.rules, i, i+1)
		f.live.Add(-1)
		close(r.done)
	}
}

// Intercept adds a rule, which takes effect immediately. If several rules match a request, the oldest one acts on it.
// Intercept panics if Path is not a regular expression.
func (s *Server) Intercept(m Match, a Action) *Rule {
	r := &Rule{faults: &s.faults, match: m, action: a, done: make(chan struct{})}
	if m.Path != "" {
		r.path = regexp.MustCompile(m.Path)
	}
	if _, file, line, ok := runtime.Caller(1); ok {
		r.where = fmt.Sprintf("%s:%d", filepath.Base(file), line)
	}
	s.lock()
	s.labels.named(m.From)
	s.unlock()
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	s.faults.rules = append(s.faults.rules, r)
	if a.kind != actForbid && len(s.faults.idle) < maxIdle {
		s.faults.idle = append(s.faults.idle, r)
	}
	s.faults.live.Add(1)
	return r
}

// match returns the action for a request. User-supplied conditions run without the lock, on a copy of the list.
func (f *faults) match(req Request) (Action, bool) {
	if f.live.Load() == 0 {
		return Action{}, false
	}
	f.mu.Lock()
	rules := slices.Clone(f.rules)
	f.mu.Unlock()
	for _, r := range rules {
		if r.selects(req) && f.hit(r) {
			a := r.action
			a.end = make(chan struct{})
			return a, true
		}
	}
	return Action{}, false
}

func (r *Rule) selects(req Request) bool {
	m := r.match
	if m.Op == OpAny && (req.Op == OpPing || req.Op == OpConnect) || m.Op != OpAny && m.Op != req.Op {
		return false
	}
	if !m.From.includes(req.Client, req.Session) {
		return false
	}
	if r.path != nil && !r.path.MatchString(req.Path) && !slices.ContainsFunc(req.Paths, r.path.MatchString) {
		return false
	}
	return m.Where == nil || m.Where(req)
}

// hit counts a request that the rule selects, and reports whether the rule acts on it.
func (f *faults) hit(r *Rule) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !slices.Contains(f.rules, r) {
		return false
	}
	if r.seen++; r.seen <= r.match.Skip {
		return false
	}
	if r.hits++; r.hits == 1 {
		f.idle = slices.DeleteFunc(f.idle, func(x *Rule) bool { return x == r })
	}
	if r.match.Times >= 0 && r.hits >= max(1, r.match.Times) {
		f.drop(r)
	}
	return true
}

// intercepted looks up a rule for the request that d is about to decode.
func (c *conn) intercepted(xid int32, op proto.Op, d *proto.Decoder) (Action, Request, bool) {
	if c.s.faults.live.Load() == 0 {
		return Action{}, Request{}, false
	}
	req := Request{Client: c.Label, Session: c.Session.ID, Xid: xid, Op: op}
	req.Path, req.Paths = request.Paths(op, *d)
	act, hit := c.s.faults.match(req)
	return act, req, hit
}

// before runs the part of an action that precedes the request. It returns false if the request must not be served.
func (c *conn) before(a Action, req Request) bool {
	switch a.kind {
	case actDrop:
		c.end()
		return false
	case actIgnore:
		return false
	case actDelay:
		if !c.wait(a, time.Now()) {
			return false
		}
	case actBefore:
		a.fn(req)
	case actForbid:
		c.s.lock()
		c.s.report(fmt.Errorf("forbidden request: %v", req))
		c.s.unlock()
	default:
	}
	return c.Thawed() // the server may have been frozen meanwhile
}

// wait waits for what delays a request or a reply. It returns false if the connection ended first.
func (c *conn) wait(a Action, since time.Time) bool {
	return (a.until == nil || c.Await(a.until)) && c.Pause(time.Until(since.Add(a.delay)))
}

// during prepares the queue for the answer. It returns what holds the answer back, if anything.
func (c *conn) during(a Action) transport.Hold {
	switch a.kind {
	case actCut:
		c.Deafen() // the client must not see its connection end before the request is applied
	case actHold:
		now := time.Now()
		return func() bool { return c.wait(a, now) }
	case actAfter:
		return func() bool { return c.Await(a.end) }
	default:
	}
	return nil
}

// finish runs the part of an action that follows the request.
func (c *conn) finish(a Action, req Request) {
	switch a.kind {
	case actCut:
		c.end()
	case actAfter:
		a.fn(req)
		close(a.end)
	default:
	}
}
