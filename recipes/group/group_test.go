package group_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/group"
	"github.com/zkrecipes/zkrecipes/zktest"
)

const path = "/app/workers"

// inBubble runs f with a server, in virtual time.
func inBubble(t *testing.T, f func(t *testing.T, srv *zktest.Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, zktest.Run(t, zktest.InMemory())) })
}

func open(t *testing.T, c *conn.Client, opts ...group.Option) *group.Group {
	t.Helper()
	g, err := group.New(c, path, opts...)
	require.NoError(t, err)
	return g
}

func join(t *testing.T, g *group.Group, id, data string, opts ...group.JoinOption) *group.Membership {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	m, err := g.Join(ctx, id, []byte(data), opts...)
	require.NoError(t, err)
	return m
}

// joined joins the group through a new client, whose label is the id.
func joined(t *testing.T, srv *zktest.Server, id string) *group.Membership {
	t.Helper()
	return join(t, open(t, bubble.Dial(t, srv, id)), id, "data of "+id)
}

// create creates a node that is not of a member.
func create(t *testing.T, srv *zktest.Server, path string, data []byte) {
	t.Helper()
	_, err := srv.Create(path, data, zktest.Persistent)
	require.NoError(t, err)
}

// ids returns the ids of a view, in its order.
func ids(v group.View) []string {
	list := make([]string, 0, len(v.Members))
	for _, m := range v.Members {
		list = append(list, m.ID)
	}
	return list
}

func watch(t *testing.T, g *group.Group, opts ...group.WatchOption) *bubble.Views[group.View] {
	t.Helper()
	return bubble.Watch(g.Watch(t.Context(), opts...))
}

func TestNew_RefusesWhatCannotWork(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := bubble.Dial(t, srv, "a")
		for want, f := range map[string]func() (*group.Group, error){
			"is relative": func() (*group.Group, error) { return group.New(c, "app") },
			"is the root": func() (*group.Group, error) { return group.New(c, "/") },
			"layout 3":    func() (*group.Group, error) { return group.New(c, path, group.WithLayout(3)) },
			"layout -1":   func() (*group.Group, error) { return group.New(c, path, group.WithLayout(-1)) },
		} {
			_, err := f()
			require.ErrorContains(t, err, want)
		}
		g, kazoo := open(t, c), open(t, c, group.WithLayout(group.KazooParty))
		for want, f := range map[string]func() (*group.Membership, error){
			`id "a/b"`:     func() (*group.Membership, error) { return g.Join(t.Context(), "a/b", nil) },
			`id ".."`:      func() (*group.Membership, error) { return g.Join(t.Context(), "..", nil) },
			`id "a\x01"`:   func() (*group.Membership, error) { return g.Join(t.Context(), "a\x01", nil) },
			"too large":    func() (*group.Membership, error) { return g.Join(t.Context(), "a", make([]byte, 2<<20)) },
			"have no data": func() (*group.Membership, error) { return kazoo.Join(t.Context(), "a", []byte{}) },
		} {
			_, err := f()
			require.ErrorContains(t, err, want)
		}
		for _, opt := range []group.WatchOption{group.WithSettle(0, 0), group.WithSettle(time.Second, time.Millisecond)} {
			v := watch(t, g, opt)
			require.Empty(t, v.All())
			require.ErrorContains(t, v.Err(), "settle")
		}
		bubble.Clean(t, srv, "/app")
	})
}

// An id may contain the character that separates it from the rest of the name.
func TestJoin_Layouts(t *testing.T) {
	for layout, want := range map[group.Layout]struct{ name, data string }{
		group.Curator:           {"^w-1$", "10.0.0.7:8080"},
		group.KazooParty:        {"^[0-9a-f]{32}__party__$", "w-1"},
		group.KazooShallowParty: {"^[0-9a-f]{32}-w-1$", "w-1"},
	} {
		inBubble(t, func(t *testing.T, srv *zktest.Server) {
			g := open(t, bubble.Dial(t, srv, "a"), group.WithLayout(layout))
			var data []byte
			if layout == group.Curator {
				data = []byte(want.data)
			}
			m, err := g.Join(t.Context(), "w-1", data)
			require.NoError(t, err)
			children := srv.Children(path)
			require.Len(t, children, 1)
			require.Regexp(t, regexp.MustCompile(want.name), children[0])
			require.Equal(t, path+"/"+children[0], m.Path())
			require.Equal(t, "w-1", m.ID())
			node, _ := srv.Node(m.Path())
			require.Equal(t, want.data, string(node.Data))
			view, err := g.Members(t.Context())
			require.NoError(t, err)
			require.Equal(t, []group.Member{{
				ID: "w-1", Path: m.Path(), Data: []byte(want.data), Czxid: node.Stat.Czxid, Session: srv.SessionOf("a"),
				Since: time.UnixMilli(node.Stat.Ctime),
			}}, view.Members)
			require.Equal(t, node.Stat.Czxid, view.Zxid)
			if layout != group.Curator {
				require.ErrorContains(t, m.Set(t.Context(), nil), "have no data")
				_, err = g.Join(t.Context(), "w-1", nil) // an id may exist twice
				require.NoError(t, err)
			}
			require.NoError(t, m.Close(t.Context()))
			require.False(t, srv.Exists(m.Path()))
		})
	}
}

// The root of a client made by Sub is a node like any other, and missing at first.
func TestRootOfASub(t *testing.T) {
	for name, layout := range map[string]group.Layout{"Curator": group.Curator, "kazoo": group.KazooParty} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				sub, err := bubble.Dial(t, srv, "a").Sub("/app/workers")
				require.NoError(t, err)
				below, err := group.New(sub, "/", group.WithLayout(layout))
				require.NoError(t, err)
				require.Equal(t, "/", below.Path())
				told := watch(t, below)
				synctest.Wait()
				require.Empty(t, told.Last().Members)
				m, err := below.Join(t.Context(), "w1", nil)
				require.NoError(t, err)
				synctest.Wait()
				require.Equal(t, []string{"w1"}, ids(told.Last()))
				require.Equal(t, m.Path(), told.Last().Members[0].Path)
				whole := open(t, bubble.Dial(t, srv, "b"), group.WithLayout(layout))
				v, err := whole.Members(t.Context())
				require.NoError(t, err)
				require.Equal(t, []string{"w1"}, ids(v))
				require.Equal(t, path+m.Path(), v.Members[0].Path)
				require.NoError(t, m.Close(t.Context()))
				v, err = below.Members(t.Context())
				require.NoError(t, err)
				require.Empty(t, v.Members)
			})
		})
	}
}

// The next session answers the call.
func TestMembers_SessionExpires(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		joined(t, srv, "b")
		g := open(t, bubble.Dial(t, srv, "a"))
		list := zktest.Match{From: zktest.Label("a"), Op: zktest.OpGetChildren2}
		rule := srv.Intercept(list, zktest.Before(func(zktest.Request) { srv.Expire(srv.SessionOf("a")) }))
		v, err := g.Members(t.Context())
		require.NoError(t, err)
		require.Equal(t, []string{"b"}, ids(v))
		require.Equal(t, 1, rule.Hits())
	})
}

func TestParty_ChildrenThatAreNoMembers(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		g := open(t, bubble.Dial(t, srv, "a"), group.WithLayout(group.KazooParty))
		m, err := g.Join(t.Context(), "w1", nil)
		require.NoError(t, err)
		create(t, srv, path+"/other", nil)
		view, err := g.Members(t.Context())
		require.NoError(t, err)
		require.Equal(t, []string{"w1"}, ids(view))
		require.NoError(t, m.Close(t.Context()))
	})
}

// The id is the data, which a view shows once the member is read again.
func TestParty_IDChanges(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		g := open(t, bubble.Dial(t, srv, "a"), group.WithLayout(group.KazooParty))
		for _, node := range []string{"/app", path, path + "/x__party__"} {
			create(t, srv, node, []byte("old"))
		}
		told := watch(t, g)
		require.Equal(t, []string{"old"}, ids(told.Last()))
		require.NoError(t, srv.Set(path+"/x__party__", []byte("new")))
		time.Sleep(10 * bubble.Timeout)
		require.Equal(t, []string{"new"}, ids(told.Last()))
	})
}

// Joining takes one round trip, and there is one watch for the list and one for each member.
func TestCost(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		joined(t, srv, "b")
		synctest.Wait() // until it has read its node
		g := open(t, bubble.Dial(t, srv, "a"))
		const roundTrip = 10 * time.Millisecond
		srv.SetLatency(roundTrip)
		count := func(what string, want int, f func()) {
			t.Helper()
			requests := bubble.Requests(srv)
			f()
			time.Sleep(time.Second)
			require.Equal(t, want, requests.Hits(), what)
			requests.Remove()
		}
		count("multi, getData", 2, func() {
			began := time.Now()
			join(t, g, "a", "")
			require.Equal(t, roundTrip, time.Since(began))
		})
		var v *bubble.Views[group.View]
		count("children, 2 x getData", 3, func() { v = watch(t, g) })
		total, _ := srv.Watches()
		require.Equal(t, 4, total, "the list, the two members, and b its own node")
		var c *group.Membership
		cg := open(t, bubble.Dial(t, srv, "c"))
		count("the 2 of the member; children and getData", 4, func() { c = join(t, cg, "c", "") })
		count("exists, delete; children", 3, func() { require.NoError(t, c.Close(t.Context())) })
		count("2 x getData, setData, getData; nothing", 4, func() { require.NoError(t, srv.Set(path+"/b", []byte("x"))) })
		require.Len(t, v.All(), 3)
	})
}

// TestCost_ByMembers verifies the figures for large groups in the documentation.
func TestCost_ByMembers(t *testing.T) {
	for members, want := range map[int]struct{ first, join int64 }{100: {13_000, 3_000}, 1000: {133_000, 28_000}} {
		inBubble(t, func(t *testing.T, srv *zktest.Server) {
			all := open(t, bubble.Dial(t, srv, "a"))
			for i := range members {
				join(t, all, fmt.Sprintf("worker-%05d.example.com", i), "10.0.0.7:8080")
			}
			var received atomic.Int64
			c, err := conn.Dial(t.Context(), srv.Addr(), bubble.Silent,
				conn.WithDialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
					raw, err := srv.DialAs("b")(ctx, network, addr)
					return counted{raw, &received}, err
				}))
			require.NoError(t, err)
			defer func() { _ = c.Close() }() // never fails
			requests := srv.Intercept(zktest.Match{From: zktest.Label("b"), Times: -1}, zktest.Proceed())
			ctx, stop := context.WithCancel(t.Context())
			v := bubble.Watch(open(t, c).Watch(ctx))
			require.Len(t, v.Last().Members, members)
			require.Equal(t, members+1, requests.Hits())
			require.InEpsilon(t, want.first, received.Swap(0), 0.1)
			join(t, all, "late", "")
			require.Len(t, v.Last().Members, members+1)
			require.Equal(t, members+3, requests.Hits())
			require.InEpsilon(t, want.join, received.Load(), 0.1)
			stop()
			synctest.Wait()
		})
	}
}

// counted counts the bytes that it receives.
type counted struct {
	net.Conn
	received *atomic.Int64
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.received.Add(int64(n))
	return n, err
}

func TestJoin_Taken(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		other := joined(t, srv, "w1")
		node, _ := srv.Node(path + "/w1")
		c := bubble.Dial(t, srv, "a")
		g := open(t, c)
		for range 2 {
			_, err := g.Join(t.Context(), "w1", []byte("mine"))
			var taken *zkrecipes.TakenError
			require.ErrorAs(t, err, &taken)
			require.Equal(t, &zkrecipes.TakenError{
				Path: path + "/w1", Session: srv.SessionOf("w1"), Czxid: node.Stat.Czxid, Data: []byte("data of w1"),
			}, taken)
		}
		unchanged, _ := srv.Node(path + "/w1")
		require.Equal(t, node, unchanged)

		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := g.Join(ctx, "w1", nil, group.WithWait())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, zkrecipes.ErrTaken, "what is in the way")
		time.AfterFunc(time.Second, func() { _ = other.Close(t.Context()) })
		m := join(t, g, "w1", "mine", group.WithWait())
		_, err = g.Join(t.Context(), "w1", nil)
		require.ErrorContains(t, err, "this client already keeps a node there")
		require.True(t, m.State().Exists)

		b := open(t, bubble.Dial(t, srv, "b"))
		m = join(t, b, "w1", "b", group.WithReplace(func(data []byte, _ zk.Stat) bool { return string(data) == "mine" }))
		require.Equal(t, srv.SessionOf("b"), m.State().Session)
	})
}

// Nothing is left, whatever step Join is at.
func TestJoin_CancelledLeavesNothing(t *testing.T) {
	for step := range 4 {
		inBubble(t, func(t *testing.T, srv *zktest.Server) {
			g := open(t, bubble.Dial(t, srv, "a"))
			require.NoError(t, join(t, g, "a", "").Close(t.Context()))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			srv.Intercept(zktest.Match{From: zktest.Label("a"), Skip: step}, zktest.Before(func(zktest.Request) { cancel() }))
			m, err := g.Join(ctx, "a", nil)
			if err == nil {
				require.NoError(t, m.Close(t.Context()))
			} else {
				require.ErrorIs(t, err, context.Canceled)
			}
			time.Sleep(time.Minute)
			bubble.Clean(t, srv, "/app", "workers")
		})
	}
}

// The client cannot reach a server, so Join fails, and the outcome of its request must be settled first. A caller that
// tries again gets the reason, and joins as soon as a server is available.
func TestJoin_AgainAfterAnError(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		g := open(t, bubble.Dial(t, srv, "a"))
		joined(t, srv, "other")
		cutOff := func(zktest.Request) bool {
			srv.Refuse(zktest.Label("a"))
			return true
		}
		srv.Intercept(zktest.Match{From: zktest.Label("a"), Op: zktest.OpMulti, Where: cutOff}, zktest.DropReply())
		for range 5 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err := g.Join(ctx, "w1", nil)
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorContains(t, err, "connection refused")
		}
		time.AfterFunc(3*time.Second, func() { srv.Accept(zktest.Label("a")) })
		m := join(t, g, "w1", "x")
		_, err := g.Join(t.Context(), "w1", nil)
		require.ErrorContains(t, err, "already keeps a node there")
		v, err := g.Members(t.Context())
		require.NoError(t, err)
		require.Equal(t, []string{"other", "w1"}, ids(v))
		require.Equal(t, m.State().Czxid, v.Members[1].Czxid)
		require.Equal(t, "x", string(v.Members[1].Data))
	})
}

// Join fails and the session ends, but the server has not ended it yet when the caller joins again. The node at the
// path is the caller's own.
func TestJoin_AgainInTheNextSession(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := bubble.Dial(t, srv, "a")
		g := open(t, c)
		joined(t, srv, "other") // creates the parents
		// The previous session survives.
		srv.Intercept(zktest.Match{Op: zktest.OpCloseSession, Times: -1}, zktest.DropRequest())
		before := srv.SessionOf("a")
		srv.Intercept(zktest.Match{From: zktest.Label("a"), Op: zktest.OpMulti, Where: func(zktest.Request) bool {
			srv.Refuse(zktest.Label("a"))
			return true
		}}, zktest.DropReply())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := g.Join(ctx, "w1", []byte("first"))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		for state := range c.States(t.Context()) {
			if state == zkrecipes.Lost {
				break
			}
		}
		srv.Restart() // gives each session a full timeout
		srv.Accept(zktest.Label("a"))
		m := join(t, g, "w1", "second")
		require.Equal(t, before, srv.Sessions()[0].ID, "it has the lowest id")
		require.NotEqual(t, before, m.State().Session)
	})
}

func TestMembership_ComesBackAsTheYoungest(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		a := joined(t, srv, "a")
		joined(t, srv, "b")
		joined(t, srv, "c")
		g := open(t, bubble.Dial(t, srv, "w"))
		v := watch(t, g)
		require.Equal(t, []string{"a", "b", "c"}, ids(v.Last()))
		before := a.State()
		srv.Expire(srv.SessionOf("a"))
		time.Sleep(time.Second)
		require.Equal(t, []string{"b", "c", "a"}, ids(v.Last()))
		require.True(t, a.State().Exists)
		require.Greater(t, a.State().Czxid, before.Czxid)
		require.Equal(t, a.State().Czxid, v.Last().Members[2].Czxid)
		for s := range a.Watch(t.Context()) { //nolint:errcheck // its error does not matter
			require.Equal(t, a.State().Session, s.Session)
			break
		}
		require.NoError(t, a.Close(t.Context()))
		require.Equal(t, []string{"b", "c"}, ids(v.Last()))
		require.ErrorIs(t, a.Set(t.Context(), nil), zkrecipes.ErrClosed)
	})
}

// A server that lags behind would show an old state.
func TestMembers_AsksTheLeader(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		g := open(t, bubble.Dial(t, srv, "w"))
		var order []zktest.Op
		srv.Intercept(zktest.Match{From: zktest.Label("w"), Times: -1, Where: func(q zktest.Request) bool {
			order = append(order, q.Op)
			return true
		}}, zktest.Proceed())
		v, err := g.Members(t.Context())
		require.NoError(t, err)
		require.Empty(t, v.Members)
		require.False(t, v.Current, "nothing tells of the next change")
		require.Equal(t, time.Now(), v.AsOf)
		require.Equal(t, []zktest.Op{zktest.OpSync, zktest.OpGetChildren2}, order)
		total, _ := srv.Watches()
		require.Zero(t, total)
	})
}

// Between the list and the read of the member, it leaves or is created again. The view still reflects one instant.
func TestRead_MemberGoesMeanwhile(t *testing.T) {
	for _, again := range []bool{false, true} {
		for _, watching := range []bool{false, true} {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				joined(t, srv, "a")
				joined(t, srv, "b")
				w := open(t, bubble.Dial(t, srv, "w"))
				srv.Intercept(zktest.Match{From: zktest.Label("w"), Op: zktest.OpGetData, Path: "/b$"},
					zktest.Before(func(zktest.Request) {
						require.NoError(t, srv.Delete(path+"/b"))
						create(t, srv, path+"/c", nil)
						if again { // the list had no c, and there was never a new b without c
							create(t, srv, path+"/b", nil)
						} else {
							require.NoError(t, srv.Delete(path+"/a"))
						}
					}))
				srv.Refuse(zktest.Label("a")) // otherwise they would be back at once
				srv.Refuse(zktest.Label("b"))
				srv.Stall(zktest.Label("a"), zktest.Both)
				srv.Stall(zktest.Label("b"), zktest.Both)
				var first group.View
				if watching {
					first = watch(t, w).All()[0]
				} else {
					v, err := w.Members(t.Context())
					require.NoError(t, err)
					first = v
				}
				if again {
					require.Equal(t, []string{"a", "c", "b"}, ids(first))
				} else {
					require.Equal(t, []string{"c"}, ids(first))
				}
			})
		}
	}
}

// 1,000 members are read 64 at a time.
func TestRead_InFlightIsBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		joined(t, srv, "a")
		const n = 1000
		for i := range n {
			create(t, srv, fmt.Sprintf("%s/m%d", path, i), nil)
		}
		g := open(t, bubble.Dial(t, srv, "w"))
		const roundTrip = 10 * time.Millisecond
		srv.SetLatency(roundTrip)
		began := time.Now()
		for v, err := range g.Watch(t.Context()) {
			require.NoError(t, err)
			require.Len(t, v.Members, n+1)
			break
		}
		require.GreaterOrEqual(t, time.Since(began), n/64*roundTrip)
		require.Less(t, time.Since(began), 2*n/64*roundTrip)
		v, err := g.Members(t.Context())
		require.NoError(t, err)
		require.Len(t, v.Members, n+1)
	})
}

// The group has never had a member, and then loses its parent.
func TestWatch_NoParent(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		v := watch(t, open(t, bubble.Dial(t, srv, "w")))
		require.Empty(t, v.Last().Members)
		require.True(t, v.Last().Current)
		require.Zero(t, v.Last().Zxid)
		a := joined(t, srv, "a")
		require.Equal(t, []string{"a"}, ids(v.Last()))
		require.NoError(t, a.Close(t.Context()))
		require.Empty(t, v.Last().Members)
		require.NotEmpty(t, srv.Reap())
		joined(t, srv, "b")
		require.Equal(t, []string{"b"}, ids(v.Last()))
		require.Len(t, v.All(), 4, "none is told twice")
	})
}

// When the last iteration ends, the server has no watch on the group, whether the group exists or not.
func TestWatch_LeavesNoWatchOnTheList(t *testing.T) {
	for _, exists := range []bool{false, true} {
		inBubble(t, func(t *testing.T, srv *zktest.Server) {
			g := open(t, bubble.Dial(t, srv, "w"))
			if exists {
				joined(t, srv, "a")
			}
			for range 2 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour) // with many reads
				for _, err := range g.Watch(ctx) {
					require.NoError(t, err)
					require.Len(t, srv.Watchers(path), 1)
				}
				cancel()
				synctest.Wait()
				require.Empty(t, srv.Watchers(path))
			}
		})
	}
}

// A member that leaves and returns between two views has another incarnation.
func TestWatch_MadeAnew(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		a := joined(t, srv, "a")
		joined(t, srv, "b")
		v := watch(t, open(t, bubble.Dial(t, srv, "w")))
		time.Sleep(time.Minute)
		release := make(chan struct{})
		srv.Intercept(zktest.Match{From: zktest.Label("w"), Op: zktest.OpGetChildren2}, zktest.DelayUntil(release))
		require.NoError(t, srv.Delete(a.Path()))
		time.Sleep(time.Second)
		close(release)
		require.Equal(t, []string{"b", "a"}, ids(v.Last()))
		require.Len(t, v.All(), 2)
	})
}

// The last view is yielded again at once, even while it was being reread.
func TestWatch_Disconnected(t *testing.T) {
	for _, reading := range []bool{false, true} {
		inBubble(t, func(t *testing.T, srv *zktest.Server) {
			joined(t, srv, "a")
			v := watch(t, open(t, bubble.Dial(t, srv, "w")))
			time.Sleep(time.Minute)
			changed := time.Now()
			if reading {
				srv.Intercept(zktest.Match{From: zktest.Label("w"), Op: zktest.OpGetChildren2}, zktest.Ignore())
				joined(t, srv, "b")
				time.Sleep(time.Second)
				require.Len(t, v.All(), 1)
			}
			srv.Refuse(zktest.Label("w"))
			srv.Cut(zktest.Label("w"))
			require.Len(t, v.All(), 2)
			require.False(t, v.Last().Current)
			require.Equal(t, []string{"a"}, ids(v.Last()))
			require.False(t, v.Last().AsOf.After(changed))
			srv.Expire(srv.SessionOf("w"))
			joined(t, srv, "c")
			srv.Accept(zktest.Label("w"))
			time.Sleep(bubble.Timeout)
			require.True(t, v.Last().Current)
			require.Len(t, v.All(), 3)
			require.Contains(t, ids(v.Last()), "c")
		})
	}
}

// A change whose event was lost is still found.
func TestWatch_EventLost(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		a := joined(t, srv, "a")
		v := watch(t, open(t, bubble.Dial(t, srv, "w")), group.WithPayloads())
		require.Equal(t, 1, srv.LoseWatch(zktest.Label("w"), path+"/a"))
		require.NoError(t, a.Set(t.Context(), []byte("2")))
		time.Sleep(3 * bubble.Timeout)
		require.Equal(t, "2", string(v.Last().Members[0].Data))
		srv.LoseWatch(zktest.Label("w"), path)
		joined(t, srv, "b")
		require.Len(t, v.Last().Members, 1)
		time.Sleep(3 * bubble.Timeout)
		require.Len(t, v.Last().Members, 2)
	})
}

// Each recheck without an event rereads 64 members, and in time it covers all of them.
func TestWatch_EventsLost_ManyMembers(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		g := open(t, bubble.Dial(t, srv, "a"))
		members := make([]*group.Membership, 4*64)
		for i := range members {
			members[i] = join(t, g, fmt.Sprint(i), "1")
		}
		v := watch(t, open(t, bubble.Dial(t, srv, "w")), group.WithPayloads())
		for _, m := range members {
			require.Equal(t, 1, srv.LoseWatch(zktest.Label("w"), m.Path()))
			require.NoError(t, m.Set(t.Context(), []byte("2")))
		}
		time.Sleep(4 * 3 * bubble.Timeout)
		for _, m := range v.Last().Members {
			require.Equal(t, "2", string(m.Data), m.ID)
		}
	})
}

func TestWatch_Payloads(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		a := joined(t, srv, "a")
		g := open(t, bubble.Dial(t, srv, "w"))
		with, without := watch(t, g, group.WithPayloads()), watch(t, g)
		require.Equal(t, "data of a", string(with.Last().Members[0].Data))
		require.Nil(t, without.Last().Members[0].Data)
		for i := range 5 {
			require.NoError(t, a.Set(t.Context(), fmt.Append(nil, i)))
			require.Equal(t, fmt.Sprint(i), string(with.Last().Members[0].Data))
		}
		require.Len(t, with.All(), 6)
		require.Len(t, without.All(), 1)
	})
}

// A change is reported once nothing has changed for a while, but no later than after a longer while.
func TestWatch_Settle(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		const quiet, most = 10 * time.Second, time.Minute
		joined(t, srv, "first") // if a newcomer created the group, a read between its two nodes would find no change
		began := time.Now()
		ctx := t.Context()
		at, outdated := make(chan time.Duration, 100), make(chan time.Duration, 100)
		go func() {
			for view, err := range open(t, bubble.Dial(t, srv, "w")).Watch(ctx, group.WithSettle(quiet, most)) {
				if err != nil {
					t.Error(err)
				}
				if view.Current {
					at <- time.Since(began)
				} else {
					outdated <- time.Since(began)
				}
			}
		}()
		next := func() time.Duration {
			t.Helper()
			select {
			case d := <-at:
				return d
			case <-time.After(time.Hour):
				t.Fatal("nothing is told")
				return 0
			}
		}
		require.Equal(t, quiet, next(), "also the first view")
		began = time.Now()
		joined(t, srv, "a")
		time.Sleep(quiet / 2)
		joined(t, srv, "b")
		require.Equal(t, quiet/2+quiet, next())

		b := open(t, bubble.Dial(t, srv, "churn"))
		time.Sleep(time.Minute)
		began = time.Now()
		for i := range 36 { // a change every five seconds, for three times the maximum
			join(t, b, fmt.Sprintf("c%d", i), "")
			time.Sleep(quiet / 2)
		}
		require.Equal(t, most, next())
		require.GreaterOrEqual(t, len(at), 1, "it goes on under churn")
		for len(at) > 0 {
			<-at
		}
		time.Sleep(time.Hour)
		require.LessOrEqual(t, len(at), 1)
		// A group that has returned to the reported state is reported as current again, without settling.
		for len(at)+len(outdated) > 0 {
			select {
			case <-at:
			case <-outdated:
			}
		}
		began = time.Now()
		again := join(t, b, "churn", "")
		synctest.Wait()
		require.NoError(t, again.Close(ctx))
		require.Equal(t, quiet/4, next())
		require.Zero(t, <-outdated)
		time.Sleep(time.Hour)
		require.Empty(t, at)
		require.Empty(t, outdated)
		// The next change also waits for quiet.
		began = time.Now()
		join(t, b, "churn", "")
		require.Zero(t, <-outdated)
		require.Equal(t, quiet, next())
		// A lost connection is reported at once.
		began = time.Now()
		srv.Refuse(zktest.Label("w"))
		srv.Cut(zktest.Label("w"))
		require.Zero(t, <-outdated)
	})
}

// Hundreds of members join within a second. Without settling each of them costs a list. With it, the list is read at
// most four times per quiet period, and the caller learns in the meantime that the last view is not current.
func TestWatch_Settle_SparesReadings(t *testing.T) {
	const members, quiet = 250, time.Second
	for _, settles := range []bool{false, true} {
		inBubble(t, func(t *testing.T, srv *zktest.Server) {
			joined(t, srv, "first")
			g := open(t, bubble.Dial(t, srv, "w"))
			var opts []group.WatchOption
			if settles {
				opts = []group.WatchOption{group.WithSettle(quiet, time.Minute)}
			}
			v := watch(t, g, opts...)
			time.Sleep(time.Minute)
			lists := srv.Intercept(zktest.Match{From: zktest.Label("w"), Op: zktest.OpGetChildren2, Times: -1}, zktest.Proceed())
			reads := srv.Intercept(zktest.Match{From: zktest.Label("w"), Op: zktest.OpGetData, Times: -1}, zktest.Proceed())
			before := len(v.All())
			for i := range members {
				create(t, srv, fmt.Sprintf("%s/m%d", path, i), nil)
				time.Sleep(quiet / members)
			}
			end := time.Now()
			for len(v.Last().Members) <= members {
				time.Sleep(quiet / 100)
			}
			require.Equal(t, members, reads.Hits(), "each member is read once")
			t.Logf("settles %v: %d lists", settles, lists.Hits())
			if !settles {
				require.Equal(t, members, lists.Hits())
				return
			}
			require.LessOrEqual(t, lists.Hits(), 8)
			require.LessOrEqual(t, time.Since(end), quiet*5/4+quiet/100)
			told := v.All()[before:]
			require.Len(t, told, 2)
			require.False(t, told[0].Current)
			require.Equal(t, []string{"first"}, ids(told[0]))
			require.True(t, told[1].Current)
		})
	}
}

// The members change faster than they can be read. Changes are still reported in time, and as current only if nothing
// has changed since the read.
func TestWatch_Settle_BusyGroup(t *testing.T) {
	const quiet, most, roundTrip, busy = time.Second, 5 * time.Second, 20 * time.Millisecond, 30 * time.Second
	const bound = most + quiet/4 + 3*roundTrip
	for _, every := range []time.Duration{5 * time.Millisecond, 100 * time.Millisecond} {
		inBubble(t, func(t *testing.T, srv *zktest.Server) {
			joined(t, srv, "first")
			ctx, cancel := context.WithTimeout(t.Context(), busy)
			g := open(t, bubble.Dial(t, srv, "w"))
			srv.SetLatency(roundTrip)
			var changes sync.WaitGroup
			defer changes.Wait()
			changes.Go(func() {
				for i := 0; ctx.Err() == nil; i++ {
					if _, err := srv.Create(fmt.Sprintf("%s/m%d", path, i), nil, zktest.Persistent); err != nil {
						t.Error(err)
					}
					time.Sleep(every)
				}
			})
			defer cancel()
			began, known, contents, current := time.Now(), 0, 0, 0
			for view, err := range g.Watch(ctx, group.WithSettle(quiet, most)) {
				require.NoError(t, err)
				if len(view.Members) > known {
					require.LessOrEqual(t, time.Since(began), bound)
					began, known = time.Now(), len(view.Members)
					contents++
				}
				if view.Current {
					current++
					node, exists := srv.Node(path)
					require.True(t, exists)
					require.LessOrEqual(t, node.Stat.Pzxid-view.Zxid, int64(roundTrip/every), "but for the events on their way")
				}
			}
			require.GreaterOrEqual(t, contents, int(busy/bound))
			if every > 2*roundTrip { // at times no change follows a read
				require.GreaterOrEqual(t, current, contents/2)
			}
		})
	}
}

// A change was undone before its event was read. If another follows soon, its read is postponed, and the caller learns
// at once that the view is not current.
func TestWatch_Settle_PutOff_IsNotCurrent(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		joined(t, srv, "a")
		v := watch(t, open(t, bubble.Dial(t, srv, "w")), group.WithSettle(10*time.Second, time.Minute))
		time.Sleep(time.Minute)
		require.Equal(t, 1, srv.SendEvent(zktest.Label("w"), zktest.NodeChildrenChanged, path))
		require.True(t, v.Last().Current)
		joined(t, srv, "b")
		require.False(t, v.Last().Current)
		require.Equal(t, []string{"a"}, ids(v.Last()))
		time.Sleep(time.Minute)
		require.True(t, v.Last().Current)
		require.Equal(t, []string{"a", "b"}, ids(v.Last()))
	})
}

// What is read after an interruption is reported as current at once, even if a read was postponed when it began.
func TestWatch_Settle_ConnectedAgain(t *testing.T) {
	interruptions := map[string]func(srv *zktest.Server){
		"connection": func(srv *zktest.Server) { srv.Cut(zktest.Label("w")) },
		"session":    func(srv *zktest.Server) { srv.Expire(srv.SessionOf("w")) },
	}
	for name, interrupt := range interruptions {
		for _, putOff := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s lost, put off %v", name, putOff), func(t *testing.T) {
				inBubble(t, func(t *testing.T, srv *zktest.Server) {
					const quiet, members = 10 * time.Minute, 100
					joined(t, srv, "a")
					for i := range members {
						create(t, srv, fmt.Sprintf("%s/m%d", path, i), nil)
					}
					g := open(t, bubble.Dial(t, srv, "w"))
					v := watch(t, g, group.WithSettle(quiet, 2*quiet), group.WithPayloads())
					time.Sleep(3 * quiet)
					require.True(t, v.Last().Current)
					if putOff {
						create(t, srv, path+"/b", nil)
						time.Sleep(time.Second)
						require.NoError(t, srv.Delete(path+"/b")) // the read of this change is postponed
						require.False(t, v.Last().Current)
					}
					interrupt(srv)
					time.Sleep(bubble.Timeout)
					require.True(t, v.Last().Current)
					require.Len(t, v.Last().Members, 1+members)
				})
			})
		}
	}
}

// TestWatch_Ends checks that Watch ends with its context, its caller or its client.
func TestWatch_Ends(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		joined(t, srv, "a")
		c := bubble.Dial(t, srv, "w")
		g := open(t, c)
		ctx, stop := context.WithCancel(t.Context())
		v := bubble.Watch(g.Watch(ctx, group.WithPayloads()))
		stop()
		synctest.Wait()
		require.NoError(t, v.Err())
		for _, err := range g.Watch(t.Context()) {
			require.NoError(t, err)
			break
		}
		v = watch(t, g)
		require.NoError(t, c.Close())
		synctest.Wait()
		require.EqualError(t, v.Err(), "watch "+path+": client closed")
		require.ErrorIs(t, v.Err(), zkrecipes.ErrClosed)
		v = watch(t, g)
		require.ErrorIs(t, v.Err(), zkrecipes.ErrClosed)
		_, err := g.Members(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrClosed)
		_, err = g.Join(t.Context(), "w", nil)
		require.ErrorIs(t, err, zkrecipes.ErrClosed)
	})
}

// While the caller is busy a member joins and leaves. The next change still waits for quiet.
func TestWatch_Settle_SlowCaller(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		const quiet, most = 10 * time.Second, time.Minute
		others := open(t, bubble.Dial(t, srv, "others"))
		var began time.Time
		for view, err := range open(t, bubble.Dial(t, srv, "w")).Watch(t.Context(), group.WithSettle(quiet, most)) {
			require.NoError(t, err)
			switch {
			case len(view.Members) > 0:
				require.GreaterOrEqual(t, time.Since(began), quiet)
				require.LessOrEqual(t, time.Since(began), quiet*5/4)
				return
			case began.IsZero():
				member := join(t, others, "a", "")
				synctest.Wait()
				require.NoError(t, member.Close(t.Context()))
				time.Sleep(2 * most)
				began = time.Now().Add(most)
				time.AfterFunc(most, func() { join(t, others, "b", "") })
			}
		}
	})
}

// TestWatch_SubClosed checks that Watch ends with its current session. Its error names the path, although the client
// itself is open.
func TestWatch_SubClosed(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		sub, err := bubble.Dial(t, srv, "w").Sub("/of")
		require.NoError(t, err)
		v := watch(t, open(t, sub))
		require.NoError(t, sub.Close())
		srv.Expire(srv.SessionOf("w"))
		time.Sleep(bubble.Timeout)
		synctest.Wait()
		require.EqualError(t, v.Err(), "watch "+path+": client closed")
		require.ErrorIs(t, v.Err(), zkrecipes.ErrClosed)
	})
}

// TestWatch_NotAllowed checks that Watch ends with the error of the server.
func TestWatch_NotAllowed(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		joined(t, srv, "a")
		srv.Intercept(zktest.Match{From: zktest.Label("w"), Op: zktest.OpGetChildren2}, zktest.Fail(zktest.CodeNoAuth))
		v := watch(t, open(t, bubble.Dial(t, srv, "w")))
		require.ErrorIs(t, v.Err(), zk.ErrNoAuth)
	})
}

// TestWatch_SlowCaller checks that a slow caller gets the newest view.
func TestWatch_SlowCaller(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		g := open(t, bubble.Dial(t, srv, "w"))
		var told [][]string
		for v, err := range g.Watch(t.Context()) {
			require.NoError(t, err)
			if told = append(told, ids(v)); len(told) == 2 {
				break
			}
			for _, id := range []string{"a", "b", "c"} {
				joined(t, srv, id)
			}
			synctest.Wait()
		}
		require.Equal(t, [][]string{{}, {"a", "b", "c"}}, told)
	})
}

// The new connection confirms the view that the caller has. When that connection is lost too, the view was true until
// then.
func TestWatch_ConnectedAgainWhileTheCallerIsBusy(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		joined(t, srv, "a")
		var told []group.View
		for v, err := range open(t, bubble.Dial(t, srv, "w")).Watch(t.Context()) {
			require.NoError(t, err)
			if told = append(told, v); len(told) == 2 {
				break
			}
			srv.Cut(zktest.Label("w"))
			time.Sleep(time.Second)
			time.AfterFunc(19*time.Second, func() {
				srv.Refuse(zktest.Label("w"))
				srv.Cut(zktest.Label("w"))
			})
		}
		require.False(t, told[1].Current)
		require.WithinDuration(t, time.Now(), told[1].AsOf, bubble.Timeout/2)
	})
}

// A member leaves, and listing the others is slow. A waiting caller learns that its view is outdated. If listing is
// quick, it gets only the new view.
func TestWatch_SlowRead(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		joined(t, srv, "a")
		b, c := joined(t, srv, "b"), joined(t, srv, "c")
		v := watch(t, open(t, bubble.Dial(t, srv, "w")))
		slow := func(by time.Duration) {
			srv.Intercept(zktest.Match{From: zktest.Label("w"), Op: zktest.OpGetChildren2}, zktest.Delay(by))
		}
		slow(bubble.Timeout / 10)
		require.NoError(t, c.Close(t.Context()))
		time.Sleep(bubble.Timeout)
		require.Len(t, v.All(), 2)
		slow(bubble.Timeout / 2)
		require.NoError(t, b.Close(t.Context()))
		time.Sleep(bubble.Timeout / 4)
		require.Len(t, v.All(), 3)
		require.False(t, v.Last().Current)
		require.Equal(t, []string{"a", "b"}, ids(v.Last()))
		time.Sleep(bubble.Timeout)
		require.Len(t, v.All(), 4)
		require.True(t, v.Last().Current)
		require.Equal(t, []string{"a"}, ids(v.Last()))
	})
}

// While the caller is busy, the members are read, and then change again. The next read is slow.
func TestWatch_SlowRead_BusyCaller(t *testing.T) {
	for _, busy := range []time.Duration{0, bubble.Timeout / 4} {
		inBubble(t, func(t *testing.T, srv *zktest.Server) {
			joined(t, srv, "a")
			var told []group.View
			for v, err := range open(t, bubble.Dial(t, srv, "w")).Watch(t.Context()) {
				require.NoError(t, err)
				if told = append(told, v); len(told) == 1 {
					joined(t, srv, "b")
					synctest.Wait()
					list := zktest.Match{From: zktest.Label("w"), Op: zktest.OpGetChildren2}
					srv.Intercept(list, zktest.Delay(bubble.Timeout/2))
					joined(t, srv, "c")
					time.Sleep(busy)
					synctest.Wait()
				} else if v.Current {
					break
				}
			}
			require.Len(t, told, 3)
			require.Equal(t, []string{"a", "b"}, ids(told[1]))
			require.False(t, told[1].Current)
			require.Equal(t, []string{"a", "b", "c"}, ids(told[2]))
		})
	}
}

// Every new member leaves before it can be read, and another joins, so no read completes.
func TestWatch_ChurnFasterThanReads(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		joined(t, srv, "a")
		v := watch(t, open(t, bubble.Dial(t, srv, "w")))
		srv.SetLatency(bubble.Timeout / 100)
		count := 0
		next := func() {
			count++
			create(t, srv, fmt.Sprint(path, "/", count), nil)
		}
		churn := srv.Intercept(zktest.Match{From: zktest.Label("w"), Op: zktest.OpGetData, Times: -1},
			zktest.Before(func(r zktest.Request) {
				_ = srv.Delete(r.Path) // gone already if it is read for the second time
				next()
			}))
		next()
		time.Sleep(bubble.Timeout / 4)
		require.Greater(t, churn.Hits(), 5)
		require.Len(t, v.All(), 2)
		require.False(t, v.Last().Current)
		require.Equal(t, []string{"a"}, ids(v.Last()))
		churn.Remove()
		time.Sleep(bubble.Timeout / 4)
		require.True(t, v.Last().Current)
		require.Len(t, v.Last().Members, 2)
	})
}

// A member leaves while the data of another is being read slowly, so the result is outdated as well.
func TestWatch_SlowRead_ChangedMeanwhile(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := joined(t, srv, "a"), joined(t, srv, "b")
		v := watch(t, open(t, bubble.Dial(t, srv, "w")), group.WithPayloads())
		for op, skip := range map[zktest.Op]int{zktest.OpGetData: 0, zktest.OpGetChildren2: 1} {
			srv.Intercept(zktest.Match{From: zktest.Label("w"), Op: op, Skip: skip}, zktest.Delay(bubble.Timeout/2))
		}
		require.NoError(t, srv.Set(a.Path(), []byte("data of a")))
		time.Sleep(bubble.Timeout / 4)
		require.NoError(t, b.Close(t.Context()))
		require.False(t, v.Last().Current)
		time.Sleep(bubble.Timeout / 4)
		require.Len(t, v.All(), 2)
		time.Sleep(bubble.Timeout)
		require.Len(t, v.All(), 3)
		require.Equal(t, []string{"a"}, ids(v.Last()))
		require.True(t, v.Last().Current)
	})
}

// Members join faster than they can be read, so every view has changed before it is yielded.
func TestWatch_JoinsFasterThanReads(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		joined(t, srv, "a")
		v := watch(t, open(t, bubble.Dial(t, srv, "w")))
		srv.SetLatency(bubble.Timeout / 100)
		for i := range 100 {
			create(t, srv, fmt.Sprint(path, "/", i), nil)
			time.Sleep(bubble.Timeout / 200)
		}
		require.Greater(t, len(v.All()), 10)
		require.Greater(t, len(v.Last().Members), 80)
	})
}

// A change has not been reported yet, and reading it is slow. A view that is due meanwhile does not wait for it.
func TestWatch_Settle_SlowRead(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		joined(t, srv, "a")
		v := watch(t, open(t, bubble.Dial(t, srv, "w")), group.WithSettle(time.Second, 2*time.Second))
		time.Sleep(2 * time.Second)
		slow := func() {
			list := zktest.Match{From: zktest.Label("w"), Op: zktest.OpGetChildren2}
			srv.Intercept(list, zktest.Delay(bubble.Timeout/2))
		}
		slow()
		joined(t, srv, "b")
		require.False(t, v.Last().Current)
		time.Sleep(bubble.Timeout)
		require.True(t, v.Last().Current)
		require.Len(t, v.All(), 3)

		joined(t, srv, "c")
		time.Sleep(500 * time.Millisecond)
		slow()
		joined(t, srv, "d")
		time.Sleep(bubble.Timeout / 4)
		require.Equal(t, []string{"a", "b", "c"}, ids(v.Last()))
		require.False(t, v.Last().Current)
		time.Sleep(bubble.Timeout)
		require.Equal(t, []string{"a", "b", "c", "d"}, ids(v.Last()))
		require.True(t, v.Last().Current)
	})
}

// Without payloads a watch keeps none of the data.
func TestWatch_MembersOfAMegabyte(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory(), zktest.WithHistory(0))
		create(t, srv, "/app", nil)
		create(t, srv, path, nil)
		const members = 10
		for i := range members {
			create(t, srv, fmt.Sprintf("%s/m%d", path, i), bytes.Repeat([]byte{byte(i)}, 1<<20-1000))
		}
		g := open(t, bubble.Dial(t, srv, "w"))
		before := bubble.Heap()
		require.Len(t, watch(t, g).Last().Members, members)
		require.Less(t, bubble.Heap()-before, int64(3<<20), "one is on its way")

		data := watch(t, g, group.WithPayloads())
		changed := bytes.Repeat([]byte("x"), 1<<20-1000)
		require.NoError(t, srv.Set(path+"/m3", changed))
		require.True(t, bytes.Equal(changed, data.Last().Members[3].Data))
		require.Less(t, bubble.Heap()-before, int64((members+4)<<20))
	})
}
