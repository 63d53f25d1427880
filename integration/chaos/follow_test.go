package chaos

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/integration/chaos/journal"
	"github.com/zkrecipes/zkrecipes/integration/chaos/txnlog"
	"github.com/zkrecipes/zkrecipes/zktest"
	"github.com/zkrecipes/zkrecipes/zktest/check"
)

// The stamps of these histories are multiples of the slack that views have.
const unit = int64(slack)

// tale is a history of the servers, and what clients report about it.
type tale struct {
	story
	recipe string
	txns   []txnlog.Txn
	kind   Kind // of the fault, from 20 to 30
}

// did adds a transaction of a session. Its zxid is its time.
func (s *tale) did(at, session int64, changes ...txnlog.Change) {
	for i, c := range changes {
		if c.Owner != 0 {
			changes[i].Owner = session
		}
	}
	s.txns = append(s.txns, txnlog.Txn{
		Zxid: at, Time: at * unit / int64(time.Millisecond), Session: session,
		Changes: changes,
	})
}

func created(path, data string) txnlog.Change {
	return txnlog.Change{Kind: zktest.ChangeCreate, Path: path, Data: []byte(data)}
}

func ephemeral(path, data string) txnlog.Change {
	c := created(path, data)
	c.Owner = 1 // did replaces it
	return c
}

func wrote(path, data string) txnlog.Change {
	return txnlog.Change{Kind: zktest.ChangeSet, Path: path, Data: []byte(data)}
}

func deleted(path string) txnlog.Change {
	return txnlog.Change{Kind: zktest.ChangeDelete, Path: path}
}

// saw reports a view, whose age is 0.
func (s *tale) saw(client string, at int64, v journal.View) {
	s.groups[client] = s.recipe
	if v.AsOf == 0 {
		v.AsOf = at
	}
	v.AsOf *= unit
	s.tell(client, journal.Line{Event: check.Event{Kind: journal.Viewed, At: at * unit}, View: &v})
}

// done reports an operation of weight n.
func (s *tale) done(client string, at int64, n int, answer journal.Line) {
	s.groups[client] = s.recipe
	number := int64(len(s.clients[client]) + 1)
	s.tell(client, journal.Line{Event: check.Event{Kind: check.Called, Op: number, At: at * unit, Weight: n}})
	if answer.Kind != "" {
		answer.Op, answer.At = number, at*unit
		s.tell(client, answer)
	}
}

// aOver reports that the newest operation of client a is over.
func (s *tale) aOver(kind check.Kind, at int64) {
	s.tell("a", journal.Line{Event: check.Event{Kind: kind, At: at * unit}})
}

// verdict returns the text of all violations.
func (s *tale) verdict() string {
	r := &run{
		Config:  Config{Groups: []Group{{Recipe: s.recipe, Limit: 2}}, Session: 3 * time.Duration(unit)},
		history: s.history,
	}
	r.rounds = []round{{Step: Step{Kind: s.kind}, Injected: 20 * unit, Healed: 30 * unit, Served: 31 * unit}}
	return strings.Join(r.judge(time.Second, remember(s.txns, 0)).Violations, "\n")
}

// accusation is a tale, and what the verdict on it must contain; "" means that there must be no violation.
type accusation struct {
	name, violated string
	tell           func(s *tale)
}

func try(t *testing.T, recipe string, begin func(*tale), cases []accusation) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := &tale{story: story{newHistory()}, recipe: recipe}
			begin(s)
			c.tell(s)
			switch got := s.verdict(); {
			case c.violated == "" && got != "":
				t.Errorf("a correct history is rejected: %v", got)
			case !strings.Contains(got, c.violated):
				t.Errorf("the violation %q is not found: %q", c.violated, got)
			}
		})
	}
}

func TestPresence(t *testing.T) {
	const path = "/chaos/node/0"
	there := func(czxid, session int64) journal.View {
		return journal.View{Current: true, Nodes: []journal.Node{{Path: path, Czxid: czxid, Session: session}}}
	}
	granted := journal.Line{Event: check.Event{Kind: check.Granted}, Path: path, Session: 1}
	begin := func(s *tale) {
		s.did(1, 1, ephemeral(path, ""), wrote(path, "a"))
		s.did(5, 9, deleted(path)) // an operator
		s.did(6, 1, ephemeral(path, "a"))
		s.saw("a", 2, there(1, 1))
		s.saw("a", 5, there(1, 1)) // the event is in flight
		s.saw("a", 7, there(6, 1))
		s.did(22, 1, deleted(path))
		s.did(40, 2, ephemeral(path, "b"))
		s.saw("b", 41, there(40, 2))
	}
	try(t, "node", begin, []accusation{
		{"as it was", "", func(s *tale) {
			s.done("a", 2, 1, granted)
			s.aOver(check.Released, 22)
		}},
		{"never there", "never was", func(s *tale) { s.saw("a", 8, there(7, 1)) }},
		{"of another", "C13: at 84000000000 it says that session 0x1 has", func(s *tale) { s.saw("a", 42, there(40, 1)) }},
		{"of another's session", "say that they have session 0x2", func(s *tale) { s.saw("a", 42, there(40, 2)) }},
		{"long gone", "it was gone 8s before", func(s *tale) { s.saw("a", 9, there(1, 1)) }},
		{"long gone, and it says that it does not know", "", func(s *tale) {
			v := there(1, 1)
			v.Current = false
			s.saw("a", 9, v)
		}},
		{"gone, as a server at fault does not know", "", func(s *tale) {
			s.kind = IsolateFollower
			s.saw("a", 29, there(6, 1))
		}},
		{"gone, and the fault is over", "it was gone", func(s *tale) {
			s.kind = IsolateFollower
			s.saw("a", 33, there(6, 1))
		}},
		{"gone, and the fault is none of the servers", "it was gone", func(s *tale) {
			s.kind = Partition
			s.saw("a", 29, there(6, 1))
		}},
		{"an old view", "it is told a current view that is 12s old", func(s *tale) {
			v := there(6, 1)
			v.AsOf = 8
			s.saw("a", 14, v)
		}},
		{"an old view of a client that stood still", "", func(s *tale) {
			s.acts["a"] = []act{{paused, 9 * unit}, {resumed, 14 * unit}}
			v := there(6, 1)
			v.AsOf = 8
			s.saw("a", 14, v)
		}},
		{"closed, and still there", "is still there", func(s *tale) {
			s.done("a", 6, 1, granted)
			s.aOver(check.Released, 20)
		}},
		{"closed, and its session is over", "", func(s *tale) {
			s.done("a", 6, 1, granted)
			s.aOver(check.Released, 20)
			s.aOver(journal.Orphaned, 20)
		}},
		{"written by another", "a has written", func(s *tale) { s.did(45, 1, wrote(path, "a")) }},
		{"written by another, a round trip after its own was deleted", "", func(s *tale) {
			s.did(50, 9, deleted(path))
			s.did(50, 3, ephemeral(path, "c"))
			s.saw("c", 50, there(50, 3))
			s.did(50, 2, wrote(path, "b"))
		}},
		{"written by another, long after its own was deleted", "b has written", func(s *tale) {
			s.did(50, 9, deleted(path))
			s.did(51, 3, ephemeral(path, "c"))
			s.saw("c", 51, there(51, 3))
			s.did(52, 2, wrote(path, "b"))
		}},
		{"written by another, that has deleted its own", "b has written", func(s *tale) {
			s.did(50, 2, deleted(path))
			s.did(50, 3, ephemeral(path, "c"))
			s.saw("c", 50, there(50, 3))
			s.did(50, 2, wrote(path, "b"))
		}},
		{"deleted by another", "a has deleted", func(s *tale) { s.did(45, 1, deleted(path)) }},
	})
}

func TestMembers(t *testing.T) {
	const path = "/chaos/group"
	member := func(name string, czxid int64, data string) journal.Node {
		return journal.Node{Path: path + "/" + name, Czxid: czxid, Session: czxid, Data: []byte(data)}
	}
	view := func(zxid int64, members ...journal.Node) journal.View {
		return journal.View{Current: true, Zxid: zxid, Nodes: members}
	}
	begin := func(s *tale) {
		s.did(1, 1, created(path, ""))
		s.did(2, 2, ephemeral(path+"/b", "b1"))
		s.did(3, 3, ephemeral(path+"/a", "a1"))
		s.did(4, 2, wrote(path+"/b", "b2"))
		s.did(5, 2, deleted(path+"/b"))
		s.saw("x", 1, view(0))
		s.saw("x", 3, view(3, member("b", 2, "b1"), member("a", 3, "a1")))
	}
	try(t, "group", begin, []accusation{
		{"as it was", "", func(s *tale) {
			s.saw("x", 4, view(3, member("b", 2, "b2"), member("a", 3, "a1")))
			s.saw("x", 5, view(5, member("a", 3, "a1")))
		}},
		{
			"not by seniority", "there were [0x2 0x3]",
			func(s *tale) { s.saw("x", 4, view(3, member("a", 3, "a1"), member("b", 2, "b2"))) },
		},
		{"one is missing", "there were [0x2 0x3]", func(s *tale) { s.saw("x", 4, view(3, member("b", 2, "b2"))) }},
		{
			"one is too many", "there were [0x3]",
			func(s *tale) { s.saw("x", 6, view(5, member("b", 2, "b2"), member("a", 3, "a1"))) },
		},
		{"as of a transaction that changed nothing", "", func(s *tale) { s.saw("x", 6, view(6, member("a", 3, "a1"))) }},
		{"when the path was gone", "there were [0x2 0x3]", func(s *tale) { s.saw("x", 4, view(4)) }},
		{"back in time", "goes back from 0x5 to 0x3", func(s *tale) {
			s.saw("x", 5, view(5, member("a", 3, "a1")))
			s.saw("x", 6, view(3, member("b", 2, "b2"), member("a", 3, "a1")))
		}},
		{"an older payload", "goes back to \"b1\"", func(s *tale) {
			s.saw("x", 4, view(3, member("b", 2, "b2"), member("a", 3, "a1")))
			s.saw("x", 5, view(3, member("b", 2, "b1"), member("a", 3, "a1")))
		}},
		{
			"a payload of another", "never had",
			func(s *tale) { s.saw("x", 4, view(3, member("b", 2, "a1"), member("a", 3, "a1"))) },
		},
		{"of another session", "it is of 0x2", func(s *tale) {
			b := member("b", 2, "b2")
			b.Session = 7
			s.saw("x", 4, view(3, b, member("a", 3, "a1")))
		}},
	})
}

func TestCopies(t *testing.T) {
	const root, path = "/chaos/cache/tree", "/chaos/cache/tree/a"
	node := func(czxid, mzxid int64, data string) journal.Node {
		return journal.Node{Path: path, Czxid: czxid, Mzxid: mzxid, Data: []byte(data)}
	}
	top := journal.Node{Path: root, Czxid: 1, Mzxid: 1}
	begin := func(s *tale) {
		s.did(1, 1, created(root, ""))
		s.did(2, 1, created(path, "x"))
		s.did(3, 1, wrote(path, "y"))
		s.did(4, 1, deleted(path), created(path, "y"))
		s.did(6, 1, deleted(path))
	}
	told := func(s *tale, changes ...any) {
		for i := 0; i < len(changes); i += 2 {
			kind, _ := changes[i].(string)
			n, _ := changes[i+1].(journal.Node)
			s.saw("c", int64(i+1), journal.View{Change: kind, Nodes: []journal.Node{n}})
		}
	}
	synced := func(s *tale, zxid int64, nodes ...journal.Node) {
		s.done("c", 9, 1, journal.Line{
			Event: check.Event{Kind: check.Granted},
			View:  &journal.View{Zxid: zxid, Nodes: nodes},
		})
	}
	try(t, "cache", begin, []accusation{
		{"as it was", "", func(s *tale) {
			told(s, "created", node(2, 2, "x"), "updated", node(2, 3, "y"), "deleted", node(2, 3, ""),
				"created", node(4, 4, "y"))
			synced(s, 3, top, node(2, 3, "y"))
			synced(s, 3, top, node(4, 4, "y"))
			synced(s, 3, top) // it was deleted later
			synced(s, 6, top)
		}},
		{"current, and complete", "", func(s *tale) {
			told(s, "created", top, "created", node(2, 3, "y"))
			s.saw("c", 4, journal.View{Change: "current", Current: true})
		}},
		{"current, and not complete", "C12: current, it shows /chaos/cache/tree/a as of 0x2", func(s *tale) {
			told(s, "created", top, "created", node(2, 2, "x"))
			s.saw("c", 4, journal.View{Change: "current", Current: true})
		}},
		{"current, and a server at fault does not know of the rest", "", func(s *tale) {
			s.kind = PauseLeader
			s.did(21, 1, created(path, "z"))
			told(s, "created", top)
			s.saw("c", 30, journal.View{Change: "current", Current: true})
		}},
		{"current, and the fault is over", "it lacks /chaos/cache/tree/a of 0x15", func(s *tale) {
			s.kind = PauseLeader
			s.did(21, 1, created(path, "z"))
			told(s, "created", top)
			s.saw("c", 33, journal.View{Change: "current", Current: true})
		}},
		{"steps are missed", "", func(s *tale) {
			told(s, "created", node(2, 3, "y"), "deleted", node(2, 3, ""), "created", node(4, 4, "y"), "deleted", node(4, 4, ""))
		}},
		{
			"created again, and not told", "is updated: it had",
			func(s *tale) { told(s, "created", node(2, 3, "y"), "updated", node(4, 4, "y")) },
		},
		{
			"created twice", "is created: it had",
			func(s *tale) { told(s, "created", node(2, 2, "x"), "created", node(2, 3, "y")) },
		},
		{"deleted twice", "is deleted: it had", func(s *tale) {
			told(s, "created", node(2, 2, "x"), "deleted", node(2, 2, ""), "deleted", node(2, 2, ""))
		}},
		{
			"back in time", "goes back from 0x3 to 0x2",
			func(s *tale) { told(s, "created", node(2, 3, "y"), "updated", node(2, 2, "x")) },
		},
		{"never there", "never was", func(s *tale) { told(s, "created", node(3, 3, "y")) }},
		{"other data", "never had that", func(s *tale) { told(s, "created", node(2, 2, "y")) }},
		{"written by no transaction", "never had that", func(s *tale) { told(s, "created", node(4, 5, "y")) }},
		{"old after Sync", "at 0x3 it was newer", func(s *tale) { synced(s, 3, top, node(2, 2, "x")) }},
		{"an incarnation before Sync", "at 0x4 it was newer", func(s *tale) { synced(s, 4, top, node(2, 3, "y")) }},
		{"gone before Sync", "was gone at 0x6", func(s *tale) { synced(s, 6, top, node(4, 4, "y")) }},
		{"missing after Sync", "it lacks /chaos/cache/tree of 0x1", func(s *tale) { synced(s, 3, node(2, 3, "y")) }},
	})
}

// bytesOf returns the bytes of a counter.
func bytesOf(n int64) string { return string(binary.BigEndian.AppendUint64(nil, uint64(n))) }

// added is an operation that added to a number, as answered.
func added(sum int64) journal.Line {
	return journal.Line{Event: check.Event{Kind: check.Granted}, Session: 1, Number: sum}
}

func TestSums(t *testing.T) {
	const path = "/chaos/counter/it"
	var (
		open   = journal.Line{Event: check.Event{Kind: journal.Unknown}, Session: 1}
		failed = journal.Line{Event: check.Event{Kind: check.Failed}, Session: 1}
	)
	begin := func(s *tale) {
		s.did(1, 1, created(path, bytesOf(0)))
		s.did(2, 1, wrote(path, bytesOf(3)))
		s.done("a", 2, 3, added(3))
		s.did(3, 1, wrote(path, bytesOf(5)))
	}
	try(t, "counter", begin, []accusation{
		{"as it was", "", func(s *tale) { s.done("a", 3, 2, added(5)) }},
		{"nobody knows of it", "1 additions more than confirmed, and 0 were unknown", func(*tale) {}},
		{
			"it failed, and was applied", "1 additions more than confirmed, and 0 were unknown",
			func(s *tale) { s.done("a", 3, 2, failed) },
		},
		{"it is unknown, the session has ended, and it was applied", "", func(s *tale) {
			s.done("a", 3, 2, open)
			s.aOver(journal.Orphaned, 4)
			s.did(5, 1, wrote(path, bytesOf(6)))
			s.done("a", 5, 1, added(6))
		}},
		{"the client was killed", "", func(s *tale) { s.done("a", 3, 2, journal.Line{}) }},
		{"it is unknown, the session has ended, and it was not applied", "", func(s *tale) {
			s.done("a", 3, 2, added(5))
			s.done("a", 4, 2, open)
			s.aOver(journal.Orphaned, 4)
		}},
		{"it is unknown, and the session lives", "and the session was alive", func(s *tale) {
			s.done("a", 3, 2, open)
			s.done("a", 4, 2, failed)
		}},
		{"applied twice", "1 additions more than confirmed, and 0 were unknown", func(s *tale) {
			s.done("a", 3, 2, added(5))
			s.did(4, 1, wrote(path, bytesOf(7)))
		}},
		{"an unknown one applied twice", "2 additions more than confirmed, and 1 were unknown", func(s *tale) {
			s.done("a", 3, 2, open)
			s.aOver(journal.Orphaned, 4)
			s.did(4, 1, wrote(path, bytesOf(7)))
		}},
		{"told another sum", "the servers have not done that", func(s *tale) { s.done("a", 3, 2, added(6)) }},
		{"another number was added", "the servers have not done that", func(s *tale) { s.done("a", 3, 1, added(5)) }},
		{"another's addition was lost", "the servers have not done that", func(s *tale) {
			s.done("a", 3, 2, added(5))
			s.did(4, 2, wrote(path, bytesOf(7)))
			s.did(5, 1, wrote(path, bytesOf(6))) // on top of 5
			s.done("a", 5, 1, added(6))
			answer := added(7)
			answer.Session = 2
			s.done("b", 4, 2, answer)
		}},
		{"in a session that no answer names", "", func(s *tale) {
			s.done("a", 3, 2, added(5))
			s.did(4, 8, wrote(path, bytesOf(6)))
			s.done("b", 4, 1, journal.Line{})
		}},
		{"in a session of nobody", "1 additions more than confirmed, and 0 were unknown", func(s *tale) {
			s.done("a", 3, 2, added(5))
			s.did(4, 8, wrote(path, bytesOf(6)))
		}},
	})
}

func TestValue(t *testing.T) {
	const path = "/chaos/value/it"
	view := func(czxid, mzxid, n int64) journal.View {
		return journal.View{Current: true, Nodes: []journal.Node{{
			Path: path, Czxid: czxid, Mzxid: mzxid,
			Data: []byte(bytesOf(n)),
		}}}
	}
	begin := func(s *tale) {
		s.did(1, 1, created(path, bytesOf(1)))
		s.done("a", 1, 1, added(1))
		s.did(2, 1, wrote(path, bytesOf(2)))
		s.done("a", 2, 1, added(2))
		s.did(3, 9, deleted(path))
		s.did(4, 1, created(path, bytesOf(1)))
		s.done("a", 4, 1, added(1))
	}
	try(t, "value", begin, []accusation{
		{"as it was", "", func(s *tale) {
			s.saw("w", 1, view(1, 1, 1))
			s.saw("w", 2, view(1, 2, 2))
			s.saw("w", 3, journal.View{Current: true})
			s.saw("w", 4, view(4, 4, 1))
		}},
		{"back in time", "goes back from 0x2 to 0x1", func(s *tale) {
			s.saw("w", 2, view(1, 2, 2))
			s.saw("w", 3, view(1, 1, 1))
		}},
		{"another value", "never was", func(s *tale) { s.saw("w", 2, view(1, 2, 1)) }},
		{"of another incarnation", "never was", func(s *tale) { s.saw("w", 4, view(1, 4, 1)) }},
		{"old, and it says current", "C12", func(s *tale) {
			v := view(1, 2, 2)
			v.AsOf = 2
			s.saw("w", 8, v)
		}},
	})
}

func TestMeetings(t *testing.T) {
	member := func(n int) string { return fmt.Sprint("/chaos/double/m", n) }
	entered := func(s *tale, client string, number int64, n int) {
		s.done(client, number, 1, journal.Line{
			Event: check.Event{Kind: check.Granted, Token: zkrecipes.Token(n)}, Session: int64(n),
			Number: number, Path: member(n),
		})
	}
	begin := func(s *tale) {
		for n := range 4 {
			s.did(int64(n+1), int64(n+1), ephemeral(member(n+1), ""))
		}
		s.did(10, 2, wrote(member(1), "r"), wrote(member(2), "r"))
		entered(s, "a", 10, 1)
	}
	try(t, "double", begin, []accusation{
		{"as it was", "", func(s *tale) {
			entered(s, "b", 10, 2)
			s.did(11, 1, deleted(member(1)))
			s.did(12, 3, wrote(member(3), "r"), wrote(member(4), "r"))
			entered(s, "c", 12, 3)
		}},
		{"without the round", "which is not in it", func(s *tale) { entered(s, "c", 10, 3) }},
		{"before there is a round", "which is not in it", func(s *tale) { entered(s, "c", 11, 3) }},
		{"twice with one member", "as a has done", func(s *tale) { entered(s, "b", 10, 1) }},
		{"one too many", "has 3 members", func(s *tale) {
			s.did(12, 3, ephemeral(member(5), ""))
			s.did(13, 3, wrote(member(3), "r"), wrote(member(4), "r"), wrote(member(5), "r"))
		}},
		{"one alone", "has 1 members", func(s *tale) { s.did(12, 3, wrote(member(3), "r"), deleted(member(4))) }},
		{"in a unit round", "is in the rounds", func(s *tale) { s.did(12, 3, wrote(member(2), "r"), wrote(member(3), "r")) }},
		{"with one that is gone", "it was not there", func(s *tale) {
			s.did(11, 4, deleted(member(4)))
			s.did(12, 3, wrote(member(3), "r"), wrote(member(4), "r"))
		}},
	})
}

// What clients show at rest must be complete.
func TestShown(t *testing.T) {
	truth := map[string]journal.Node{"/a": {Path: "/a", Czxid: 1, Mzxid: 2, Data: []byte("x")}}
	views := func(vs ...journal.View) string {
		s := &shown{nodes: map[string]journal.Node{}}
		for _, v := range vs {
			s.add(v)
		}
		return s.differs(truth)
	}
	right := journal.View{Current: true, Nodes: []journal.Node{truth["/a"]}}
	change := func(kind string, n journal.Node) journal.View {
		return journal.View{Change: kind, Nodes: []journal.Node{n}}
	}
	now := journal.View{Change: "current", Current: true}
	for name, c := range map[string]struct{ want, got string }{
		"the same": {"", views(journal.View{}, right)},
		"by changes": {"", views(change("created", journal.Node{Path: "/b"}), change("created", truth["/a"]),
			change("deleted", journal.Node{Path: "/b"}), now)},
		"nothing":        {"not current", (*shown)(nil).differs(truth)},
		"behind":         {"not current", views(change("created", truth["/a"]), now, journal.View{Change: "behind"})},
		"one is missing": {"lacks /a", views(right, journal.View{Current: true})},
		"one is too many": {"shows /b", views(change("created", truth["/a"]), change("created", journal.Node{Path: "/b"}),
			now)},
		"older": {"it is", views(change("created", journal.Node{Path: "/a", Czxid: 1, Mzxid: 1, Data: []byte("x")}),
			now)},
		"another":    {"it is", views(change("created", journal.Node{Path: "/a", Czxid: 3}), now)},
		"other data": {"it is", views(change("updated", journal.Node{Path: "/a", Czxid: 1, Data: []byte("y")}), now)},
	} {
		if c.want == "" && c.got != "" || !strings.Contains(c.got, c.want) {
			t.Errorf("%s: %q, want %q", name, c.got, c.want)
		}
	}
}
