package worker

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/fence"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
	"github.com/zkrecipes/zkrecipes/zktest"
	"github.com/zkrecipes/zkrecipes/zktest/fakehold"
)

// shipped records when each worker last shipped an order.
type shipped struct {
	mu   sync.Mutex
	last map[string]time.Time
}

func (s *shipped) since(id string) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.last[id])
}

// start runs a worker with its own client, and stops it at the end of the test.
func (s *shipped) start(t *testing.T, srv *zktest.Server, id string) {
	client, err := conn.Dial(t.Context(), srv.Addr(), conn.WithDialer(srv.DialAs(id)),
		conn.WithSessionTimeout(10*time.Second))
	require.NoError(t, err)
	lock, err := mutex.New(client, "/orders")
	require.NoError(t, err)
	w := &Worker{Lock: lock, Ship: func(context.Context, zkrecipes.Token) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.last[id] = time.Now()
		return nil
	}}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = w.Run(ctx) }) // ends with ctx
	t.Cleanup(func() {
		stop()
		running.Wait()
		_ = client.Close() // always nil
	})
}

func TestWorker_Partition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory())
		s := &shipped{last: map[string]time.Time{}}
		s.start(t, srv, "a")
		synctest.Wait() // a holds the lock
		s.start(t, srv, "b")

		srv.Stall(zktest.Label("a"), zktest.Both) // no packet reaches a, none leaves it
		time.Sleep(30 * time.Second)
		require.Greater(t, s.since("a"), 15*time.Second, "a stopped by itself")
		require.LessOrEqual(t, s.since("b"), time.Second, "b took over")

		srv.Heal(zktest.Label("a"))
		time.Sleep(30 * time.Second)
		require.LessOrEqual(t, s.since("b"), time.Second, "a queues behind b")
	})
}

func TestWorker_Expiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory())
		s := &shipped{last: map[string]time.Time{}}
		s.start(t, srv, "a")
		time.Sleep(5 * time.Second)
		srv.Expire(srv.SessionOf("a")) // the server ends the session
		time.Sleep(5 * time.Second)
		require.LessOrEqual(t, s.since("a"), time.Second, "a locked again in its next session")
	})
}

// TestStaleHolder simulates a frozen process, which acts on a hold that it has lost without checking it.
func TestStaleHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory())
		gate := fence.New(fence.NewMemory())
		lock := func(id string) *zkrecipes.Hold {
			client, err := conn.Dial(t.Context(), srv.Addr(), conn.WithDialer(srv.DialAs(id)))
			require.NoError(t, err)
			t.Cleanup(func() { _ = client.Close() })
			m, err := mutex.New(client, "/orders")
			require.NoError(t, err)
			h, err := m.Lock(t.Context())
			require.NoError(t, err)
			return h
		}
		old := lock("a")
		srv.Stall(zktest.Label("a"), zktest.Both)
		next := lock("b") // when the session of a expires
		require.NoError(t, gate.Admit(t.Context(), "orders", next.Token()))
		require.ErrorIs(t, gate.Admit(t.Context(), "orders", old.Token()), fence.ErrStale)
		require.ErrorIs(t, old.Err(), zkrecipes.ErrLost)
	})
}

func TestHold_FakeHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := fakehold.New(t.Context(), 42)
		var tokens []zkrecipes.Token
		w := &Worker{Ship: func(_ context.Context, token zkrecipes.Token) error {
			tokens = append(tokens, token)
			if len(tokens) == 3 {
				h.Lose(zkrecipes.LossExpired)
			}
			return nil
		}}
		require.ErrorIs(t, w.Hold(h.Context(), h.Hold), zkrecipes.ErrLost)
		require.Equal(t, []zkrecipes.Token{42, 42, 42}, tokens)
	})
}

// No timer has ended the hold yet, as in a process that was frozen.
func TestHold_WokenAfterTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := fakehold.New(t.Context(), 42)
		h.SetValidUntil(time.Now().Add(time.Second))
		w := &Worker{Ship: func(context.Context, zkrecipes.Token) error {
			t.Error("shipped")
			return nil
		}}
		require.ErrorIs(t, w.Hold(h.Context(), h.Hold), zkrecipes.ErrLost)
	})
}
