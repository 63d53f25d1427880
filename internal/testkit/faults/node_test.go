package faults_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/internal/testkit/trial"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// TestF25_ParentReapedBeforeTheCreate: the client creates the parent again, as often as needed. Sequence numbers
// restart.
func TestF25_ParentReapedBeforeTheCreate(t *testing.T) {
	each(t, func(w *world) {
		first := w.take("a")
		first.release()
		m := w.creates()
		m.Times = 5
		rule := w.srv.Intercept(m, zktest.Before(func(zktest.Request) {
			_ = w.srv.Delete(w.parent) // it may already be gone
		}))
		h := w.take("a").requireGranted(0)
		require.Equal(w, 5, rule.Hits())
		require.Greater(w, h.Token(), first.hold.Token())
		require.True(w, strings.HasSuffix(h.Path(), "0000000000"), h.Path())
	})
}

// TestF25_NoNodeIsTheAnswerToEverything: a client pauses between requests to such a server.
func TestF25_NoNodeIsTheAnswerToEverything(t *testing.T) {
	each(t, func(w *world) {
		w.client("a")
		rule := w.srv.Intercept(zktest.Match{Times: -1}, zktest.Fail(zktest.CodeNoNode))
		a := w.take("a")
		w.until(time.Minute)
		require.Less(w, rule.Hits(), 600)
		require.Greater(w, rule.Hits(), 100, "and the client goes on")
		rule.Remove()
		a.requireGranted(2 * time.Second)
	})
}

// TestF25_NoNodeIsTheAnswerToAWrite is the same for recipes without a queue.
func TestF25_NoNodeIsTheAnswerToAWrite(t *testing.T) {
	for _, name := range []string{"value", "counter", "barrier", "node"} {
		t.Run(name, func(t *testing.T) {
			trial.Run(t, func(t *testing.T, srv *zktest.Server) {
				c := bubble.Dial(t, srv, "a")
				rule := srv.Intercept(zktest.Match{Times: -1}, zktest.Fail(zktest.CodeNoNode))
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				require.ErrorIs(t, writers[name](ctx, c), context.DeadlineExceeded)
				require.Less(t, rule.Hits(), 600)
			})
		})
	}
}

// TestF26_ParentReapedWhileATokenIsOut: tokens keep growing although sequence numbers restart.
func TestF26_ParentReapedWhileATokenIsOut(t *testing.T) {
	each(t, func(w *world) {
		a := w.take("a")
		w.until(cut)
		w.isolate("a")
		w.until(expired)
		w.requireContenders(0)
		if w.kazoo {
			w.srv.Reap()
			require.True(w, w.srv.Exists(w.parent), "a plain node")
			return
		}
		require.NotEmpty(w, w.srv.Reap())
		w.srv.Reap() // the parents, which were not empty before
		require.False(w, w.srv.Exists(w.parent))
		b := w.rivals("b")
		b.requireGranted(0)
		require.Greater(w, b.hold.Token(), a.hold.Token())
		require.True(w, strings.HasSuffix(b.hold.Path(), "0000000000"), b.hold.Path())
	})
}

// TestF27_EverythingDeletedWhileWaiting: the holder learns of its loss, and the waiters queue again.
func TestF27_EverythingDeletedWhileWaiting(t *testing.T) {
	each(t, func(w *world) {
		a := w.take("a")
		b := w.rivals("b")
		c := w.take("c")
		w.until(time.Second)
		w.srv.Freeze() // otherwise the first waiter could return, and be granted, before all nodes are gone
		require.NoError(w, w.srv.DeleteAll("/app"))
		w.srv.Thaw()
		a.requireLostAt(time.Second, zkrecipes.LossNodeDeleted)
		synctest.Wait()
		first, second := b, c // whatever order they queued in
		if c.holds() {
			first, second = c, b
		}
		first.requireGranted(0)
		select {
		case <-second.returned: // granted by the event of its predecessor, which came before that of its own node
			second.requireLostAt(time.Second, zkrecipes.LossNodeDeleted)
			return
		default:
		}
		w.until(2 * time.Second)
		first.release()
		second.requireGrantedAt(2 * time.Second)
	})
}

// TestF28_HoldersNodeDeleted: an operator deletes the node. The holder learns of it in the instant of the next grant.
func TestF28_HoldersNodeDeleted(t *testing.T) {
	each(t, func(w *world) {
		a := w.take("a")
		b := w.rivals("b")
		w.until(time.Second)
		require.NoError(w, w.srv.Delete(a.hold.Path()))
		a.requireLostAt(time.Second, zkrecipes.LossNodeDeleted)
		b.requireGrantedAt(time.Second)
		require.ErrorIs(w, a.hold.Check(w.Context()), zkrecipes.ErrLost)
		w.requireContenders(1) // the other nodes of the hold are gone too
	})
}

// TestF29_WaitersNodeDeleted: the waiter queues again.
func TestF29_WaitersNodeDeleted(t *testing.T) {
	each(t, func(w *world) {
		b := w.rivals("b")
		a := w.take("a")
		c := w.rivals("c")
		w.until(time.Second)
		w.srv.Freeze() // otherwise a might miss the first deletion, and delete the others earlier
		for _, p := range w.srv.Ephemerals(w.srv.SessionOf("a")) {
			require.NoError(w, w.srv.Delete(p))
		}
		w.srv.Thaw()
		a.requireWaiting()
		w.until(2 * time.Second)
		b.release()
		// Client a finds out before it reads the list (then c is ahead of it), or when it becomes first. One leads to
		// the other.
		c.requireGranted(0)
		a.requireWaiting()
		w.until(3 * time.Second)
		c.release()
		a.requireGrantedAt(3 * time.Second)
	})
}

// TestF29_NodeDeletedBeforeTheList: a list that lacks the client's own node never means "first", even if it is empty.
func TestF29_NodeDeletedBeforeTheList(t *testing.T) {
	each(t, func(w *world) {
		w.take("a").release()
		rule := w.srv.Intercept(w.lists(), zktest.Before(func(zktest.Request) {
			for _, name := range w.srv.Children(w.parent) {
				require.NoError(w, w.srv.Delete(w.parent+"/"+name))
			}
		}))
		a := w.take("a")
		a.requireGranted(0)
		require.Equal(w, 1, rule.Hits())
		a.requireHeld()
		w.requireContenders(1)
	})
}

// TestF30_PredecessorGoneBeforeItIsWatched: the waiter reads the list again at once.
func TestF30_PredecessorGoneBeforeItIsWatched(t *testing.T) {
	each(t, func(w *world) {
		b := w.rivals("b")
		b.requireGranted(0)
		watch := zktest.Match{From: zktest.Label("a"), Where: func(q zktest.Request) bool {
			return q.Op == zktest.OpGetData && strings.HasPrefix(q.Path, w.parent+"/") ||
				q.Op == zktest.OpGetChildren2 && q.Path == w.parent
		}}
		if w.base != "lease-" {
			watch.Op = zktest.OpGetData
		} else {
			watch.Skip = 1 // a semaphore first reads one list without a watch
		}
		rule := w.srv.Intercept(watch,
			zktest.Before(func(zktest.Request) { require.NoError(w, w.srv.Delete(b.hold.Path())) }))
		w.take("a").requireGrantedAt(0)
		require.Equal(w, 1, rule.Hits())
		b.requireLostAt(0, zkrecipes.LossNodeDeleted)
	})
}

// TestF31_ChainOfPredecessorsGone: each remaining waiter reads the list at most twice.
func TestF31_ChainOfPredecessorsGone(t *testing.T) {
	each(t, func(w *world) {
		const n = 10
		b := w.rivals("b")
		var chain, rest []*attempt
		for range n {
			chain = append(chain, w.rivals("b"))
		}
		for range n {
			rest = append(rest, w.take("a"))
		}
		w.until(cut)
		m := zktest.Match{From: zktest.Label("a"), Op: zktest.OpGetChildren2, Times: -1}
		reads := w.srv.Intercept(m, zktest.Proceed())
		w.srv.Expire(w.srv.SessionOf("b"))
		b.requireExpiredAt(cut)
		rest[0].requireGrantedAt(cut)
		require.LessOrEqual(w, reads.Hits(), 2*n)
		for _, c := range chain {
			c.requireNoUse()
		}
	})
}

// TestF32_ForeignChildren: children that are not contenders are ignored, whatever their names.
func TestF32_ForeignChildren(t *testing.T) {
	each(t, func(w *world) {
		if w.countsAll() {
			return
		}
		w.take("a").release()
		for _, name := range []string{
			"0", "_c_x", "_c_", "zzz", "locks-", strings.Repeat("x", 1000),
			"_c_" + strings.Repeat("0", 36),
		} {
			_, err := w.srv.Create(w.parent+"/"+name, nil, zktest.Persistent)
			require.NoError(w, err)
		}
		_, err := w.srv.Create(w.parent+"/zzz/"+w.base+"0000000000", nil, zktest.Persistent)
		require.NoError(w, err)
		w.takeTurns()
	})
}

// takeTurns has two clients hold one after the other, and then deletes the parent with its other children.
func (w *world) takeTurns() {
	w.Helper()
	a := w.take("a")
	a.requireGranted(0)
	b := w.rivals("b")
	b.requireWaiting()
	a.release()
	b.requireGranted(0)
	b.release()
	require.NoError(w, w.srv.DeleteAll(w.parent))
}

// TestF37_LongList: the list of children is larger than the largest request (1 MiB).
func TestF37_LongList(t *testing.T) {
	each(t, func(w *world) {
		if w.countsAll() {
			return
		}
		w.take("a").release()
		for i := range 300 {
			_, err := w.srv.Create(fmt.Sprintf("%s/%s%d", w.parent, strings.Repeat("x", 4000), i), nil, zktest.Persistent)
			require.NoError(w, err)
		}
		w.takeTurns()
	})
}

// TestF38_SequenceExhausted: the last number that sorts correctly is used, and no number after it.
func TestF38_SequenceExhausted(t *testing.T) {
	each(t, func(w *world) {
		w.take("a").release()
		require.NoError(w, w.srv.SetCversion(w.parent, 2147483647-int32(w.nodes)))
		a := w.take("a")
		a.requireGranted(0)
		a.release()
		for range 3 {
			require.ErrorIs(w, w.take("a").requireFailed(), zkrecipes.ErrSequenceExhausted)
			require.ErrorIs(w, w.rivals("b").requireFailed(), zkrecipes.ErrSequenceExhausted)
			w.requireContenders(0)
		}
		// The error message names this remedy.
		require.NoError(w, w.srv.DeleteAll(w.parent))
		w.take("a").requireGranted(0)
	})
}

// TestF47_ForeignNodeWithOurGUID: the search after a lost request finds a node with our GUID, whose owner shows that it
// is foreign.
func TestF47_ForeignNodeWithOurGUID(t *testing.T) {
	each(t, func(w *world) {
		b := w.rivals("b")
		b.requireGranted(0)
		w.until(2 * time.Second)
		var forged string
		m := w.creates()
		where := m.Where
		m.Where = func(q zktest.Request) bool {
			if !where(q) {
				return false
			}
			forged = filepath.Join(w.parent, filepath.Base(append(q.Paths, q.Path)[0])+"0000000000")
			_, err := w.srv.Create(forged, nil, zktest.Persistent)
			require.NoError(w, err)
			return true
		}
		w.srv.Intercept(m, zktest.DropRequest())
		a := w.take("a")
		w.until(4 * time.Second)
		a.requireWaiting()
		require.Len(w, w.contendersOf("a"), w.nodes, "made after the other one was found")
		require.NoError(w, w.srv.Delete(forged))
		b.release()
		h := a.requireGranted(0)
		require.NotEqual(w, forged, h.Path())
		require.NoError(w, h.Check(w.Context()))
	})
}

// TestF55_SpuriousEvents: an event of a change never grants by itself, and does not hide a later real event. No server
// reports a deletion that did not happen.
func TestF55_SpuriousEvents(t *testing.T) {
	each(t, func(w *world) {
		b := w.rivals("b")
		a := w.take("a")
		for i := range 10 {
			w.until(time.Duration(i+1) * 100 * time.Millisecond)
			for _, p := range append(w.contenders(), w.parent, path+"/locks") {
				for _, e := range []zktest.Event{zktest.NodeDataChanged, zktest.NodeChildrenChanged} {
					w.srv.SendEvent(zktest.Everyone, e, p)
				}
			}
			a.requireWaiting()
			b.requireHeld()
		}
		w.until(2 * time.Second)
		b.release()
		a.requireGrantedAt(2 * time.Second)
	})
}

// TestF56_NoEvents: a waiter without events reads again after two to three session timeouts.
func TestF56_NoEvents(t *testing.T) {
	each(t, func(w *world) {
		b := w.rivals("b")
		a := w.take("a")
		w.until(time.Second)
		lost := w.srv.LoseWatch(zktest.Label("a"), b.hold.Path()) + w.srv.LoseWatch(zktest.Label("a"), w.parent)
		require.Positive(w, lost)
		b.release()
		a.requireWaiting()
		a.requireGranted(3 * timeout)
		require.GreaterOrEqual(w, a.at, 2*timeout)
	})
}

// TestF56_NoEvents_Holder: a holder without events learns by reading that its node was deleted.
func TestF56_NoEvents_Holder(t *testing.T) {
	each(t, func(w *world) {
		a := w.take("a")
		w.until(time.Second)
		for _, p := range w.contenders() {
			require.Equal(w, 1, w.srv.LoseWatch(zktest.Label("a"), p))
		}
		for _, p := range w.contenders() {
			require.NoError(w, w.srv.Delete(p))
		}
		a.requireHeld()
		<-a.ended
		require.LessOrEqual(w, a.over, 3*timeout)
		require.GreaterOrEqual(w, a.over, 2*timeout)
		require.ErrorIs(w, a.hold.Err(), zkrecipes.ErrLost)
	})
}
