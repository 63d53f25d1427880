package znode_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/internal/znode"
	"github.com/zkrecipes/zkrecipes/layout"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// second creates a holder of client a, and a waiter of client b behind it. It returns the path of the waiter's node.
func second(t *testing.T, srv *zktest.Server) (holder *zkrecipes.Hold, waiting *bubble.Attempt, own string) {
	t.Helper()
	holder = acquire(t.Context(), queue(t, srv, "a")).Granted(t, time.Hour)
	waiting = acquire(t.Context(), queue(t, srv, "b"))
	waiting.Waits(t)
	return holder, waiting, last(srv)
}

// last returns the path of the newest contender.
func last(srv *zktest.Server) string {
	names, _ := znode.Arrange(srv.Children(path), znode.Lock, znode.Write, znode.Read)
	return path + "/" + names[len(names)-1].Name
}

// requests counts what a client sends from now on.
func requests(srv *zktest.Server, label string) *zktest.Rule {
	synctest.Wait()
	return srv.Intercept(zktest.Match{From: zktest.Label(label), Times: -1}, zktest.Proceed())
}

// requireAnotherNode requires that the waiter has queued again, and holds with the node that it then created.
func requireAnotherNode(t *testing.T, srv *zktest.Server, waiting *bubble.Attempt, old string) {
	t.Helper()
	h := waiting.Granted(t, time.Hour)
	require.NotEqual(t, old, h.Path())
	require.True(t, srv.Exists(h.Path()))
	release(t, h)
	requireEmpty(t, srv)
}

// A hand-over used to cost two round trips: one for the delete, one for the list after the event. It must cost only
// one.
func TestArmed_IsGrantedByTheEvent(t *testing.T) {
	inBubbleWith(t, true, func(t *testing.T, srv *zktest.Server) {
		holder, waiting, _ := second(t, srv)
		sent := requests(srv, "b")
		release(t, holder)
		h := waiting.Granted(t, 0)
		require.Zero(t, sent.Hits(), "the hold goes on with the watch of the waiter")
		time.Sleep(100 * time.Millisecond)
		require.Equal(t, 1, sent.Hits(), "in case the event of the own node was kept back")
		release(t, h)
	})
}

// TestArmed_PredecessorGoneBeforeItIsWatched: the answer shows it, and the list is not read again.
func TestArmed_PredecessorGoneBeforeItIsWatched(t *testing.T) {
	inBubbleWith(t, true, func(t *testing.T, srv *zktest.Server) {
		section(t, queue(t, srv, "c")) // creates the parents
		holder := acquire(t.Context(), queue(t, srv, "a")).Granted(t, time.Hour)
		srv.Intercept(zktest.Match{From: zktest.Label("b"), Op: zktest.OpGetData, Path: holder.Path()},
			zktest.Before(func(zktest.Request) {
				require.NoError(t, srv.Delete(holder.Path()))
			}))
		requireLists(t, srv, 1, func() { release(t, acquire(t.Context(), queue(t, srv, "b")).Granted(t, time.Hour)) })
	})
}

// TestArmed_OwnNodeGone: it is deleted before the predecessor or in the same transaction. The waiter queues again.
func TestArmed_OwnNodeGone(t *testing.T) {
	for name, remove := range map[string]func(t *testing.T, srv *zktest.Server, by *conn.Client, own, ahead string){
		"before": func(t *testing.T, srv *zktest.Server, _ *conn.Client, own, ahead string) {
			t.Helper()
			srv.Freeze() // both events arrive together
			require.NoError(t, srv.Delete(own))
			require.NoError(t, srv.Delete(ahead))
			srv.Thaw()
		},
		"changed before": func(t *testing.T, srv *zktest.Server, _ *conn.Client, own, ahead string) {
			t.Helper()
			srv.Freeze()
			// The watch is used up: no event reports that the node is deleted.
			require.NoError(t, srv.Set(own, []byte("x")))
			require.NoError(t, srv.Delete(own))
			require.NoError(t, srv.Delete(ahead))
			srv.Thaw()
		},
		"with it": func(t *testing.T, _ *zktest.Server, by *conn.Client, own, ahead string) {
			t.Helper()
			_, err := by.Multi(t.Context(), zkrecipes.OpDelete(own, -1), zkrecipes.OpDelete(ahead, -1))
			require.NoError(t, err)
		},
		"with all": func(t *testing.T, srv *zktest.Server, _ *conn.Client, _, _ string) {
			t.Helper()
			srv.Freeze()
			require.NoError(t, srv.DeleteAll(path))
			srv.Thaw()
		},
	} {
		t.Run(name, func(t *testing.T) {
			for range 10 { // the waiter may see either event first
				inBubbleWith(t, true, func(t *testing.T, srv *zktest.Server) {
					holder, waiting, own := second(t, srv)
					remove(t, srv, bubble.Dial(t, srv, "c"), own, holder.Path())
					if name == "with all" {
						time.Sleep(time.Second)
						require.True(t, waiting.Over())
						require.NoError(t, waiting.Err)
						// Granted by the first of two events, it is lost with the second.
						h := waiting.Hold
						require.Equal(t, h.Err() == nil, srv.Exists(h.Path()))
						return
					}
					requireAnotherNode(t, srv, waiting, own)
				})
			}
		})
	}
}

// TestArmed_OwnNodeGoneBehindThePredecessor: both are deleted in one transaction. If the waiter was granted by the
// first event, the second ends the hold.
func TestArmed_OwnNodeGoneBehindThePredecessor(t *testing.T) {
	inBubbleWith(t, true, func(t *testing.T, srv *zktest.Server) {
		holder, waiting, own := second(t, srv)
		third := acquire(t.Context(), queue(t, srv, "c"))
		third.Waits(t)
		_, err := bubble.Dial(t, srv, "d").Multi(t.Context(), zkrecipes.OpDelete(holder.Path(), -1),
			zkrecipes.OpDelete(own, -1))
		require.NoError(t, err)
		h := third.Granted(t, time.Hour)
		if waiting.Over() {
			require.NotEqual(t, zkrecipes.Token(0), h.Token())
			requireLost(t, waiting.Hold, zkrecipes.LossNodeDeleted)
			require.Equal(t, own, waiting.Hold.Path())
			return
		}
		release(t, h)
		release(t, waiting.Granted(t, time.Hour))
	})
}

// TestArmed_InDoubt_Reads: only the deletion of the predecessor grants, and a waiter that cannot learn of its own node
// falls back to the list.
func TestArmed_InDoubt_Reads(t *testing.T) {
	for name, disturb := range map[string]func(t *testing.T, srv *zktest.Server, ahead, own string){
		"predecessor changed": func(t *testing.T, srv *zktest.Server, ahead, _ string) {
			t.Helper()
			require.NoError(t, srv.Set(ahead, []byte("x")))
		},
		"own node changed": func(t *testing.T, srv *zktest.Server, _, own string) {
			t.Helper()
			require.NoError(t, srv.Set(own, []byte("x")))
		},
		"event of a change that was none": func(_ *testing.T, srv *zktest.Server, ahead, _ string) {
			srv.SendEvent(zktest.Label("b"), zktest.NodeDataChanged, ahead)
		},
		"new connection": func(_ *testing.T, srv *zktest.Server, _, _ string) {
			srv.Cut(zktest.Label("b"))
			time.Sleep(time.Second)
		},
		"new connection between the reads": func(_ *testing.T, srv *zktest.Server, _, own string) {
			srv.Intercept(zktest.Match{From: zktest.Label("b"), Op: zktest.OpGetData, Path: own}, zktest.DropReply())
			srv.Cut(zktest.Label("b"))
			time.Sleep(time.Second)
		},
		"own node cannot be read": func(_ *testing.T, srv *zktest.Server, _, own string) {
			srv.Intercept(zktest.Match{From: zktest.Label("b"), Op: zktest.OpGetData, Path: own, Times: 2},
				zktest.Fail(zktest.CodeNoAuth))
			srv.Cut(zktest.Label("b"))
			time.Sleep(time.Second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubbleWith(t, true, func(t *testing.T, srv *zktest.Server) {
				holder, waiting, own := second(t, srv)
				for range 2 {
					disturb(t, srv, holder.Path(), own)
					waiting.Waits(t)
				}
				require.NoError(t, holder.Err())
				release(t, holder)
				h := waiting.Granted(t, 0)
				require.Equal(t, own, h.Path())
				release(t, h)
			})
		})
	}
}

// TestArmed_OwnNodeCannotBeRead_IsNotArmed: the waiter would not learn that it was deleted.
func TestArmed_OwnNodeCannotBeRead_IsNotArmed(t *testing.T) {
	inBubbleWith(t, true, func(t *testing.T, srv *zktest.Server) {
		srv.Intercept(zktest.Match{From: zktest.Label("b"), Op: zktest.OpGetData, Where: func(r zktest.Request) bool {
			return r.Path == last(srv)
		}}, zktest.Fail(zktest.CodeNoAuth))
		holder, waiting, own := second(t, srv)
		require.NoError(t, srv.Delete(own))
		release(t, holder)
		requireAnotherNode(t, srv, waiting, own)
	})
}

// TestArmed_OwnNodeMadeAgain: a node that was created again by the time it is read is a different one.
func TestArmed_OwnNodeMadeAgain(t *testing.T) {
	inBubbleWith(t, true, func(t *testing.T, srv *zktest.Server) {
		var own string
		srv.Intercept(zktest.Match{From: zktest.Label("b"), Op: zktest.OpGetData, Where: func(r zktest.Request) bool {
			return r.Path == last(srv)
		}}, zktest.Before(func(r zktest.Request) {
			own = r.Path
			require.NoError(t, srv.Delete(own))
			_, err := srv.Create(own, nil, zktest.Persistent)
			require.NoError(t, err)
		}))
		holder := acquire(t.Context(), queue(t, srv, "a")).Granted(t, time.Hour)
		waiting := acquire(t.Context(), queue(t, srv, "b"))
		waiting.Waits(t)
		release(t, holder)
		requireAnotherNode(t, srv, waiting, own)
	})
}

// TestArmed_OwnNodeMadeAgainWhileItWaits: the list shows a node with its name, but the event has reported that its own
// was deleted.
func TestArmed_OwnNodeMadeAgainWhileItWaits(t *testing.T) {
	inBubbleWith(t, true, func(t *testing.T, srv *zktest.Server) {
		holder, waiting, own := second(t, srv)
		srv.Freeze() // all events arrive together
		require.NoError(t, srv.Delete(own))
		_, err := srv.Create(own, nil, zktest.Persistent)
		require.NoError(t, err)
		require.NoError(t, srv.Delete(holder.Path()))
		srv.Thaw()
		requireAnotherNode(t, srv, waiting, own)
	})
}

// TestArmed_SharesTheWatchOfThePredecessor: another caller of the session shares it, and may drop it.
func TestArmed_SharesTheWatchOfThePredecessor(t *testing.T) {
	inBubbleWith(t, true, func(t *testing.T, srv *zktest.Server) {
		holder := acquire(t.Context(), queue(t, srv, "a")).Granted(t, time.Hour)
		q := queue(t, srv, "b")
		s, err := q.Client().Session(t.Context())
		require.NoError(t, err)
		_, _, before, err := s.GetW(t.Context(), holder.Path())
		require.NoError(t, err)
		waiting := acquire(t.Context(), q)
		waiting.Waits(t)
		_, _, after, err := s.GetW(t.Context(), holder.Path())
		require.NoError(t, err)
		s.Unwatch(before)
		s.Unwatch(after)
		waiting.Waits(t)
		sent := requests(srv, "b")
		release(t, holder)
		release(t, waiting.Granted(t, 0))
		require.Equal(t, 1, sent.Hits(), "the delete")
	})
}

// TestArmed_AskedToRelease: the request came while the caller waited. The holder learns of it.
func TestArmed_AskedToRelease(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		holder, waiting, own := second(t, srv)
		require.NoError(t, srv.Set(own, []byte(layout.RevokeRequest)))
		waiting.Waits(t)
		release(t, holder)
		h := waiting.Granted(t, 0)
		<-h.Revoked()
		release(t, h)
	})
}

// TestArmed_ReadersAndWriters: a reader behind the only writer and a writer behind the only reader are armed. A writer
// behind a writer is not, because a reader may take that one's place.
func TestArmed_ReadersAndWriters(t *testing.T) {
	read := znode.Entry{Kind: znode.Read, Rule: znode.NoWriterAhead}
	write := znode.Entry{Kind: znode.Write, Rule: znode.First}
	for name, c := range map[string]struct {
		holders []znode.Entry
		waiter  znode.Entry
		lists   int
	}{
		"reader behind a writer":    {[]znode.Entry{write}, read, 0},
		"writer behind a reader":    {[]znode.Entry{read}, write, 0},
		"writer behind a writer":    {[]znode.Entry{write}, write, 1},
		"writer behind two readers": {[]znode.Entry{read, read}, write, 1},
	} {
		t.Run(name, func(t *testing.T) {
			inBubbleWith(t, true, func(t *testing.T, srv *zktest.Server) {
				at := func(label string) *znode.Queue { return queueOf(t, srv, label, znode.Read, znode.Write) }
				var holders []*zkrecipes.Hold
				a := at("a")
				for _, e := range c.holders {
					holders = append(holders, acquireAs(t.Context(), a, e).Granted(t, time.Hour))
				}
				waiting := acquireAs(t.Context(), at("b"), c.waiter)
				waiting.Waits(t)
				requireLists(t, srv, c.lists, func() {
					for _, h := range holders {
						release(t, h)
					}
					release(t, waiting.Granted(t, 0))
				})
			})
		})
	}
}

// TestArmed_WriterAheadGivesUp_NoList: the reader's only obstacle is the writer, even if readers are ahead of that.
func TestArmed_WriterAheadGivesUp_NoList(t *testing.T) {
	inBubbleWith(t, true, func(t *testing.T, srv *zktest.Server) {
		at := func(label string) *znode.Queue { return queueOf(t, srv, label, znode.Read, znode.Write) }
		read := znode.Entry{Kind: znode.Read, Rule: znode.NoWriterAhead}
		holder := acquireAs(t.Context(), at("a"), read).Granted(t, time.Hour)
		ctx, giveUp := context.WithCancel(t.Context())
		writer := acquireAs(ctx, at("b"), znode.Entry{Kind: znode.Write, Rule: znode.First})
		writer.Waits(t)
		waiting := acquireAs(t.Context(), at("c"), read)
		waiting.Waits(t)
		requireLists(t, srv, 0, func() {
			giveUp()
			require.ErrorIs(t, writer.Failed(t, 0), context.Canceled)
			release(t, waiting.Granted(t, 0))
		})
		release(t, holder)
	})
}

// TestArmed_WithKazoo_Lists: kazoo's contenders are counted by different rules.
func TestArmed_WithKazoo_Lists(t *testing.T) {
	inBubbleWith(t, true, func(t *testing.T, srv *zktest.Server) {
		at := func(label string) *znode.Queue { return queueOf(t, srv, label, znode.Lock, znode.KazooLock) }
		holder := acquire(t.Context(), at("a")).Granted(t, time.Hour)
		waiting := acquire(t.Context(), at("b"))
		waiting.Waits(t)
		requireLists(t, srv, 1, func() {
			release(t, holder)
			release(t, waiting.Granted(t, 0))
		})
	})
}

// TestArmed_PredecessorReadOnTheNextConnection_OwnNodeGone: its own node was read on the previous connection.
func TestArmed_PredecessorReadOnTheNextConnection_OwnNodeGone(t *testing.T) {
	inBubbleWith(t, true, func(t *testing.T, srv *zktest.Server) {
		holder := acquire(t.Context(), queue(t, srv, "b")).Granted(t, time.Hour)
		x := newAbsence(t, srv)
		srv.SetLatency(time.Millisecond)
		own := srv.Intercept(zktest.Match{From: zktest.Label("a"), Op: zktest.OpGetData, Where: func(r zktest.Request) bool {
			return r.Path != holder.Path()
		}}, zktest.Proceed())
		reached := false
		srv.Intercept(zktest.Match{From: zktest.Label("a"), Op: zktest.OpGetData, Path: holder.Path()},
			zktest.Before(func(zktest.Request) {
				reached = own.Hits() > 0
				time.Sleep(time.Second) // lets the answer to the other arrive
				x.pass()
			}))
		mine := x.begin(func(ctx context.Context) (*zkrecipes.Hold, error) { return x.lock(ctx, x.a) })
		<-x.over
		time.Sleep(bubble.Timeout)
		x.settle(mine)
		release(t, x.other.Load())
		release(t, mine.Granted(t, time.Second))
		require.True(t, reached, "or this test shows nothing")
	})
}

// TestArmed_PredecessorGoneBeforeItIsWatched_OwnNodeCannotBeRead: the waiter cannot determine whether its own node
// existed then.
func TestArmed_PredecessorGoneBeforeItIsWatched_OwnNodeCannotBeRead(t *testing.T) {
	inBubbleWith(t, true, func(t *testing.T, srv *zktest.Server) {
		section(t, queue(t, srv, "c")) // creates the parents
		holder := acquire(t.Context(), queue(t, srv, "a")).Granted(t, time.Hour)
		srv.Intercept(zktest.Match{From: zktest.Label("b"), Op: zktest.OpGetData, Path: holder.Path()},
			zktest.Before(func(zktest.Request) {
				require.NoError(t, srv.Delete(holder.Path()))
			}))
		srv.Intercept(zktest.Match{From: zktest.Label("b"), Op: zktest.OpGetData, Where: func(r zktest.Request) bool {
			return r.Path != holder.Path()
		}}, zktest.Fail(zktest.CodeNoAuth))
		requireLists(t, srv, 2, func() { release(t, acquire(t.Context(), queue(t, srv, "b")).Granted(t, time.Hour)) })
	})
}

// TestArmed_OwnNodeChangedBefore_Lists: the watch on the waiter's own node has fired when the predecessor leaves, and
// the list settles whether the node still exists. What hold.FromTurn would ask instead takes two round trips.
func TestArmed_OwnNodeChangedBefore_Lists(t *testing.T) {
	inBubbleWith(t, true, func(t *testing.T, srv *zktest.Server) {
		holder, waiting, own := second(t, srv)
		exists := srv.Intercept(zktest.Match{Op: zktest.OpExists, Times: -1}, zktest.Proceed())
		requireLists(t, srv, 1, func() {
			srv.Freeze() // both events arrive together
			require.NoError(t, srv.Set(own, []byte("x")))
			require.NoError(t, srv.Delete(holder.Path()))
			srv.Thaw()
			release(t, waiting.Granted(t, 0))
		})
		require.Zero(t, exists.Hits(), "the list has settled it")
	})
}

// TestArmed_OthersAreBetween_ReadsThePredecessorAlone: a list decides, so no event of its own node is needed.
func TestArmed_OthersAreBetween_ReadsThePredecessorAlone(t *testing.T) {
	inBubbleWith(t, true, func(t *testing.T, srv *zktest.Server) {
		holder, waiting, ahead := second(t, srv)
		reads := srv.Intercept(zktest.Match{From: zktest.Label("c"), Op: zktest.OpGetData, Times: -1}, zktest.Proceed())
		others := srv.Intercept(zktest.Match{
			From: zktest.Label("c"), Op: zktest.OpGetData, Times: -1,
			Where: func(r zktest.Request) bool { return r.Path != ahead },
		}, zktest.Proceed())
		third := acquire(t.Context(), queue(t, srv, "c"))
		third.Waits(t)
		require.Equal(t, 1, reads.Hits())
		require.Zero(t, others.Hits())
		release(t, holder)
		release(t, waiting.Granted(t, 0))
		release(t, third.Granted(t, 0))
	})
}

// TestArmed_OwnNodeChangedAsThePredecessorIsRead_Lists: the same with an answer instead of the second event.
func TestArmed_OwnNodeChangedAsThePredecessorIsRead_Lists(t *testing.T) {
	inBubbleWith(t, true, func(t *testing.T, srv *zktest.Server) {
		holder := acquire(t.Context(), queue(t, srv, "a")).Granted(t, time.Hour)
		srv.Intercept(zktest.Match{From: zktest.Label("b"), Op: zktest.OpGetData, Path: holder.Path()},
			zktest.Before(func(zktest.Request) {
				require.NoError(t, srv.Set(last(srv), []byte("x")))
				require.NoError(t, srv.Delete(holder.Path()))
			}))
		requireLists(t, srv, 2, func() { release(t, acquire(t.Context(), queue(t, srv, "b")).Granted(t, time.Hour)) })
	})
}
