package znode_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/internal/znode"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Only a hold needs its proof fresh: of many sessions that wait for a lock, only the holder's loads the leader.
func TestAcquire_Waiters_SendNoSyncs(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		h := acquire(t.Context(), queue(t, srv, "holder")).Granted(t, time.Hour)
		for i := range 20 {
			acquire(t.Context(), queue(t, srv, fmt.Sprint(i))).Waits(t)
		}
		syncs := srv.Intercept(zktest.Match{Op: zktest.OpSync, Times: -1, Where: func(r zktest.Request) bool {
			return r.Client != "holder"
		}}, zktest.Proceed())
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		require.Zero(t, syncs.Hits())
		require.NoError(t, h.Err())
		require.NoError(t, h.Release(t.Context()))
	})
}

// After a wait of hours, the proof of a waiter has long lapsed. Its sync and its reads are sent together, the sync
// first. The test makes several attempts: if the heartbeat sent that sync, it would be first by chance. An armed waiter
// reads nothing, and waits only for the sync.
func TestAcquire_LongWait_IsWokenAsFastAsAShortOne(t *testing.T) {
	const roundTrip = 10 * time.Millisecond
	for _, c := range []struct{ armed, reconnected bool }{{false, false}, {false, true}, {true, false}, {true, true}} {
		var took []time.Duration
		for _, wait := range append([]time.Duration{time.Second, time.Hour},
			slices.Repeat([]time.Duration{10 * time.Minute}, 7)...) {
			inBubbleWith(t, c.armed, func(t *testing.T, srv *zktest.Server) {
				h := acquire(t.Context(), queue(t, srv, "a")).Granted(t, time.Hour)
				b := acquire(t.Context(), queue(t, srv, "b"))
				b.Waits(t)
				if c.reconnected && wait > time.Minute {
					time.Sleep(time.Minute)
					srv.Cut(zktest.Label("b"))
				}
				time.Sleep(wait)
				srv.Intercept(zktest.Match{From: zktest.Label("b"), Times: -1}, zktest.HoldReply(roundTrip))
				require.NoError(t, h.Release(t.Context()))
				start := time.Now()
				held := b.Granted(t, time.Hour)
				took = append(took, time.Since(start))
				require.Greater(t, time.Until(held.ValidUntil()), bubble.Timeout/4)
				require.NoError(t, held.Release(t.Context()))
			})
		}
		if c.armed {
			require.Zero(t, took[0])
		} else {
			require.Equal(t, roundTrip, took[0])
		}
		for _, long := range took[1:] {
			require.Equal(t, roundTrip, long, "%+v", c)
		}
	}
}

// The waiters of a session that reconnects all read again. They share the one proof that they need.
func TestAcquire_WaitersOfOneSession_AskForOneProof(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		h := acquire(t.Context(), queue(t, srv, "a")).Granted(t, time.Hour)
		q := queue(t, srv, "b")
		for range 100 {
			acquire(t.Context(), q).Waits(t)
		}
		time.Sleep(10 * time.Minute)
		proofs := srv.Intercept(zktest.Match{From: zktest.Label("b"), Times: -1, Where: func(r zktest.Request) bool {
			return r.Op == zktest.OpSync || r.Op == zktest.OpMulti
		}}, zktest.HoldReply(10*time.Millisecond))
		srv.Cut(zktest.Label("b"))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.LessOrEqual(t, proofs.Hits(), 3)
		release(t, h)
	})
}

// TestAcquire_Over_SendsNoSyncs: a session is kept proven only as long as it has contenders or holds.
func TestAcquire_Over_SendsNoSyncs(t *testing.T) {
	for name, attempt := range map[string]func(t *testing.T, srv *zktest.Server, q *znode.Queue){
		"released": func(t *testing.T, srv *zktest.Server, q *znode.Queue) { section(t, q) },
		"refused": func(t *testing.T, srv *zktest.Server, q *znode.Queue) {
			srv.Intercept(zktest.Match{Op: zktest.OpCreate, Path: "lock-"}, zktest.Fail(zktest.CodeNoAuth))
			require.ErrorIs(t, acquire(t.Context(), q).Failed(t, time.Minute), zk.ErrNoAuth)
		},
		"given up": func(t *testing.T, srv *zktest.Server, q *znode.Queue) {
			section(t, q)
			join(t, srv)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			require.ErrorIs(t, acquire(ctx, q).Failed(t, time.Hour), context.DeadlineExceeded)
		},
		"beaten to it": func(t *testing.T, srv *zktest.Server, q *znode.Queue) {
			section(t, q)
			srv.Intercept(zktest.Match{Op: zktest.OpCreate, Path: "lock-"}, zktest.Before(func(zktest.Request) { join(t, srv) }))
			_, err := q.Try(t.Context(), entry)
			require.ErrorIs(t, err, zkrecipes.ErrLocked)
		},
		"lost": func(t *testing.T, srv *zktest.Server, q *znode.Queue) {
			h := acquire(t.Context(), q).Granted(t, time.Hour)
			require.NoError(t, srv.Delete(h.Path()))
			<-h.Done()
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				attempt(t, srv, queue(t, srv, "a"))
				require.Zero(t, bubble.Syncs(srv, zktest.Everyone))
			})
		})
	}
}
