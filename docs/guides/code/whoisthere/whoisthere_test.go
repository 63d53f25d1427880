package whoisthere

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// shares has the newest share of each worker.
type shares struct {
	mu   sync.Mutex
	last map[string][]string
}

// start runs a worker with its own client. stop stops the worker.
func (s *shares) start(t *testing.T, srv *zktest.Server, id string, parts []string) (stop func()) {
	client, err := conn.Dial(t.Context(), srv.Addr(), conn.WithDialer(srv.DialAs(id)),
		conn.WithSessionTimeout(10*time.Second))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var working sync.WaitGroup
	working.Go(func() {
		_ = Work(ctx, client, id, "address of "+id, parts, func(share []string) { // ends with ctx
			s.mu.Lock()
			defer s.mu.Unlock()
			s.last[id] = share
		})
	})
	stop = func() { cancel(); working.Wait(); _ = client.Close() } // always nil
	t.Cleanup(stop)
	return stop
}

// of returns the parts in the shares of the workers, with duplicates.
func (s *shares) of(ids ...string) (parts []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		parts = append(parts, s.last[id]...)
	}
	slices.Sort(parts)
	return parts
}

func TestWork_EachPartHasOneWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory())
		var parts []string
		for i := range 30 {
			parts = append(parts, fmt.Sprintf("part-%02d", i))
		}
		s := &shares{last: map[string][]string{}}
		stop := map[string]func(){}
		for _, id := range []string{"a", "b", "c"} {
			stop[id] = s.start(t, srv, id, parts)
		}
		time.Sleep(2 * time.Second)
		require.Equal(t, parts, s.of("a", "b", "c"))
		before := s.of("a")

		srv.Stall(zktest.Label("b"), zktest.Both) // like a crash: its session expires
		time.Sleep(20 * time.Second)
		require.Equal(t, parts, s.of("a", "c"), "the others have its share")
		require.Subset(t, s.of("a"), before, "no other part moves")

		srv.Heal(zktest.Label("b"))
		time.Sleep(20 * time.Second)
		require.Equal(t, parts, s.of("a", "b", "c"), "b joined again")

		stop["c"]()
		time.Sleep(2 * time.Second) // less than the session timeout
		require.Equal(t, parts, s.of("a", "b"))
	})
}
