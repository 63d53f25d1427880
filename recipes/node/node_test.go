package node_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/node"
	"github.com/zkrecipes/zkrecipes/zktest"
)

const path = "/app/workers/w1"

// inBubble runs f with a server, in virtual time. Afterwards it checks that client a has written and deleted only its
// own nodes.
func inBubble(t *testing.T, f func(t *testing.T, srv *zktest.Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory())
		f(t, srv)
		synctest.Wait()
		requireOnlyOurs(t, srv)
	})
}

// requireOnlyOurs requires that every set and delete of client a applied to an incarnation that client a had created,
// and that it created one only when there was none.
func requireOnlyOurs(t *testing.T, srv *zktest.Server) {
	t.Helper()
	maker := ""
	for _, txn := range srv.History() {
		for _, c := range txn.Changes {
			switch {
			case c.Path != path:
			case c.Kind == zktest.ChangeCreate:
				require.Empty(t, maker, "zxid %d: created twice", txn.Zxid)
				maker = txn.Client
			case txn.Client == "a" && txn.Op != zktest.OpCloseSession && maker != "a":
				t.Errorf("zxid %d: %v of a node that %q has made", txn.Zxid, c.Kind, maker)
			case c.Kind == zktest.ChangeDelete:
				maker = ""
			}
		}
	}
}

// keep returns a Node of client a, closed at the end of the test.
func keep(t *testing.T, srv *zktest.Server, data string, opts ...node.Option) *node.Node {
	t.Helper()
	return keepOf(t, bubble.Dial(t, srv, "a"), data, opts...)
}

func keepOf(t *testing.T, c *conn.Client, data string, opts ...node.Option) *node.Node {
	t.Helper()
	n, err := node.New(c, path, []byte(data), opts...)
	require.NoError(t, err)
	return n
}

// ready waits for the node, for a minute at most.
func ready(t *testing.T, n *node.Node) *node.Node {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, n.Ready(ctx))
	return n
}

// requireNode requires that the node exists, with the data, in the session of client a.
func requireNode(t *testing.T, srv *zktest.Server, n *node.Node, data string) {
	t.Helper()
	synctest.Wait()
	there, ok := srv.Node(path)
	require.True(t, ok, "the node is not there")
	require.Equal(t, data, string(there.Data))
	for _, session := range srv.Sessions() {
		if session.ID == there.Stat.EphemeralOwner {
			require.Equal(t, "a", session.Client)
		}
	}
	s := n.State()
	require.Equal(t, node.State{
		Exists: true, Czxid: there.Stat.Czxid, Session: there.Stat.EphemeralOwner,
		Freshness: zkrecipes.Freshness{Current: true, AsOf: s.AsOf},
	}, s)
}

// foreign creates an ephemeral node of another client at the path, which also creates the parents.
func foreign(t *testing.T, srv *zktest.Server, data string) *conn.Client {
	t.Helper()
	c := bubble.Dial(t, srv, "b")
	ready(t, keepOf(t, c, data))
	return c
}

// creates matches the transactions of client a that create the node.
func creates() zktest.Match {
	return zktest.Match{From: zktest.Label("a"), Op: zktest.OpMulti, Path: "^" + path + "$"}
}

func follow(t *testing.T, n *node.Node) *bubble.Views[node.State] {
	t.Helper()
	return bubble.Watch(n.Watch(t.Context()))
}

// says reports whether one of the states has an error that matches.
func says(told *bubble.Views[node.State], target error) bool {
	return slices.ContainsFunc(told.All(), func(s node.State) bool { return errors.Is(s.Err, target) })
}

func TestNew_RefusesWhatCannotWork(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := bubble.Dial(t, srv, "a")
		requests := bubble.Requests(srv)
		for want, f := range map[string]func() (*node.Node, error){
			"is relative": func() (*node.Node, error) { return node.New(c, "app", nil) },
			"is the root": func() (*node.Node, error) { return node.New(c, "/", nil) },
			"too large":   func() (*node.Node, error) { return node.New(c, path, make([]byte, 2<<20)) },
		} {
			_, err := f()
			require.ErrorContains(t, err, want)
		}
		require.Zero(t, requests.Hits())
		n := ready(t, keepOf(t, c, "1"))
		_, err := node.New(c, path, nil)
		require.ErrorContains(t, err, "this client already keeps a node there")
		sub, err := c.Sub("/app/workers")
		require.NoError(t, err)
		_, err = node.New(sub, "/w1", nil)
		require.ErrorContains(t, err, "this client already keeps a node there")
		require.NoError(t, n.Close(t.Context()))
		again, err := node.New(sub, "/w1", []byte("2"))
		require.NoError(t, err)
		require.NoError(t, again.Ready(t.Context()))
		require.Equal(t, "/w1", again.Path())
		requireNode(t, srv, again, "2")
		require.NoError(t, c.Close())
		_, err = node.New(c, path, nil)
		require.ErrorIs(t, err, zkrecipes.ErrClosed)
		require.ErrorIs(t, again.Ready(t.Context()), zkrecipes.ErrClosed)
		require.NoError(t, again.Close(t.Context()))
	})
}

// Creating the node takes one round trip and one watch.
func TestCost(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := bubble.Dial(t, srv, "a")
		require.NoError(t, ready(t, keepOf(t, c, "1")).Close(t.Context())) // creates the parents
		synctest.Wait()
		const roundTrip = 10 * time.Millisecond
		srv.SetLatency(roundTrip)
		requests := bubble.Requests(srv)
		began := time.Now()
		n := ready(t, keepOf(t, c, "1"))
		require.Equal(t, roundTrip, time.Since(began))
		time.Sleep(time.Second)
		require.Equal(t, 2, requests.Hits(), "multi, getData")
		began = time.Now()
		require.NoError(t, n.Set(t.Context(), []byte("2")))
		require.Equal(t, 2*roundTrip, time.Since(began), "it looks at its node first")
		time.Sleep(time.Second)
		require.Equal(t, 5, requests.Hits(), "getData, setData, getData")
		total, _ := srv.Watches()
		require.Equal(t, 1, total)
		began = time.Now()
		require.NoError(t, n.Close(t.Context()))
		require.Equal(t, 2*roundTrip, time.Since(began))
		require.Equal(t, 7, requests.Hits(), "exists, delete")
		total, _ = srv.Watches()
		require.Zero(t, total, "nothing is left")
		bubble.Clean(t, srv, "/app", "workers")
	})
}

func TestNode_IsOursWithItsData(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		n := ready(t, keep(t, srv, "1"))
		requireNode(t, srv, n, "1")
		there, _ := srv.Node(path)
		require.EqualValues(t, 1, there.Stat.Version, "a node of another client begins at 0")
		parent, _ := srv.Node("/app/workers")
		require.True(t, parent.Container)
		require.NoError(t, n.Set(t.Context(), []byte("2")))
		requireNode(t, srv, n, "2")
		require.NoError(t, n.Close(t.Context()))
		require.False(t, srv.Exists(path))
		require.NoError(t, n.Close(t.Context()))
		require.ErrorIs(t, n.Ready(t.Context()), zkrecipes.ErrClosed)
		require.ErrorIs(t, n.Set(t.Context(), nil), zkrecipes.ErrClosed)
		require.ErrorIs(t, n.State().Err, zkrecipes.ErrClosed)
	})
}

// The node of the dead session is not mistaken for ours.
func TestCreate_ReplyLost_SessionExpires(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := bubble.Dial(t, srv, "a")
		require.NoError(t, ready(t, keepOf(t, c, "0")).Close(t.Context()))
		old := srv.SessionOf("a")
		down := make(chan struct{})
		srv.Intercept(creates(), zktest.After(func(zktest.Request) {
			srv.Down()
			close(down)
		}))
		srv.Intercept(zktest.Match{Op: zktest.OpCloseSession, Times: -1}, zktest.Ignore()) // the node remains for long
		n := keepOf(t, c, "1")
		<-down
		time.Sleep(bubble.Timeout + time.Second) // the client gives up its session
		there, ok := srv.Node(path)
		require.True(t, ok, "the server does not")
		require.Equal(t, old, there.Stat.EphemeralOwner)
		require.False(t, n.State().Exists)
		srv.Up()
		ready(t, n)
		require.NotEqual(t, old, n.State().Session)
		requireNode(t, srv, n, "1")
	})
}

// The node is created again in the next session, at once.
func TestSession_Expires(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		n := ready(t, keep(t, srv, "1"))
		l := follow(t, n)
		old := srv.SessionOf("a")
		srv.SetLatency(time.Millisecond) // so that the loss is reported before the next session opens
		require.True(t, srv.Expire(old))
		time.Sleep(time.Second)
		requireNode(t, srv, n, "1")
		require.NotEqual(t, old, n.State().Session)
		require.True(t, says(l, zkrecipes.ErrLost))
		require.Equal(t, n.State().Czxid, l.Last().Czxid)
		require.NoError(t, l.Last().Err)
	})
}

// The Node causes no storm of requests, and in the end its node exists.
func TestSession_ExpiresEachSecond(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		n := ready(t, keep(t, srv, "1"))
		requests := bubble.Requests(srv)
		const seconds = 1000
		for range seconds {
			srv.Expire(srv.SessionOf("a"))
			time.Sleep(time.Second)
		}
		require.Less(t, requests.Hits(), 3*seconds, "multi and getData in each session")
		time.Sleep(10 * time.Second)
		requireNode(t, srv, n, "1")
	})
}

// The servers still have the session that the client has given up. Its node is replaced in one transaction. The client
// used to close that session at the same time, which deleted the node first.
func TestSession_OfBefore_IsReplaced(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		n := ready(t, keep(t, srv, "1"))
		old := n.State().Session
		srv.SetLatency(100 * time.Millisecond)
		srv.Down()
		time.Sleep(bubble.Timeout + time.Second)
		srv.Up() // each session gets a full timeout
		ready(t, n)
		require.NotEqual(t, old, n.State().Session)
		requireNode(t, srv, n, "1")
		history := srv.History()
		i := slices.IndexFunc(history, func(txn zktest.Txn) bool { return txn.Zxid == n.State().Czxid })
		require.Equal(t, zktest.ChangeDelete, history[i].Changes[0].Kind, "deleted by the transaction that made the new one")
		require.Equal(t, path, history[i].Changes[0].Path)
		time.Sleep(time.Second)
		require.Len(t, srv.Sessions(), 1, "the old one is closed")
	})
}

// Others may be waiting behind the contenders of the session before. It is closed once the node has been replaced, also
// if the client has a chroot.
func TestSession_OfBefore_IsClosedOnceReplaced(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		const latency = 50 * time.Millisecond
		n, err := node.New(bubble.DialAt(t, srv, "a", "/app"), "/workers/w1", []byte("1"))
		require.NoError(t, err)
		old := ready(t, n).State().Session
		srv.SetLatency(latency)
		srv.Down()
		time.Sleep(bubble.Timeout + time.Second)
		srv.Up() // each session gets a full timeout
		ready(t, n)
		time.Sleep(2 * time.Second)
		history := srv.History()
		made := slices.IndexFunc(history, func(txn zktest.Txn) bool { return txn.Zxid == n.State().Czxid })
		closed := slices.IndexFunc(history, func(txn zktest.Txn) bool {
			return txn.Op == zktest.OpCloseSession && txn.Session == old
		})
		require.Greater(t, closed, made)
		require.LessOrEqual(t, history[closed].Time.Sub(history[made].Time), 4*latency)
	})
}

// Until the next attempt, Ready returns the error of the server.
func TestSession_OfBefore_IsReplacedAfterARefusal(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		n := ready(t, keep(t, srv, "1"))
		srv.Intercept(zktest.Match{Op: zktest.OpCloseSession, Times: -1}, zktest.Ignore())
		srv.Down()
		time.Sleep(bubble.Timeout + time.Second)
		replacing := creates()
		replacing.Skip, replacing.Times = 1, 2 // the old node makes the first attempt fail; the second follows at once
		srv.Intercept(replacing, zktest.Fail(zktest.CodeNoAuth))
		srv.Up() // each session gets a full timeout
		require.ErrorIs(t, n.Ready(t.Context()), zk.ErrNoAuth)
		time.Sleep(10 * time.Second)
		requireNode(t, srv, n, "1")
	})
}

// A server has ended a new session before it had an id. A persistent node, whose owner is 0, is not ours because of
// that.
func TestForeign_PersistentAfterAnAttemptWithoutASession(t *testing.T) {
	for name, opts := range map[string][]node.Option{"wait": nil, "refuse": {node.WithRefusal()}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				srv.Intercept(zktest.Match{Op: zktest.OpConnect, Times: 1}, zktest.Fail(zktest.CodeSessionExpired))
				c := bubble.Dial(t, srv, "a")
				require.NoError(t, c.CreateAll(t.Context(), path, []byte("theirs")))
				n := keepOf(t, c, "ours", opts...)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				require.ErrorIs(t, n.Ready(ctx), zkrecipes.ErrTaken)
				require.NoError(t, n.Close(t.Context()))
				there, _ := srv.Node(path)
				require.Equal(t, "theirs", string(there.Data))
			})
		})
	}
}

// The servers expire the previous session, another client creates its node, and the server that we read from does not
// know that yet. Both nodes have the same version.
func TestSession_OfBefore_AnotherClientIsFaster(t *testing.T) {
	for name, next := range map[string]func(t *testing.T, n *node.Node){
		"keep":  func(*testing.T, *node.Node) {},
		"close": func(t *testing.T, n *node.Node) { require.NoError(t, n.Close(t.Context())) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := zktest.Run(t, zktest.InMemory(), zktest.WithFronts(3))
				front := srv.Fronts()[2]
				n := ready(t, keepOf(t, bubble.Dial(t, srv, "a", conn.WithDialer(front.DialAs("a"))), "ours"))
				old := n.State().Session
				srv.Intercept(zktest.Match{Op: zktest.OpCloseSession, Times: -1}, zktest.Ignore())
				srv.Down()
				time.Sleep(bubble.Timeout + time.Second)
				read := zktest.Match{From: zktest.Label("a"), Op: zktest.OpGetData}
				if name == "close" {
					read.Op = zktest.OpExists
					srv.Intercept(creates(), zktest.Fail(zktest.CodeNodeExists))
					srv.Intercept(zktest.Match{From: zktest.Label("a"), Op: zktest.OpGetData, Times: -1}, zktest.Ignore())
				}
				srv.Intercept(read, zktest.Before(func(zktest.Request) {
					front.Lag()
					srv.Expire(old)
					_, err := srv.Create(path, nil, zktest.Persistent)
					require.NoError(t, err)
					require.NoError(t, srv.Set(path, []byte("theirs")))
				}))
				srv.Up()
				time.Sleep(time.Second)
				time.AfterFunc(time.Second, front.CatchUp)
				next(t, n)
				time.Sleep(2 * time.Second)
				requireOnlyOurs(t, srv)
				there, _ := srv.Node(path)
				require.Equal(t, "theirs", string(there.Data))
			})
		})
	}
}

// The session ends before the node is created again in it. The node is created in the next session.
func TestDeleted_SessionEndsMeanwhile(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		n := keep(t, srv, "1")
		for range 8 { // the pauses grow
			require.NoError(t, srv.Delete(ready(t, n).Path()))
			synctest.Wait()
		}
		require.ErrorIs(t, n.State().Err, node.ErrDeleted)
		require.True(t, srv.Expire(srv.SessionOf("a")))
		time.Sleep(time.Second)
		requireNode(t, srv, n, "1")
	})
}

// The Node causes no storm of requests, and every state is reported.
func TestDeleted_InALoop(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := bubble.Dial(t, srv, "a")
		n := ready(t, keepOf(t, c, "1"))
		l := follow(t, n)
		m := creates()
		m.Times = -1
		loop := srv.Intercept(m, zktest.After(func(zktest.Request) { _ = srv.Delete(path) })) // it may not have been created
		require.NoError(t, srv.Delete(path))
		time.Sleep(10 * time.Minute)
		require.Less(t, loop.Hits(), 300)
		require.Greater(t, loop.Hits(), 60, "at least one each ten seconds")
		require.True(t, says(l, node.ErrDeleted))
		loop.Remove()
		time.Sleep(8 * time.Second) // the longest pause
		requireNode(t, srv, n, "1")
	})
}

// Another client overwrites our node.
func TestOverwritten(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		n := ready(t, keep(t, srv, "1"))
		time.Sleep(time.Minute)
		require.NoError(t, srv.Set(path, []byte("x")))
		requireNode(t, srv, n, "1")
		sets := srv.Intercept(zktest.Match{From: zktest.Label("a"), Op: zktest.OpSetData, Times: -1},
			zktest.After(func(zktest.Request) {
				require.NoError(t, srv.Set(path, []byte("x")))
			}))
		require.NoError(t, srv.Set(path, []byte("x")))
		time.Sleep(10 * time.Minute)
		there, _ := srv.Node(path)
		require.Equal(t, "x", string(there.Data))
		require.ErrorContains(t, n.State().Err, "another client has written its data")
		require.True(t, n.State().Exists)
		require.Less(t, sets.Hits(), 300)
		require.Greater(t, sets.Hits(), 60)
		sets.Remove()
		time.Sleep(8 * time.Second)
		requireNode(t, srv, n, "1")
	})
}

// An overwrite each minute is not a loop. The data is restored at once each time, and afterwards so is the node.
func TestOverwritten_NowAndThen(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		n := ready(t, keep(t, srv, "1"))
		for range 5 {
			time.Sleep(time.Minute)
			require.NoError(t, srv.Set(path, []byte("x")))
			requireNode(t, srv, n, "1")
		}
		time.Sleep(time.Minute)
		require.NoError(t, srv.Delete(path))
		requireNode(t, srv, n, "1")
	})
}

// An event alone changes nothing, although the view may be outdated until the node has been read again.
func TestEvents_WithoutACause(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		n := ready(t, keep(t, srv, "1"))
		l := follow(t, n)
		czxid := n.State().Czxid
		for range 10 {
			for _, e := range []zktest.Event{zktest.NodeDeleted, zktest.NodeDataChanged, zktest.NodeCreated} {
				srv.SendEvent(zktest.Everyone, e, path)
			}
			time.Sleep(time.Second)
		}
		requireNode(t, srv, n, "1")
		require.Equal(t, czxid, n.State().Czxid)
		for _, s := range l.All() {
			require.True(t, s.Exists)
			require.Equal(t, czxid, s.Czxid)
			require.NoError(t, s.Err)
		}
	})
}

// A Node whose event was lost rereads by itself.
func TestEvents_Lost(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		n := ready(t, keep(t, srv, "1"))
		synctest.Wait()
		require.Equal(t, 1, srv.LoseWatch(zktest.Label("a"), path))
		require.NoError(t, srv.Delete(path))
		time.Sleep(3 * bubble.Timeout)
		requireNode(t, srv, n, "1")
	})
}

// The node of another session is left alone, and ours follows when it is gone.
func TestForeign_IsWaitedFor(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		other := foreign(t, srv, "theirs")
		there, _ := srv.Node(path)
		n := keep(t, srv, "ours")
		l := follow(t, n)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		err := n.Ready(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, `data "theirs"`)
		var taken *zkrecipes.TakenError
		require.ErrorAs(t, l.Last().Err, &taken)
		require.ErrorIs(t, taken, zkrecipes.ErrTaken)
		require.Equal(t, &zkrecipes.TakenError{
			Path: path, Session: there.Stat.EphemeralOwner, Czxid: there.Stat.Czxid, Data: []byte("theirs"),
		}, taken)
		require.True(t, l.Last().Current)
		unchanged, _ := srv.Node(path)
		require.Equal(t, there, unchanged)
		require.NoError(t, other.Close())
		requireNode(t, srv, n, "ours")
	})
}

// What the other client does with its node costs only reads.
func TestForeign_CostsNoWrites(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		foreign(t, srv, "theirs")
		keep(t, srv, "ours")
		synctest.Wait()
		m := creates()
		m.Times = -1
		tries := srv.Intercept(m, zktest.Proceed())
		for range 10 {
			require.NoError(t, srv.Set(path, []byte("changed")))
			time.Sleep(time.Minute)
		}
		require.Zero(t, tries.Hits())
	})
}

// The other client writes to its node all the time. Each write is reported, but not logged, and neither is the data.
func TestForeign_IsLoggedOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		other := bubble.Dial(t, srv, "b")
		require.NoError(t, other.CreateAll(t.Context(), path[:strings.LastIndexByte(path, '/')], nil))
		_, err := other.Create(t.Context(), path, []byte("secret"), zk.FlagEphemeral)
		require.NoError(t, err)
		var lines bubble.Buffer
		logger := conn.WithLogger(slog.New(slog.NewTextHandler(&lines, nil)))
		l := follow(t, keepOf(t, bubble.Dial(t, srv, "a", logger), "ours"))
		for i := range 10 {
			time.Sleep(time.Second)
			require.NoError(t, srv.Set(path, fmt.Append(nil, i)))
		}
		var taken *zkrecipes.TakenError
		require.ErrorAs(t, l.Last().Err, &taken)
		require.Equal(t, "9", string(taken.Data))
		require.Equal(t, 1, strings.Count(lines.String(), "our node is missing"), lines.String())
		require.NotContains(t, lines.String(), "secret")
	})
}

// A node that the application itself creates at the path is not ours either.
func TestForeign_InOurSession(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := bubble.Dial(t, srv, "a")
		require.NoError(t, ready(t, keepOf(t, c, "0")).Close(t.Context()))
		_, err := c.Create(t.Context(), path, []byte("mine"), zk.FlagEphemeral)
		require.NoError(t, err)
		n := keepOf(t, c, "1")
		synctest.Wait()
		require.ErrorIs(t, n.State().Err, zkrecipes.ErrTaken)
		require.NoError(t, n.Close(t.Context()))
		there, _ := srv.Node(path)
		require.Equal(t, "mine", string(there.Data))
	})
}

func TestForeign_Refused(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		other := foreign(t, srv, "theirs")
		c := bubble.Dial(t, srv, "a")
		n := keepOf(t, c, "ours", node.WithRefusal())
		require.ErrorIs(t, n.Ready(t.Context()), zkrecipes.ErrTaken)
		require.ErrorIs(t, n.Set(t.Context(), nil), zkrecipes.ErrTaken)
		for s, err := range n.Watch(t.Context()) { // it ends with the Node
			require.ErrorIs(t, err, zkrecipes.ErrTaken)
			require.ErrorIs(t, s.Err, zkrecipes.ErrTaken)
			require.False(t, s.Current)
		}
		require.NoError(t, other.Close())
		time.Sleep(time.Hour)
		require.False(t, srv.Exists(path), "nothing is made any more")
		require.NoError(t, n.Close(t.Context()))
		n = ready(t, keepOf(t, c, "ours", node.WithRefusal()))
		time.Sleep(30 * time.Second)
		// Once it exists, it waits.
		m := creates()
		srv.Intercept(m, zktest.Before(func(zktest.Request) {
			_, err := srv.Create(path, []byte("theirs"), zktest.Persistent)
			require.NoError(t, err)
		}))
		require.NoError(t, srv.Delete(path))
		synctest.Wait()
		require.ErrorIs(t, n.State().Err, zkrecipes.ErrTaken)
		require.NoError(t, srv.Delete(path))
		requireNode(t, srv, n, "ours")
	})
}

// A Node that has given up, or was closed while it waited, used to leave its watch on the node of the other session.
func TestForeign_LeavesNoWatch(t *testing.T) {
	for name, opts := range map[string][]node.Option{"wait": nil, "refuse": {node.WithRefusal()}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				other := foreign(t, srv, "theirs")
				n := keep(t, srv, "ours", opts...)
				ctx, cancel := context.WithTimeout(t.Context(), 10*bubble.Timeout) // it reads again now and then
				defer cancel()
				require.ErrorIs(t, n.Ready(ctx), zkrecipes.ErrTaken)
				require.NoError(t, n.Close(t.Context()))
				synctest.Wait()
				watchers := srv.Watchers(path)
				require.NoError(t, other.Close())
				require.NotContains(t, watchers, srv.SessionOf("a"))
			})
		})
	}
}

// The answer to the create was lost, and now there is a node of another session. A create that is still in flight must
// not take effect after the end.
func TestForeign_RefusedInDoubt(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := bubble.Dial(t, srv, "a")
		require.NoError(t, ready(t, keepOf(t, c, "0")).Close(t.Context()))
		m := creates()
		m.Where = func(zktest.Request) bool {
			_, err := srv.Create(path, []byte("theirs"), zktest.Persistent)
			return err == nil
		}
		srv.Intercept(m, zktest.DropRequest())
		barriers := srv.Intercept(zktest.Match{Op: zktest.OpMulti, Path: "^/$", Times: -1}, zktest.Proceed())
		n := keepOf(t, c, "1", node.WithRefusal())
		err := n.Ready(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrTaken)
		require.ErrorContains(t, err, "not ephemeral")
		require.NoError(t, n.Close(t.Context()))
		require.Equal(t, 1, barriers.Hits())
		require.True(t, srv.Exists(path))
	})
}

func TestForeign_Replaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a node of another client is deleted
		srv := zktest.Run(t, zktest.InMemory())
		foreign(t, srv, "host-7 run 1")
		for i, mine := range []bool{false, true} {
			n := keepOf(t, bubble.Dial(t, srv, "a"), "host-7 run 2", node.WithReplace(func(data []byte, stat zk.Stat) bool {
				there, _ := srv.Node(path)
				require.Equal(t, there.Stat.Czxid, stat.Czxid)
				return mine && bytes.HasPrefix(data, []byte("host-7 "))
			}))
			synctest.Wait()
			require.Equal(t, i == 1, n.State().Exists)
			if mine {
				requireNode(t, srv, n, "host-7 run 2")
			} else {
				require.ErrorIs(t, n.State().Err, zkrecipes.ErrTaken)
			}
			if !mine {
				require.NoError(t, n.Close(t.Context()))
			}
		}
	})
}

// The node that replace agreed to has changed in the meantime, so replace is called again.
func TestForeign_ReplacedAnotherIncarnation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory())
		foreign(t, srv, "old")
		m := creates()
		m.Skip = 1
		srv.Intercept(m, zktest.Before(func(zktest.Request) { require.NoError(t, srv.Set(path, []byte("new"))) }))
		n := keep(t, srv, "ours", node.WithReplace(func(data []byte, _ zk.Stat) bool { return string(data) == "old" }))
		synctest.Wait()
		require.ErrorIs(t, n.State().Err, zkrecipes.ErrTaken)
		there, _ := srv.Node(path)
		require.Equal(t, "new", string(there.Data))
	})
}

// Two processes believe that the node is theirs. Neither replaces the other's node without a pause, and the pauses
// grow.
func TestForeign_ReplacesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory())
		replaced := srv.Intercept(zktest.Match{Op: zktest.OpMulti, Times: -1}, zktest.Proceed())
		srv.SetLatency(time.Millisecond)
		always := node.WithReplace(func([]byte, zk.Stat) bool { return true })
		a := follow(t, keep(t, srv, "a", always))
		ready(t, keepOf(t, bubble.Dial(t, srv, "b"), "b", always))
		time.Sleep(time.Minute)
		require.Less(t, replaced.Hits(), 60)
		require.Greater(t, replaced.Hits(), 15, "at least one each eight seconds")
		require.True(t, says(a, node.ErrDeleted))
	})
}

// The server does not permit the node, and later does.
func TestRefused(t *testing.T) {
	for want, code := range map[error]zktest.Code{
		zk.ErrNoAuth: zktest.CodeNoAuth, zkrecipes.CodeQuotaExceeded: zktest.CodeQuotaExceeded,
	} {
		inBubble(t, func(t *testing.T, srv *zktest.Server) {
			m := creates()
			m.Times = -1
			rule := srv.Intercept(m, zktest.Fail(code))
			n := keep(t, srv, "1")
			require.ErrorIs(t, n.Ready(t.Context()), want)
			require.ErrorIs(t, n.Set(t.Context(), []byte("2")), want)
			require.ErrorIs(t, n.State().Err, want)
			time.Sleep(10 * time.Minute)
			require.Less(t, rule.Hits(), 300)
			require.Greater(t, rule.Hits(), 60)
			rule.Remove()
			time.Sleep(8 * time.Second)
			requireNode(t, srv, n, "2")
		})
	}
}

// The server hangs up on a request above its jute.maxbuffer. Each attempt costs a connection, so after the second there is
// only one a minute, but other data are written at once.
func TestRefused_TooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory(), zktest.WithMaxBuffer(70<<10))
		large := make([]byte, 80<<10)
		connects := srv.Intercept(zktest.Match{From: zktest.Label("a"), Op: zktest.OpConnect, Times: -1}, zktest.Proceed())
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		n := keep(t, srv, string(large))
		require.ErrorIs(t, n.Ready(ctx), zkrecipes.ErrTooLarge)
		require.LessOrEqual(t, connects.Hits(), 3)
		time.Sleep(10 * time.Minute)
		require.ErrorIs(t, n.State().Err, zkrecipes.ErrTooLarge)
		require.LessOrEqual(t, connects.Hits(), 3+10)

		began := time.Now()
		require.NoError(t, n.Set(ctx, []byte("1")))
		require.Less(t, time.Since(began), time.Second)
		requireNode(t, srv, n, "1")
		require.ErrorIs(t, n.Set(ctx, large), zkrecipes.ErrTooLarge)
		time.Sleep(10 * time.Minute)
		require.ErrorIs(t, n.State().Err, zkrecipes.ErrTooLarge)
		require.LessOrEqual(t, connects.Hits(), 3+10+3+10)
		require.NoError(t, n.Set(ctx, []byte("2")))
		requireNode(t, srv, n, "2")
	})
}

// The next attempt runs in the next session, and its node is known to be ours.
func TestRefused_SessionExpires(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := bubble.Dial(t, srv, "a")
		require.NoError(t, ready(t, keepOf(t, c, "0")).Close(t.Context()))
		srv.Intercept(creates(), zktest.Fail(zktest.CodeNoAuth))
		n := keepOf(t, c, "1")
		synctest.Wait()
		srv.Expire(srv.SessionOf("a")) // during the pause
		time.Sleep(10 * time.Second)
		requireNode(t, srv, n, "1")
	})
}

// The server refuses the new data, so the next attempt follows after a pause. An event in that pause means that the
// node may be gone, and the state reports that at once.
func TestState_EventDuringAPause(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		n := ready(t, keep(t, srv, "0"))
		refused := srv.Intercept(zktest.Match{From: zktest.Label("a"), Op: zktest.OpSetData, Times: -1},
			zktest.Fail(zktest.CodeNoAuth))
		require.ErrorIs(t, n.Set(t.Context(), []byte("1")), zk.ErrNoAuth)
		time.Sleep(time.Minute) // the pauses have grown
		synctest.Wait()
		before := refused.Hits()
		require.True(t, n.State().Exists && n.State().Current)
		told := make(chan node.State, 100)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() {
			for s := range n.Watch(ctx) { //nolint:errcheck // its error does not matter
				told <- s
			}
		}()
		synctest.Wait()
		require.NoError(t, srv.Delete(path))
		synctest.Wait()
		require.False(t, n.State().Current)
		var last node.State
		for len(told) > 0 {
			last = <-told
		}
		require.False(t, last.Current)
		require.Equal(t, before, refused.Hits(), "the pause goes on")
		refused.Remove()
		time.Sleep(time.Minute)
		require.True(t, n.State().Exists && n.State().Current)
		require.NoError(t, n.State().Err)
	})
}

// The reply to a create was lost. The removal reads behind a barrier, and again after it has deleted, because a slow
// server may have the first copy of a create that was sent again.
func TestClose_CreateComesLate(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := bubble.Dial(t, srv, "a")
		require.NoError(t, ready(t, keepOf(t, c, "0")).Close(t.Context()))
		srv.Intercept(creates(), zktest.DropRequest())
		n := ready(t, keepOf(t, c, "1"))
		synctest.Wait()
		// This transaction does not act as a barrier.
		srv.Intercept(zktest.Match{Op: zktest.OpMulti, Path: "^/$"}, zktest.Fail(zktest.CodeRuntimeInconsistency))
		barriers := srv.Intercept(zktest.Match{Op: zktest.OpMulti, Path: "^/$", Times: -1}, zktest.Proceed())
		srv.Intercept(zktest.Match{From: zktest.Label("a"), Op: zktest.OpExists}, zktest.Before(func(zktest.Request) {
			if barriers.Hits() == 0 {
				t.Error("it looks before the barrier")
			}
		}))
		late := make(chan error, 1)
		srv.Intercept(zktest.Match{From: zktest.Label("a"), Op: zktest.OpDelete}, zktest.Before(func(zktest.Request) {
			go func() {
				_, err := c.Create(t.Context(), path, []byte("1"), zk.FlagEphemeral)
				late <- err
			}()
		}))
		require.NoError(t, n.Close(t.Context()))
		require.NoError(t, <-late)
		require.False(t, srv.Exists(path))
	})
}

// Whatever becomes of the create, nothing is left.
func TestClose_DuringTheCreate(t *testing.T) {
	for name, action := range map[string]func(until <-chan struct{}) zktest.Action{
		"late":       zktest.DelayUntil,
		"late reply": zktest.HoldReplyUntil,
		"lost":       func(<-chan struct{}) zktest.Action { return zktest.DropReply() },
		"never":      func(<-chan struct{}) zktest.Action { return zktest.DropRequest() },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				c := bubble.Dial(t, srv, "a")
				require.NoError(t, ready(t, keepOf(t, c, "0")).Close(t.Context()))
				until := make(chan struct{})
				rule := srv.Intercept(creates(), action(until))
				n := keepOf(t, c, "1")
				<-rule.Done()
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				err := n.Close(ctx)
				if name == "late" || name == "late reply" {
					require.ErrorIs(t, err, context.DeadlineExceeded)
				}
				close(until)
				require.NoError(t, n.Close(t.Context()))
				time.Sleep(time.Minute)
				bubble.Clean(t, srv, "/app", "workers")
			})
		})
	}
}

// Another client has taken the path between the last read and Close.
func TestClose_OtherMeanwhile(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		n := ready(t, keep(t, srv, "1"))
		synctest.Wait()
		srv.Intercept(zktest.Match{From: zktest.Label("a"), Op: zktest.OpDelete}, zktest.Before(func(zktest.Request) {
			require.NoError(t, srv.Delete(path))
			_, err := srv.Create(path, []byte("theirs"), zktest.Persistent)
			require.NoError(t, err)
		}))
		require.NoError(t, n.Close(t.Context()))
		require.True(t, srv.Exists(path))
	})
}

// Close returns at once. A Node that need not wait for a session causes no warning.
func TestClose_BetweenSessions(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		var log bubble.Buffer
		a := bubble.Dial(t, srv, "a", bubble.Warnings(&log))
		n := ready(t, keepOf(t, a, "1"))
		srv.Refuse(zktest.Label("a"))
		srv.Cut(zktest.Label("a"))
		for state := range a.States(t.Context()) {
			if state == zkrecipes.Lost {
				break
			}
		}
		synctest.Wait()
		began := time.Now()
		require.NoError(t, n.Close(t.Context()))
		require.Zero(t, time.Since(began))
		synctest.Wait()
		require.NotContains(t, log.String(), "our node")
		time.Sleep(bubble.Timeout)
		require.False(t, srv.Exists(path))
	})
}

// The Node gets no next session from a closed client that was made by Sub, so it ends with its session.
func TestClose_OfTheSub(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		sub, err := bubble.Dial(t, srv, "a").Sub("/app")
		require.NoError(t, err)
		n, err := node.New(sub, "/workers/w1", nil)
		require.NoError(t, err)
		ready(t, n)
		require.NoError(t, sub.Close())
		srv.Expire(srv.SessionOf("a"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var end error
		for _, err := range n.Watch(ctx) {
			require.NoError(t, end, "an error is the last")
			end = err
		}
		require.NoError(t, ctx.Err(), "there are no more changes")
		require.ErrorIs(t, end, zkrecipes.ErrClosed)
		require.False(t, srv.Exists(path))
	})
}

// Close reports that the removal is not permitted, and continues. It is logged once.
func TestClose_NotAllowed(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		var log bubble.Buffer
		n := ready(t, keepOf(t, bubble.Dial(t, srv, "a", conn.WithLogger(slog.New(slog.NewTextHandler(&log, nil)))), "1"))
		rule := srv.Intercept(zktest.Match{From: zktest.Label("a"), Op: zktest.OpDelete, Times: -1},
			zktest.Fail(zktest.CodeNoAuth))
		require.ErrorIs(t, n.Close(t.Context()), zk.ErrNoAuth)
		require.True(t, srv.Exists(path))
		time.Sleep(time.Second)
		require.Greater(t, rule.Hits(), 1)
		rule.Remove()
		time.Sleep(10 * time.Second)
		require.False(t, srv.Exists(path))
		require.NoError(t, n.Close(t.Context()))
		require.Equal(t, 1, strings.Count(log.String(), "not authorized to delete our node"))
	})
}

// The pauses between attempts to create the node have grown. Those between attempts to remove it start at the shortest
// one.
func TestClose_AfterARefusal(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		m := creates()
		m.Times = -1
		srv.Intercept(m, zktest.Fail(zktest.CodeNoAuth))
		n := keep(t, srv, "1")
		time.Sleep(time.Minute)
		srv.Intercept(zktest.Match{From: zktest.Label("a"), Op: zktest.OpExists},
			zktest.Fail(zktest.CodeRuntimeInconsistency))
		began := time.Now()
		require.NoError(t, n.Close(t.Context()))
		require.Less(t, time.Since(began), 100*time.Millisecond)
	})
}

// A read that fails does not mean that the node is gone. A node that has existed for long is created again at once, but
// its removal is retried after a pause.
func TestClose_NodeHasStood(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		n := ready(t, keep(t, srv, "1"))
		time.Sleep(time.Minute)
		failed := srv.Intercept(zktest.Match{From: zktest.Label("a"), Op: zktest.OpExists},
			zktest.Fail(zktest.CodeRuntimeInconsistency))
		began := time.Now()
		require.NoError(t, n.Close(t.Context()))
		require.Positive(t, time.Since(began))
		require.Equal(t, 1, failed.Hits())
		require.False(t, srv.Exists(path))
	})
}

// The servers refuse the client for a while. The state reports that, and the node is created when they accept the
// client.
func TestCredentialsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		n := ready(t, keepOf(t, bubble.Dial(t, srv, "a", conn.WithAuth("digest", "u:p")), "1"))
		refuse := srv.Intercept(zktest.Match{Op: zktest.OpAuth, Times: -1}, zktest.Fail(zktest.CodeAuthFailed))
		srv.Cut(zktest.Label("a"))
		time.Sleep(time.Minute)
		require.ErrorIs(t, n.State().Err, zkrecipes.ErrAuthFailed)
		refuse.Remove()
		time.Sleep(time.Minute)
		requireNode(t, srv, n, "1")
	})
}

// What the server has read may be old, so nothing is deleted without an answer to the sync.
func TestReplace_NoSync(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		b := bubble.Dial(t, srv, "b")
		require.NoError(t, b.CreateAll(t.Context(), "/app/workers", nil))
		_, err := b.Create(t.Context(), path, []byte("theirs"), zk.FlagEphemeral)
		require.NoError(t, err)
		srv.Intercept(zktest.Match{Op: zktest.OpSync, Times: -1}, zktest.Fail(zktest.CodeNoAuth))
		n := keep(t, srv, "1", node.WithReplace(func([]byte, zk.Stat) bool { return true }))
		time.Sleep(time.Minute)
		require.ErrorIs(t, n.State().Err, zk.ErrNoAuth)
		found, _ := srv.Node(path)
		require.Equal(t, "theirs", string(found.Data))
	})
}

// Another session replaces the node just before the data is set. Its node keeps its data.
func TestSet_NodeOfAnotherSession(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		n := ready(t, keep(t, srv, "1"))
		other := bubble.Dial(t, srv, "b")
		srv.Intercept(zktest.Match{From: zktest.Label("a"), Op: zktest.OpSetData}, zktest.Before(func(zktest.Request) {
			require.NoError(t, srv.Delete(path))
			_, err := other.Create(context.Background(), path, []byte("theirs"), zk.FlagEphemeral)
			require.NoError(t, err)
		}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.ErrorIs(t, n.Set(ctx, []byte("2")), zkrecipes.ErrTaken)
		found, _ := srv.Node(path)
		require.Equal(t, "theirs", string(found.Data))
	})
}

// The node exists, with its previous data.
func TestSet_NotAllowed(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		n := ready(t, keep(t, srv, "1"))
		l := follow(t, n)
		rule := srv.Intercept(zktest.Match{From: zktest.Label("a"), Op: zktest.OpSetData, Times: -1},
			zktest.Fail(zktest.CodeQuotaExceeded))
		require.ErrorIs(t, n.Set(t.Context(), []byte("2")), zkrecipes.CodeQuotaExceeded)
		require.True(t, n.State().Exists)
		require.True(t, n.State().Current)
		require.ErrorIs(t, n.State().Err, zkrecipes.CodeQuotaExceeded)
		require.True(t, l.Last().Exists)
		ready(t, n)
		rule.Remove()
		time.Sleep(8 * time.Second)
		requireNode(t, srv, n, "2")
		require.NoError(t, l.Last().Err)
	})
}

// The server has refused other data. Its answer to this data counts.
func TestSet_AfterARefusal(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		n := ready(t, keep(t, srv, "1"))
		quota := srv.Intercept(zktest.Match{From: zktest.Label("a"), Op: zktest.OpSetData, Times: 2},
			zktest.Fail(zktest.CodeQuotaExceeded))
		require.ErrorIs(t, n.Set(t.Context(), []byte("too large")), zkrecipes.CodeQuotaExceeded)
		<-quota.Done()
		synctest.Wait()
		require.NoError(t, n.Set(t.Context(), []byte("2")))
		requireNode(t, srv, n, "2")
		srv.Intercept(zktest.Match{From: zktest.Label("a"), Op: zktest.OpSetData, Times: -1}, zktest.Fail(zktest.CodeNoAuth))
		require.ErrorIs(t, n.Set(t.Context(), []byte("3")), zk.ErrNoAuth)
		require.ErrorIs(t, n.Set(t.Context(), []byte("4")), zk.ErrNoAuth, "these, too")
	})
}

// The data takes effect even if the call gives up.
func TestSet_WhileCutOff(t *testing.T) {
	for _, expires := range []bool{false, true} {
		inBubble(t, func(t *testing.T, srv *zktest.Server) {
			n := ready(t, keep(t, srv, "1"))
			srv.Refuse(zktest.Label("a"))
			srv.Cut(zktest.Label("a"))
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			err := n.Set(ctx, []byte("2"))
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorContains(t, err, "not connected")
			require.Error(t, n.Set(t.Context(), make([]byte, 2<<20)))
			if expires {
				srv.Expire(srv.SessionOf("a"))
			}
			srv.Accept(zktest.Label("a"))
			time.Sleep(10 * time.Second)
			requireNode(t, srv, n, "2")
		})
	}
}

// Of many calls in flight together, the last one wins.
func TestSet_LastWins(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		n := ready(t, keep(t, srv, "1"))
		srv.SetLatency(10 * time.Millisecond)
		sets := srv.Intercept(zktest.Match{From: zktest.Label("a"), Op: zktest.OpSetData, Times: -1}, zktest.Proceed())
		var calls sync.WaitGroup
		for i := range 100 {
			calls.Go(func() {
				time.Sleep(time.Duration(i) * time.Microsecond)
				if err := n.Set(t.Context(), []byte{byte(i)}); err != nil {
					t.Error(err)
				}
			})
		}
		calls.Wait()
		time.Sleep(time.Second)
		requireNode(t, srv, n, "c")
		require.Less(t, sets.Hits(), 5)
	})
}

// The state stops being current as soon as the connection is gone, and is as of the last answer.
func TestState_SaysHowOldItIs(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		n := ready(t, keep(t, srv, "1"))
		l := follow(t, n)
		time.Sleep(time.Minute)
		require.Less(t, time.Since(n.State().AsOf), bubble.Timeout/2)
		srv.Refuse(zktest.Label("a"))
		srv.Cut(zktest.Label("a"))
		require.False(t, l.Last().Current)
		require.True(t, l.Last().Exists)
		asOf := n.State().AsOf
		time.Sleep(time.Second)
		require.Equal(t, asOf, n.State().AsOf)
		require.Greater(t, time.Since(asOf), time.Second)
		srv.Accept(zktest.Label("a"))
		time.Sleep(bubble.Timeout / 2)
		require.True(t, l.Last().Current)
		require.Len(t, l.All(), 3)
		requireNode(t, srv, n, "1")
	})
}

// TestWatch_SlowReader checks that a slow reader gets the newest state.
func TestWatch_SlowReader(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		n := keep(t, srv, "1")
		var told []node.State
		for s := range n.Watch(t.Context()) { //nolint:errcheck // its error does not matter
			told = append(told, s)
			if len(told) == 2 {
				break
			}
			time.Sleep(time.Minute)
			for range 5 {
				require.NoError(t, srv.Delete(path))
				time.Sleep(time.Minute)
			}
		}
		require.Less(t, told[0].Czxid, told[1].Czxid)
		told[1].AsOf = n.State().AsOf
		require.Equal(t, n.State(), told[1])
		require.NoError(t, n.Close(t.Context()))
		ends := 0
		for s, err := range n.Watch(t.Context()) { // it ends with the Node
			require.ErrorIs(t, err, zkrecipes.ErrClosed)
			require.ErrorIs(t, s.Err, zkrecipes.ErrClosed)
			ends++
		}
		require.Equal(t, 1, ends)
	})
}

// The node is missing before and after, and the caller learns each reason.
func TestWatch_AnotherReason(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		for _, code := range []zktest.Code{zktest.CodeNoAuth, zktest.CodeInvalidACL} {
			refused := creates()
			refused.Times = 2
			srv.Intercept(refused, zktest.Fail(code))
		}
		n := keep(t, srv, "1")
		l := follow(t, n)
		time.Sleep(time.Minute)
		requireNode(t, srv, n, "1")
		require.True(t, says(l, zk.ErrNoAuth))
		require.True(t, says(l, zk.ErrInvalidACL))
	})
}

// The client would mistake one for the other, because the session owns both.
func TestNew_WhileTheNodeBeforeIsRemoved(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		client := bubble.Dial(t, srv, "a")
		first, err := node.New(client, path, []byte("1"))
		require.NoError(t, err)
		require.NoError(t, first.Ready(t.Context()))
		removed := make(chan struct{})
		srv.Intercept(zktest.Match{Op: zktest.OpDelete}, zktest.HoldReplyUntil(removed))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorContains(t, first.Close(ctx), "still being deleted")
		second, err := node.New(client, path, []byte("2"))
		require.NoError(t, err)
		defer func() { require.NoError(t, second.Close(t.Context())) }()
		time.Sleep(time.Second)
		require.False(t, srv.Exists(path), "before the answer to the delete")
		close(removed)
		require.NoError(t, second.Ready(t.Context()))
		found, _ := srv.Node(path)
		require.Equal(t, "2", string(found.Data))
	})
}

// The root of a client made by Sub is a node like any other, and missing at first.
func TestRootOfASub(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		sub, err := bubble.Dial(t, srv, "a").Sub("/app/workers/w1")
		require.NoError(t, err)
		n, err := node.New(sub, "/", []byte("1"))
		require.NoError(t, err)
		ready(t, n)
		made, ok := srv.Node("/app/workers/w1")
		require.True(t, ok)
		require.Equal(t, srv.SessionOf("a"), made.Stat.EphemeralOwner)
		require.NoError(t, srv.Delete("/app/workers/w1"))
		time.Sleep(time.Second)
		require.True(t, srv.Exists("/app/workers/w1"))
		require.NoError(t, n.Close(t.Context()))
		require.False(t, srv.Exists("/app/workers/w1"))
	})
}

// The node gets its data, and is deleted at the end, across the data version that servers treat as any version.
func TestSet_VersionWraps(t *testing.T) {
	for _, version := range []int32{-2, -1} {
		inBubble(t, func(t *testing.T, srv *zktest.Server) {
			n := ready(t, keep(t, srv, "old"))
			require.NoError(t, srv.SetVersion(path, version))
			require.NoError(t, n.Set(t.Context(), []byte("new")))
			made, _ := srv.Node(path)
			require.Equal(t, "new", string(made.Data))
			require.Zero(t, made.Stat.Version)
			require.NoError(t, srv.SetVersion(path, -1))
			require.NoError(t, n.Close(t.Context()))
			require.False(t, srv.Exists(path))
		})
	}
}

// The node has changed, and a slow server takes a while to say what it is now. Until then, the state is not current.
func TestState_ChangedAndNotRead_IsNotCurrent(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		n := ready(t, keep(t, srv, "mine"))
		synctest.Wait()
		require.True(t, n.State().Current)
		srv.Intercept(zktest.Match{Op: zktest.OpGetData}, zktest.Delay(time.Second))
		require.NoError(t, srv.Delete(path))
		synctest.Wait()
		require.False(t, n.State().Current)
		time.Sleep(2 * time.Second)
		require.True(t, n.State().Current)
		requireNode(t, srv, n, "mine")
	})
}
