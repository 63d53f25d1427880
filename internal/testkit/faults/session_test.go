package faults_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/client"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// These times follow if a client acquires its hold at 0 and is cut off right after 10 s. It sends a sync every eleventh
// of the timeout, so it sent the last answered sync at 10 s, less a nanosecond. That sync proves contacts answered a
// quarter of the timeout earlier, so the newest of them is the third sync before it. The margin is a twentieth of the
// timeout. Waiters read again after two timeouts or more, at random: such a read must not be the last one answered.
const (
	beat   = timeout / 11
	newest = 11 * beat
	cut    = 10*time.Second + time.Millisecond
	lost   = newest - 3*beat + timeout - timeout/20 // 16.8 s
	// silent is when the client gives up its session, because nothing was answered for a whole timeout.
	silent = newest + timeout // 20 s
	// expired is when the server expires it: at its first tick after that.
	expired = 10*time.Second + timeout
)

// TestF3_ReplyLost_SessionExpires: the search finds no node, or the node of a dead session. The client uses neither.
func TestF3_ReplyLost_SessionExpires(t *testing.T) {
	each(t, func(w *world) {
		first := w.take("a")
		first.release() // creates the parents
		w.until(time.Second)
		m := w.creates()
		w.srv.Intercept(m, zktest.After(func(zktest.Request) { w.isolate("a") }))
		a := w.take("a")
		w.until(2 * time.Second)
		w.requireContenders(1)
		orphans, old := w.contenders(), w.srv.SessionOf("a")
		w.srv.Expire(old)
		w.srv.Accept(zktest.Label("a"))
		a.requireGranted(pause + blink)
		for _, orphan := range orphans {
			require.False(w, w.srv.Exists(orphan))
		}
		require.NotEqual(w, old, w.srv.SessionOf("a"))
		require.Len(w, w.contendersOf("a"), w.nodes)
		w.requireContenders(1)
	})
}

// TestF9_WaiterExpires: the waiter queues again at once, at the tail.
func TestF9_WaiterExpires(t *testing.T) {
	each(t, func(w *world) {
		a := w.take("a")
		b := w.rivals("b")
		c := w.take("c")
		w.until(cut)
		w.srv.Expire(w.srv.SessionOf("b"))
		b.requireWaiting()
		w.until(cut + 2*time.Second)
		if w.read {
			c.requireGranted(0) // the only writer lost its place between the readers, and is now behind both
		}
		a.release()
		c.requireGranted(0)
		b.requireWaiting()
		w.until(cut + 3*time.Second)
		c.release()
		b.requireGrantedAt(cut + 3*time.Second)
	})
}

// TestF10_HolderExpires: the server ends the session, and the holder knows in the same instant. The server reports the
// deletion first.
func TestF10_HolderExpires(t *testing.T) {
	each(t, func(w *world) {
		a := w.take("a")
		b := w.rivals("b")
		w.until(cut)
		w.srv.Expire(w.srv.SessionOf("a"))
		a.requireExpiredAt(cut)
		b.requireGrantedAt(cut)
	})
}

// TestF10_HolderExpires_AskedMeanwhile: callers that check the hold while the loss is being announced get the same
// reason as callers that check later.
func TestF10_HolderExpires_AskedMeanwhile(t *testing.T) {
	each(t, func(w *world) {
		a := w.take("a")
		a.requireGranted(0)
		s, err := (*client.Client)(w.client("a")).Session(w.Context())
		require.NoError(w, err)
		for range 20 { // loss callbacks run in no particular order, so some run before the hold's
			_, ok := s.OnLoss(false, func(*zkrecipes.LostError) func() { _ = a.hold.Err(); return nil })
			require.True(w, ok)
		}
		w.until(cut)
		w.srv.Expire(s.ID())
		a.requireExpiredAt(cut)
	})
}

// TestF10_HolderCutOff: the holder knows three seconds before the next client is granted, as docs/timeline.svg shows.
func TestF10_HolderCutOff(t *testing.T) {
	each(t, func(w *world) {
		a := w.take("a")
		b := w.rivals("b")
		w.until(cut)
		w.srv.Stall(zktest.Label("a"), zktest.Both)
		a.requireLostAt(lost, zkrecipes.LossDeadline)
		b.requireWaiting()
		b.requireGrantedAt(expired)
		require.Greater(w, b.hold.Token(), a.hold.Token())
		w.srv.Heal(zktest.Label("a"))
		c := w.take("a")
		b.release()
		c.requireGranted(timeout) // it returns with a new session
	})
}

// TestF11_ExpiresBetweenCreateAndList: a list that lacks the client's own node never means "first". The create was
// answered, and the session is gone.
func TestF11_ExpiresBetweenCreateAndList(t *testing.T) {
	each(t, func(w *world) {
		w.take("a").release()
		w.until(time.Second)
		old := w.srv.SessionOf("a")
		w.srv.Intercept(w.lists(), zktest.Before(func(zktest.Request) { w.srv.Expire(old) }))
		a := w.take("a")
		h := a.requireGranted(pause)
		node, ok := w.srv.Node(h.Path())
		require.True(w, ok)
		require.Equal(w, w.srv.SessionOf("a"), node.Stat.EphemeralOwner)
		require.NotEqual(w, old, node.Stat.EphemeralOwner)
	})
}

// TestF12_ExpiresOnItsWayToTheGrant: the predecessor is gone, and the list says "first", but it arrives long after the
// session ended.
func TestF12_ExpiresOnItsWayToTheGrant(t *testing.T) {
	each(t, func(w *world) {
		b, second := w.rivals("b"), w.rivals("b") // the second waiter reads no list
		a := w.take("a")
		c := w.rivals("c")
		b.release()
		second.requireGranted(0)
		w.until(cut)
		w.srv.Intercept(w.lists(), zktest.After(func(zktest.Request) { w.srv.Stall(zktest.Label("a"), zktest.Both) }))
		second.release()
		c.requireGranted(timeout + tick)
		a.requireWaiting()
		w.srv.Heal(zktest.Label("a"))
		w.until(time.Minute)
		a.requireWaiting()
		c.release()
		a.requireGrantedAt(time.Minute)
	})
}

// TestF12_ExpiresWithTheGrant: the server ends the session while the list that says "first" is in flight. If the client
// reads the list before the end of the connection, the hold ends in the instant of its grant.
func TestF12_ExpiresWithTheGrant(t *testing.T) {
	each(t, func(w *world) {
		b, second := w.rivals("b"), w.rivals("b") // the second waiter reads no list
		a := w.take("a")
		c := w.rivals("c")
		b.release()
		second.requireGranted(0)
		w.until(2 * time.Second)
		old := w.srv.SessionOf("a")
		w.srv.Intercept(w.lists(), zktest.After(func(zktest.Request) { w.srv.Expire(old) }))
		second.release()
		c.requireGranted(0)
		w.requireExpiredOrQueued(a, c, old)
	})
}

// requireExpiredOrQueued requires that a, whose session was ended after 2 s, either had a hold that ended with the
// session, or waits behind c in another session.
func (w *world) requireExpiredOrQueued(a, c *attempt, old int64) {
	w.Helper()
	select {
	case <-a.returned:
		a.requireExpiredAt(2 * time.Second)
	default:
		w.until(3 * time.Second)
		c.release()
		a.requireGrantedAt(3 * time.Second)
		require.NotEqual(w, old, w.srv.SessionOf("a"))
	}
}

// TestF12_ExpiresWithTheEvent: the server ends the session of the next waiter along with the predecessor's node. If the
// waiter was granted by the event, its hold ends in that instant.
func TestF12_ExpiresWithTheEvent(t *testing.T) {
	each(t, func(w *world) {
		b := w.rivals("b")
		a := w.take("a")
		c := w.rivals("c")
		w.until(2 * time.Second)
		old := w.srv.SessionOf("a")
		m := w.deletes()
		m.From, m.Path = zktest.Label("b"), w.parent // a rival may be of another kind
		w.srv.Intercept(m, zktest.After(func(zktest.Request) { w.srv.Expire(old) }))
		b.release()
		c.requireGranted(0)
		w.requireExpiredOrQueued(a, c, old)
	})
}

// TestF13_EnsembleDownForLong: when the ensemble is back, every session gets a full timeout again, including orphaned
// ones. Their former clients close them, so no waiter queues behind their nodes, and no client mistakes those for its
// own.
func TestF13_EnsembleDownForLong(t *testing.T) {
	each(t, func(w *world) {
		a := w.take("a")
		b := w.rivals("b")
		w.until(cut)
		old := w.srv.SessionOf("a")
		w.srv.Down()
		a.requireLostAt(lost, zkrecipes.LossDeadline)
		again := w.take("a")
		w.until(50 * time.Second)
		again.requireWaiting()
		b.requireWaiting()
		w.srv.Up()
		first, second := again, b // whichever client returns first
		select {
		case <-first.returned:
		case <-second.returned:
			first, second = second, first
		case <-time.After(timeout):
		}
		first.requireGranted(0)
		require.LessOrEqual(w, first.at, 50*time.Second+pause+blink)
		require.NotEqual(w, old, w.srv.SessionOf("a"))
		second.requireWaiting()
		first.release()
		second.requireGranted(blink)
	})
}

// TestF14_StaleHolderWrites: a frozen holder, which cannot check its hold, does no harm.
func TestF14_StaleHolderWrites(t *testing.T) {
	each(t, func(w *world) {
		a := w.take("a")
		b := w.rivals("b")
		w.until(cut)
		w.srv.Stall(zktest.Label("a"), zktest.Both)
		b.requireGrantedAt(expired)
		_, err := a.hold.Txn(w.Context())
		require.ErrorIs(w, err, zkrecipes.ErrFenced)
		require.ErrorIs(w, a.hold.Check(w.Context()), zkrecipes.ErrLost)
		require.Less(w, a.hold.Token(), b.hold.Token(), "what a fence at the resource goes by")
		require.Equal(w, expired, w.now())
	})
}

// TestF15_WaiterCutOffForLong: the waiter loses its place along with its session, leaves no node, and is served once it
// is back.
func TestF15_WaiterCutOffForLong(t *testing.T) {
	each(t, func(w *world) {
		b := w.rivals("b")
		a := w.take("a")
		w.until(cut)
		w.srv.Stall(zktest.Label("a"), zktest.Both)
		w.until(expired)
		w.requireContenders(1)
		w.until(time.Minute)
		a.requireWaiting()
		w.srv.Heal(zktest.Label("a"))
		w.until(time.Minute + timeout)
		a.requireWaiting()
		b.release()
		a.requireGrantedAt(time.Minute + timeout)
	})
}

// TestF16_HolderCutOffForShort: the hold survives.
func TestF16_HolderCutOffForShort(t *testing.T) {
	each(t, func(w *world) {
		a := w.take("a")
		b := w.rivals("b")
		before := w.contenders()
		for at := cut; at < 2*time.Minute; at += 10 * time.Second {
			w.until(at)
			w.isolate("a")
			w.until(at + 5*time.Second)
			a.requireHeld()
			w.srv.Accept(zktest.Label("a"))
		}
		w.until(2*time.Minute + time.Second)
		b.requireWaiting()
		require.NoError(w, a.hold.Check(w.Context()))
		require.Equal(w, before, w.contenders())
		w.until(3 * time.Minute)
		a.release()
		b.requireGrantedAt(3 * time.Minute)
	})
}

// TestF17_WaiterCutOffForShort: the waiter misses nothing that happened meanwhile.
func TestF17_WaiterCutOffForShort(t *testing.T) {
	each(t, func(w *world) {
		b := w.rivals("b")
		a := w.take("a")
		w.until(cut)
		w.isolate("a")
		w.until(cut + 2*time.Second)
		session := w.srv.SessionOf("a")
		b.release()
		w.until(cut + 5*time.Second)
		a.requireWaiting()
		w.srv.Accept(zktest.Label("a"))
		a.requireGranted(pause + blink)
		require.Equal(w, session, w.srv.SessionOf("a"))
		w.requireContenders(1)
	})
}

// TestF18_NothingReachesTheServer: events still arrive, but they prove nothing.
func TestF18_NothingReachesTheServer(t *testing.T) {
	each(t, func(w *world) {
		a := w.take("a")
		b := w.rivals("b")
		w.until(cut)
		w.srv.Stall(zktest.Label("a"), zktest.ToServer)
		for at := cut + time.Second; at < lost; at += time.Second {
			w.until(at)
			w.srv.SendEvent(zktest.Label("a"), zktest.NodeDataChanged, path)
		}
		a.requireLostAt(lost, zkrecipes.LossDeadline)
		b.requireGrantedAt(expired)
	})
}

// TestF19_NothingComesBack: the server receives one more sync, and a ping every third of the timeout, until the client
// drops the connection a quarter of the timeout after that sync.
func TestF19_NothingComesBack(t *testing.T) {
	each(t, func(w *world) {
		a := w.take("a")
		b := w.rivals("b")
		w.until(cut)
		w.srv.Stall(zktest.Label("a"), zktest.FromServer)
		a.requireLostAt(lost, zkrecipes.LossDeadline)
		b.requireWaiting()
		heard := 4 * timeout / 3 // the last ping before 13.4 s
		b.requireGrantedAt((heard + timeout).Truncate(tick) + tick)
	})
}

// TestF22_EnsembleDownForShort: the same as cutting off all clients. They try to reconnect once per pause.
func TestF22_EnsembleDownForShort(t *testing.T) {
	each(t, func(w *world) {
		a := w.take("a")
		b := w.rivals("b")
		session := w.srv.SessionOf("a")
		w.until(cut)
		w.srv.Down()
		w.until(cut + timeout/2)
		a.requireHeld()
		w.srv.Up()
		w.until(cut + timeout/2 + pause + blink)
		a.requireHeld()
		b.requireWaiting()
		require.Equal(w, session, w.srv.SessionOf("a"))
		require.NoError(w, a.hold.Check(w.Context()))
		a.release()
		b.requireGranted(0)
	})
}

// TestF22_DialRate: clients do not flood a server that is down.
func TestF22_DialRate(t *testing.T) {
	each(t, func(w *world) {
		var dials atomic.Int64
		c := w.client("a", conn.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			dials.Add(1)
			return w.srv.DialAs("a")(ctx, network, address)
		}))
		a := w.begin("a", w.recipe, c)
		a.requireGranted(0)
		w.until(cut)
		w.srv.Down()
		before := dials.Load()
		w.until(cut + time.Minute)
		require.LessOrEqual(w, dials.Load()-before, int64(time.Minute/pause)+2)
		require.GreaterOrEqual(w, dials.Load()-before, int64(time.Minute/pause)/2)
		w.srv.Up()
	})
}

// TestF23_ServerLagsBehind: a server that has seen less than the client refuses it. Nothing is granted because of it.
func TestF23_ServerLagsBehind(t *testing.T) {
	each(t, func(w *world) {
		b := w.rivals("b")
		a := w.take("a")
		w.until(cut)
		zxid := w.srv.Zxid()
		w.srv.SetZxid(zxid - 1)
		w.srv.CutAll()
		w.until(cut + timeout/4)
		a.requireWaiting()
		b.requireHeld()
		w.srv.SetZxid(zxid)
		w.until(cut + timeout/2)
		b.requireHeld()
		b.release()
		a.requireGrantedAt(cut + timeout/2)
	})
}

// TestF39_ServerRefuses: the client is suspended, and no waiter is granted.
func TestF39_ServerRefuses(t *testing.T) {
	each(t, func(w *world) {
		b := w.rivals("b")
		a := w.take("a")
		w.until(cut)
		w.isolate("a")
		b.release()
		require.Equal(w, zkrecipes.Suspended, w.client("a").Status().State)
		w.until(silent)
		a.requireWaiting()
		require.Equal(w, zkrecipes.Lost, w.client("a").Status().State)
		w.until(time.Minute)
		a.requireWaiting()
		w.srv.Accept(zktest.Label("a"))
		a.requireGranted(pause + blink)
		require.Equal(w, zkrecipes.Connected, w.client("a").Status().State)
	})
}

// TestF50_SlowServer: every answer takes longer than the interval between pings, and longer than a sync may take, so
// the connection flaps. No two holds overlap, and all clients are served once the server is fast again.
func TestF50_SlowServer(t *testing.T) {
	each(t, func(w *world) {
		a := w.take("a")
		b := w.rivals("b")
		w.until(cut)
		var rules []*zktest.Rule
		for _, op := range []zktest.Op{zktest.OpAny, zktest.OpPing} {
			rules = append(rules, w.srv.Intercept(zktest.Match{Op: op, Times: -1}, zktest.HoldReply(4*time.Second)))
		}
		w.until(time.Minute)
		for _, r := range rules {
			r.Remove()
		}
		_ = a.hold.Release(w.Context()) // it may already be lost
		b.requireGranted(2 * timeout)
	})
}

// TestF51_TimeoutFarBelowTheOneAskedFor: deadlines use the timeout that the server grants.
func TestF51_TimeoutFarBelowTheOneAskedFor(t *testing.T) {
	each(t, func(w *world) {
		a := w.begin("a", w.recipe, w.client("a", conn.WithSessionTimeout(time.Hour)))
		b := w.rivals("b")
		w.until(cut)
		w.srv.Stall(zktest.Label("a"), zktest.Both)
		a.requireLostAt(lost, zkrecipes.LossDeadline)
		b.requireGrantedAt(expired)
	}, zktest.WithSessionTimeouts(timeout, timeout))
}
