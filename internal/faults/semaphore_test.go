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

// leases is the script's recipe, for its parent and its checks; the scripts below use semaphores of their own.
var leases = sharing[0]

func (w *world) semaphore(label string, limit int, opts ...semaphore.Option) *semaphore.Semaphore {
	s, err := semaphore.New(w.client(label), path, limit, opts...)
	require.NoError(w, err)
	return s
}

// acquiring acquires n on a goroutine of its own.
func (w *world) acquiring(s *semaphore.Semaphore, n int) *attempt {
	r := *leases
	r.weight = n
	return w.acquire(fmt.Sprintf("%p", s), &r, func(ctx context.Context) (*zkrecipes.Hold, error) { return s.Acquire(ctx, n) })
}

// TestF53_HolderOfLeasesExpires: its leases come back, each once.
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

// TestF53_LimitLowered: nobody is let in until there are fewer leases than that, and nobody is thrown out.
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
		// The answer is lost; it took effect, and that is found out.
		w.srv.Intercept(zktest.Match{From: zktest.Label("a"), Op: zktest.OpSetData}, zktest.DropReply())
		require.NoError(w, w.semaphore("a", 3, node).SetLimit(w.Context(), 1))
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

// TestF53_DifferentLimits: each goes by its own; the smaller one waits for longer.
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

// TestF53_DoorCutOffWhileWaitingInside: whoever has the door and waits for leases is cut off; the next one is let in as
// soon as its session is over, and not by the leases that it had made.
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
		gone := expired - tick // a waiter sends pings only, so the server has heard of it less lately than of a holder
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

// TestF53_DoorDeletedWhileWaitingInside: whoever loses the door takes its leases back, so that the next one is not kept
// waiting by leases that nobody was granted.
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
