package faults_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/recipes/rwlock"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func (w *world) rwlock(label string) *rwlock.RWLock {
	l, err := rwlock.New(w.client(label), path)
	require.NoError(w, err)
	return l
}

// TestF52_WriterBetweenReadersDies: the readers behind it join the readers ahead of it, and wait for nobody else.
func TestF52_WriterBetweenReadersDies(t *testing.T) {
	runScript(t, named("read"), func(w *world) {
		a := w.take("a")
		b := w.rivals("b")
		c := w.take("c")
		d := w.take("d")
		c.requireWaiting()
		w.until(cut)
		w.srv.Stall(zktest.Label("b"), zktest.Both)
		c.requireGrantedAt(expired)
		d.requireGrantedAt(expired)
		a.requireHeld()
		b.requireWaiting()
	})
}

// TestF52_Upgrade: an upgrade is refused at once, connected or not.
func TestF52_Upgrade(t *testing.T) {
	runScript(t, named("read"), func(w *world) {
		l := w.rwlock("a")
		h, err := l.RLock(w.Context())
		require.NoError(w, err)
		w.until(cut)
		w.isolate("a")
		_, err = l.Lock(h.Context())
		require.ErrorIs(w, err, zkrecipes.ErrUpgrade)
		require.Equal(w, cut, w.now())
		require.NoError(w, h.Err())
		w.srv.Accept(zktest.Label("a"))
		require.NoError(w, h.Release(w.Context()))
	})
}

// TestF52_DowngradeLost: the read lock survives the release of the write lock, even if the request or the reply of its
// create is lost. No writer is granted in between.
func TestF52_DowngradeLost(t *testing.T) {
	for name, action := range lose {
		t.Run(name, func(t *testing.T) {
			runScript(t, named("read"), func(w *world) {
				l := w.rwlock("a")
				write, err := l.Lock(w.Context())
				require.NoError(w, err)
				b := w.rivals("b")
				c := w.take("c")
				w.until(2 * time.Second)
				w.srv.Intercept(zktest.Match{From: zktest.Label("a"), Op: zktest.OpCreate, Path: "__READ__"}, action)
				read, err := l.RLock(write.Context())
				require.NoError(w, err)
				require.LessOrEqual(w, w.now(), 2*time.Second+blink)
				require.NoError(w, write.Release(w.Context()))
				b.requireWaiting()
				c.requireWaiting()
				require.NoError(w, read.Err())
				w.until(3 * time.Second)
				require.NoError(w, read.Release(w.Context()))
				b.requireGrantedAt(3 * time.Second)
				c.requireWaiting()
			})
		})
	}
}

// TestF52_DowngradedHolderCutOff: both locks are lost at the same instant.
func TestF52_DowngradedHolderCutOff(t *testing.T) {
	runScript(t, named("read"), func(w *world) {
		l := w.rwlock("a")
		write, err := l.Lock(w.Context())
		require.NoError(w, err)
		read, err := l.RLock(write.Context())
		require.NoError(w, err)
		b := w.rivals("b")
		w.until(cut)
		w.srv.Stall(zktest.Label("a"), zktest.Both)
		<-read.Done()
		<-write.Done()
		require.Equal(w, lost, w.now())
		b.requireGrantedAt(expired)
	})
}
