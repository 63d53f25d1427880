package faults_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/recipes/semaphore"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// leases is the recipe of the script, which provides its parent and its checks. The scripts below create their own
// semaphores.
var leases = sharing[0]

func (w *world) semaphore(label string, limit int, opts ...semaphore.Option) *semaphore.Semaphore {
	s, err := semaphore.New(w.client(label), path, limit, opts...)
	require.NoError(w, err)
	return s
}

// acquiring acquires n leases in a separate goroutine.
func (w *world) acquiring(s *semaphore.Semaphore, n int) *attempt {
	r := *leases
	r.weight = n
	return w.acquire(fmt.Sprintf("%p", s), &r,
		func(ctx context.Context) (*zkrecipes.Hold, error) { return s.Acquire(ctx, n) })
}

// TestF53_HolderOfLeasesExpires: each of its leases becomes free exactly once.
func TestF53_HolderOfLeasesExpires(t *testing.T) {
	runScript(t, leases, func(w *world) {
		a := w.acquiring(w.semaphore("a", 3), 2)
		a.requireGranted(0)
		b := w.acquiring(w.semaphore("b", 3), 1)
		b.requireGranted(0)
		c := w.acquiring(w.semaphore("c", 3), 2)
		d := w.acquiring(w.semaphore("d", 3), 1)
		w.until(cut)
		w.srv.Stall(zktest.Label("a"), zktest.Both)
		a.requireLostAt(lost, zkrecipes.LossDeadline)
		c.requireGrantedAt(expired)
		w.until(expired + timeout)
		d.requireWaiting()
		b.requireHeld()
		b.release()
		d.requireGranted(0)
	})
}

// TestF53_LimitLowered: no waiter is granted until fewer leases are held than the new limit. No holder loses its lease.
func TestF53_LimitLowered(t *testing.T) {
	runScript(t, leases, func(w *world) {
		node := semaphore.WithLimitNode("/app/limit")
		a := w.acquiring(w.semaphore("a", 3, node), 1)
		b := w.acquiring(w.semaphore("b", 3, node), 1)
		c := w.acquiring(w.semaphore("c", 3, node), 1)
		for _, x := range []*attempt{a, b, c} {
			x.requireGranted(0)
		}
		d := w.acquiring(w.semaphore("d", 3, node), 1)
		w.until(2 * time.Second)
		// The answer is lost. The change took effect, as the client finds out.
		rule := w.srv.Intercept(zktest.Match{From: zktest.Label("a"), Op: zktest.OpMulti, Path: "limit$"}, zktest.DropReply())
		require.NoError(w, w.semaphore("a", 3, node).SetLimit(w.Context(), 1))
		require.Equal(w, 1, rule.Hits())
		d.requireWaiting()
		a.requireHeld()
		a.release()
		b.release()
		d.requireWaiting()
		w.until(3 * time.Second)
		c.release()
		d.requireGrantedAt(3 * time.Second)
		e := w.acquiring(w.semaphore("e", 3, node), 1)
		e.requireWaiting()
		w.until(4 * time.Second)
		require.NoError(w, w.semaphore("a", 3, node).SetLimit(w.Context(), 2))
		e.requireGrantedAt(4 * time.Second)
	})
}

// TestF53_DifferentLimits: each client uses its own limit. The client with the smaller limit waits longer.
func TestF53_DifferentLimits(t *testing.T) {
	runScript(t, leases, func(w *world) {
		a := w.acquiring(w.semaphore("a", 3), 1)
		b := w.acquiring(w.semaphore("b", 3), 1)
		a.requireGranted(0)
		b.requireGranted(0)
		c := w.acquiring(w.semaphore("c", 2), 1)
		c.requireWaiting()
		w.until(time.Second)
		a.release()
		c.requireGrantedAt(time.Second)
	})
}

// TestF53_DoorCutOffWhileWaitingInside: a client that holds the door and waits for leases is cut off. The next client
// is granted when that session is over, and is not delayed further by the leases that the first one had created.
func TestF53_DoorCutOffWhileWaitingInside(t *testing.T) {
	runScript(t, leases, func(w *world) {
		a := w.acquiring(w.semaphore("a", 3), 2)
		a.requireGranted(0)
		b := w.acquiring(w.semaphore("b", 3), 2)
		b.requireWaiting()
		c := w.acquiring(w.semaphore("c", 3), 1)
		c.requireWaiting()
		require.Len(w, w.srv.Children(path+"/leases"), 4)
		w.until(cut)
		w.srv.Stall(zktest.Label("b"), zktest.Both)
		gone := expired // as for a holder: a waiter pings every third of the timeout
		w.until(gone - time.Nanosecond)
		c.requireWaiting()
		c.requireGrantedAt(gone)
		a.requireHeld()
		w.srv.Heal(zktest.Label("b"))
		w.until(time.Minute)
		a.release()
		b.requireGrantedAt(time.Minute)
	})
}

// TestF53_DoorDeletedWhileWaitingInside: a client that loses the door removes its leases, so that the next client does
// not wait for leases that were never granted.
func TestF53_DoorDeletedWhileWaitingInside(t *testing.T) {
	runScript(t, leases, func(w *world) {
		a := w.acquiring(w.semaphore("a", 3), 2)
		a.requireGranted(0)
		b := w.acquiring(w.semaphore("b", 3), 2)
		c := w.acquiring(w.semaphore("c", 3), 1)
		c.requireWaiting()
		w.until(time.Second)
		for _, p := range w.srv.Ephemerals(w.srv.SessionOf("b")) {
			if strings.HasPrefix(p, path+"/locks/") {
				require.NoError(w, w.srv.Delete(p))
			}
		}
		c.requireGrantedAt(time.Second)
		b.requireWaiting()
		w.until(2 * time.Second)
		a.release()
		b.requireGrantedAt(2 * time.Second)
	})
}
