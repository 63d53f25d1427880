package faults_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/zktest"
)

const (
	noAuth         zktest.Code = -102
	quotaExceeded  zktest.Code = -125
	throttled      zktest.Code = -127
	requestTimeout zktest.Code = -122
	marshalling    zktest.Code = -5
)

// TestF33F35_CreateRefused: the server refuses every create. The client sends it once, the error names the path, and no
// node is left behind.
func TestF33F35_CreateRefused(t *testing.T) {
	for name, refusal := range map[string]struct {
		code zktest.Code
		is   error
	}{
		"not allowed": {noAuth, zk.ErrNoAuth},
		"quota":       {quotaExceeded, zkrecipes.CodeQuotaExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(w *world) {
				w.take("a").release()
				m := w.creates()
				m.Times = -1
				rule := w.srv.Intercept(m, zktest.Fail(refusal.code))
				err := w.take("a").requireFailed()
				require.ErrorIs(w, err, refusal.is)
				require.ErrorContains(w, err, w.parent)
				require.Equal(w, 1, rule.Hits())
				w.requireContenders(0)
				rule.Remove()
				w.take("a").requireGranted(0)
			})
		})
	}
}

// TestF33_ListRefused: the server creates the contender and refuses the list. The contender is removed.
func TestF33_ListRefused(t *testing.T) {
	each(t, func(w *world) {
		w.take("a").release()
		w.srv.Intercept(w.lists(), zktest.Fail(noAuth))
		err := w.take("a").requireFailed()
		require.ErrorIs(w, err, zk.ErrNoAuth)
		require.ErrorContains(w, err, w.parent)
		w.requireContenders(0)
	})
}

// TestF33_ListRefusedWhileWaiting: an operator changes the access list while a client that is about to read the list
// waits.
func TestF33_ListRefusedWhileWaiting(t *testing.T) {
	each(t, func(w *world) {
		first, b := w.rivals("b"), w.rivals("b")
		a := w.take("a")
		w.until(time.Second)
		first.release()
		b.requireGranted(0)
		w.srv.Intercept(w.lists(), zktest.Fail(noAuth))
		b.release()
		require.ErrorIs(w, a.requireFailed(), zk.ErrNoAuth)
		w.requireContenders(0)
	})
}

// TestF33_DeleteRefused: the hold is over, the caller learns why its contender is still there, and removal is retried
// until it is permitted again.
func TestF33_DeleteRefused(t *testing.T) {
	each(t, func(w *world) {
		a := w.take("a")
		b := w.rivals("b")
		w.until(time.Second)
		m := w.deletes()
		m.Times = -1
		rule := w.srv.Intercept(m, zktest.Fail(noAuth))
		for range 2 {
			err := a.hold.Release(w.Context())
			require.ErrorIs(w, err, zk.ErrNoAuth)
			require.ErrorContains(w, err, w.parent)
		}
		require.Equal(w, time.Second, w.now())
		require.ErrorIs(w, a.hold.Err(), zkrecipes.ErrReleased)
		w.until(31 * time.Second)
		b.requireWaiting()
		require.LessOrEqual(w, rule.Hits(), 60, "with back-off")
		rule.Remove()
		b.requireGranted(10 * time.Second)
		w.until(time.Minute)
		require.NoError(w, a.hold.Release(w.Context()))
	})
}

// TestF33_OnlyCreateAllowed: an acquisition fails at once with the refusal, and its contender is removed once that is
// permitted.
func TestF33_OnlyCreateAllowed(t *testing.T) {
	each(t, func(w *world) {
		w.take("a").release()
		var rules []*zktest.Rule
		for _, m := range []zktest.Match{w.lists(), w.deletes(), {Op: zktest.OpGetData}} {
			m.Times = -1
			rules = append(rules, w.srv.Intercept(m, zktest.Fail(noAuth)))
		}
		began := w.now()
		err := w.take("a").requireFailed()
		require.Equal(w, began, w.now())
		require.ErrorIs(w, err, zk.ErrNoAuth)
		require.ErrorContains(w, err, w.parent)
		for _, rule := range rules {
			rule.Remove()
		}
		w.until(10 * time.Second)
		w.requireContenders(0)
	})
}

// TestF36_PayloadTooLarge: the client rejects the request before it sends anything.
func TestF36_PayloadTooLarge(t *testing.T) {
	each(t, func(w *world) {
		h, err := w.open(w.client("a"), bytes.Repeat([]byte{'x'}, 2<<20))
		require.NoError(w, err)
		if w.parent == path {
			w.srv.Intercept(zktest.Match{Op: zktest.OpCreate, Times: -1}, zktest.Forbid())
		}
		_, err = h.take(w.Context())
		require.ErrorIs(w, err, zkrecipes.ErrTooLarge)
		require.Zero(w, w.now())
		w.requireContenders(0)
	})
}

// TestF40_TransientAnswers: after an answer that leaves the outcome open, the client searches for the node. After an
// answer that means "not executed", it retries.
func TestF40_TransientAnswers(t *testing.T) {
	for name, code := range map[string]zktest.Code{"throttled": throttled, "timed out": requestTimeout} {
		t.Run(name, func(t *testing.T) {
			each(t, func(w *world) {
				w.take("a").release()
				for _, m := range []zktest.Match{w.creates(), w.lists(), w.deletes()} {
					m.Times = 3
					w.srv.Intercept(m, zktest.Fail(code))
				}
				a := w.take("a")
				a.requireGranted(time.Second)
				w.requireContenders(1)
				require.NoError(w, a.hold.Release(w.Context()))
				require.LessOrEqual(w, w.now(), 2*time.Second)
				w.requireContenders(0)
			})
		})
	}
}

// TestF40_MarshallingError: the server fails before or after it creates the contender. The caller gets an error, and no
// node is left behind.
func TestF40_MarshallingError(t *testing.T) {
	for name, times := range map[string]int{"once": 1, "always": -1} {
		t.Run(name, func(t *testing.T) {
			each(t, func(w *world) {
				w.take("a").release()
				m := w.creates()
				m.Times = times
				w.srv.Intercept(m, zktest.Fail(marshalling))
				require.ErrorIs(w, w.take("a").requireFailed(), zkrecipes.Code(marshalling))
				w.requireContenders(0)
			})
		})
	}
}
