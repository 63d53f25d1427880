package chaos

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/zkrecipes/zkrecipes/integration/chaos/journal"
	"github.com/zkrecipes/zkrecipes/integration/chaos/txnlog"
	"github.com/zkrecipes/zkrecipes/zktest/check"
)

// A follower is a recipe that is not a lock. Its clients report what they believe about nodes, and what they have
// written, which a checker compares with the logs of the servers.
type follower struct {
	check func(*trial, Group)
	// views means that the clients can stand still, and must then agree with the servers.
	views bool
	// stays means that nodes remain when the clients leave.
	stays bool
	// section is the longest pause of its clients; 0 selects the default.
	section time.Duration
}

var followers = map[string]follower{
	"node":    {check: (*trial).presence, views: true},
	"claim":   {check: (*trial).presence},
	"group":   {check: (*trial).members, views: true},
	"cache":   {check: (*trial).copies, views: true, stays: true},
	"value":   {check: (*trial).value, views: true, stays: true},
	"counter": {check: (*trial).counter, stays: true},
	"double":  {check: (*trial).meetings},

	"register": {check: (*trial).linearizable, section: 10 * time.Millisecond},
	"guarded":  {check: (*trial).linearizable, section: 5 * time.Millisecond},
	"shards":   {stays: true}, // its shards are judged as locks
}

// shown is the state that the views of a client add up to.
type shown struct {
	nodes   map[string]journal.Node
	current bool
}

func (s *shown) add(v journal.View) {
	switch v.Change {
	case "created", "updated":
		s.nodes[v.Nodes[0].Path] = v.Nodes[0]
	case "deleted":
		delete(s.nodes, v.Nodes[0].Path)
	case "": // the whole state
		clear(s.nodes)
		for _, n := range v.Nodes {
			s.nodes[n.Path] = n
		}
		s.current = v.Current
	default:
		s.current = v.Current
	}
}

// differs describes where a client is wrong; "" means nowhere.
func (s *shown) differs(truth map[string]journal.Node) string {
	if s == nil || !s.current {
		return "not current"
	}
	for path, want := range truth {
		got, ok := s.nodes[path]
		switch {
		case !ok:
			return "lacks " + path
		case got.Czxid != want.Czxid, got.Mzxid != 0 && got.Mzxid != want.Mzxid,
			got.Data != nil && string(got.Data) != string(want.Data):
			return fmt.Sprintf("shows %+v: it is %+v", got, want)
		}
	}
	for path := range s.nodes {
		if _, ok := truth[path]; !ok {
			return "shows " + path + ", which is not there"
		}
	}
	return ""
}

// still stops the clients that have views, and waits until all views match the servers.
func (r *run) still() error {
	var clients []*client
	for _, c := range r.clients {
		if followers[c.group.Recipe].views {
			clients = append(clients, c)
		}
	}
	if len(clients) == 0 {
		return nil
	}
	if err := each(clients, func(c *client) error { return c.order("hold") }); err != nil {
		return err
	}
	var stirring []string
	err := poll(patience, "clients stand still", func() bool {
		stirring = stirring[:0]
		for _, c := range clients {
			if op, ok := r.history.last(c.id); !ok || !op.answer.Stuck || op.released != nil {
				stirring = append(stirring, c.id)
			}
		}
		return len(stirring) == 0
	})
	if err != nil {
		err = fmt.Errorf("%w: %v do not", err, stirring)
	} else {
		r.stills++
		err = r.agree(clients)
	}
	if again := each(clients, func(c *client) error { return c.order("work") }); err == nil {
		err = again
	}
	return err
}

// agree waits until what the clients show matches the servers.
func (r *run) agree(clients []*client) error {
	wrong := map[string]string{}
	err := poll(r.Limit, "views are what the servers have", func() bool {
		clear(wrong)
		for _, c := range clients {
			truth, err := r.truth(c)
			if err != nil {
				wrong[c.id] = err.Error()
				return false
			}
			r.history.mu.Lock()
			if text := r.history.shown[c.id].differs(truth); text != "" {
				wrong[c.id] = text
			}
			r.history.mu.Unlock()
		}
		return len(wrong) == 0
	})
	if err != nil {
		return fmt.Errorf("quiet: %w: %v", err, wrong)
	}
	return nil
}

// truth reads, after a sync, what the views of a client are about.
func (r *run) truth(c *client) (map[string]journal.Node, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := r.operator.Sync(ctx, Root); err != nil {
		return nil, err
	}
	paths, err := r.tree(c.path())
	if err != nil {
		return nil, err
	}
	if c.group.Recipe != "group" {
		paths = append(paths, c.path())
	}
	truth := map[string]journal.Node{}
	for _, path := range paths {
		exists, _, err := r.operator.Exists(ctx, path)
		if err != nil || !exists {
			return truth, err
		}
		data, stat, err := r.operator.Get(ctx, path)
		if err != nil {
			return nil, err
		}
		truth[path] = journal.Node{Path: path, Czxid: stat.Czxid, Mzxid: stat.Mzxid, Session: stat.EphemeralOwner, Data: data}
	}
	return truth, nil
}

// clear deletes the nodes that clients leave behind on purpose.
func (r *run) clear() error {
	for _, g := range r.Groups {
		if !followers[g.Recipe].stays {
			continue
		}
		if err := r.deleteBelow(Root + "/" + g.Recipe); err != nil {
			return err
		}
	}
	return nil
}

// recall reads the logs of the servers.
func (r *run) recall() (*past, error) {
	var dirs []string
	for _, s := range r.ensemble.Servers {
		dirs = append(dirs, s.Data())
	}
	history, unknown, err := txnlog.Read(Root, dirs...)
	if err != nil {
		return nil, err
	}
	p := remember(history, time.Duration(time.Now().UnixNano()-journal.Now()))
	p.unknown = unknown
	return p, nil
}

// trial is the evidence, with the report that receives the violations.
type trial struct {
	*Report
	*history
	past    *past
	rounds  []round
	session time.Duration
	late    time.Duration // how much longer than usual everything may take, because the machine is busy

	pictures string // directory
}

// judge judges a group that follows or writes nodes.
func (t *trial) judge(g Group) {
	f := Follows{}
	for _, op := range t.operations(g.Recipe) {
		switch op.answer.Kind {
		case check.Granted:
			f.Done++
		case check.Failed:
			f.Refused++
		default: // including killed
			f.Unknown++
		}
	}
	for _, id := range t.processes(g.Recipe) {
		f.Views += len(t.views[id])
	}
	t.Follows[g.Recipe] = f
	if f := followers[g.Recipe]; t.past != nil && f.check != nil {
		f.check(t, g)
	}
}

// slack is how far a view may be behind the servers while none of them is at fault: an event is in flight, or the
// machine is busy.
const slack = 2 * time.Second

// lag returns until when a view may show what was gone at the stamp. A server at fault may not have learned of it until
// the fault was over.
func (t *trial) lag(gone int64) int64 {
	for _, rd := range t.rounds {
		if hitsServers[rd.Kind] && rd.Injected-int64(slack) <= gone && gone <= rd.Healed {
			gone = rd.Healed
		}
	}
	return gone + int64(slack)
}

// known returns the newest transaction that a current view as of the stamp must include.
func (t *trial) known(asOf int64) int64 {
	at := asOf - int64(slack)
	for _, rd := range t.rounds {
		if hitsServers[rd.Kind] && rd.Injected <= at && at <= rd.Healed+int64(slack) {
			at = rd.Injected - int64(slack)
		}
	}
	return t.past.until(at)
}

// fresh checks that a view that claims to be current is not too old: without an answer for a whole session timeout, the
// client cannot know that its session is alive. What a view was read with, such as the list of a group, may be older by
// the time that reading the rest took.
func (t *trial) fresh(id string, v view) {
	if age := time.Duration(v.at - v.AsOf); v.Current && v.Change == "" && age > t.session+slack+t.late &&
		!t.pausedBetween(id, v.AsOf, v.at) {
		t.violated("%s: C12: at %d it is told a current view that is %v old", id, v.at, age)
	}
}

// owners returns which process had which session, according to the processes.
func (t *trial) owners() map[int64]string {
	owners := map[int64]string{}
	say := func(session int64, id string) {
		if other, known := owners[session]; known && other != id {
			t.violated("C13: %s and %s say that they have session %#x", other, id, session)
		}
		if session != 0 {
			owners[session] = id
		}
	}
	for _, id := range slices.Sorted(maps.Keys(t.groups)) {
		for _, op := range t.clients[id] {
			say(op.answer.Session, id)
		}
		if recipe := t.groups[id]; recipe == "node" || recipe == "claim" {
			for _, v := range t.views[id] {
				for _, n := range v.Nodes {
					say(n.Session, id)
				}
			}
		}
	}
	return owners
}

// below returns the paths of the past below a path, in order.
func (p *past) below(path string) []string {
	return slices.Sorted(func(yield func(string) bool) {
		for name := range p.nodes {
			if strings.HasPrefix(name, path+"/") && !yield(name) {
				return
			}
		}
	})
}
