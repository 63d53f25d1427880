package value_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/value"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// adders records what clients have done that write one node, each as often as it can.
type adders struct {
	done     []int
	worst    time.Duration
	requests int
	total    int
}

// contend lets n clients write for a time, each through its own connection.
func contend(
	t *testing.T, srv *zktest.Server, n int, lasts time.Duration,
	write func(ctx context.Context, c *value.Counter) error,
) (a adders) {
	t.Helper()
	counters := make([]*value.Counter, n)
	for i := range counters {
		counters[i] = counter(t, srv, fmt.Sprint("c", i))
		require.NoError(t, write(t.Context(), counters[i]))
	}
	sent := bubble.Requests(srv)
	a.done = make([]int, n)
	var mu sync.Mutex
	var all sync.WaitGroup
	start := time.Now()
	for i, c := range counters {
		all.Go(func() {
			for time.Since(start) < lasts {
				began := time.Now()
				err := write(t.Context(), c)
				mu.Lock()
				a.worst = max(a.worst, time.Since(began))
				if err != nil {
					t.Error(err)
				} else {
					a.done[i]++
					a.total++
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	a.requests = sent.Hits()
	t.Logf("%d clients: %.0f a second, %.1f requests each, worst wait %v, %d to %d for a client",
		n, float64(a.total)/lasts.Seconds(), a.each(), a.worst, slices.Min(a.done), slices.Max(a.done))
	return a
}

func (a adders) each() float64 { return float64(a.requests) / float64(a.total) }

// share returns the additions of the least or most successful client, as a multiple of an equal share.
func (a adders) share(of func([]int) int) float64 {
	return float64(of(a.done)*len(a.done)) / float64(a.total)
}

func addOne(ctx context.Context, c *value.Counter) error {
	_, err := c.Add(ctx, 1)
	return err
}

func updateOne(ctx context.Context, c *value.Counter) error {
	_, _, err := c.Update(ctx, func(n int64) (int64, error) { return n + 1, nil })
	return err
}

// TestContention checks that few attempts are wasted, that no client starves, and that everything counts once.
//
// The worst case is that all round trips take equally long: a client that needs no read would win each race. Luck evens
// out in time, while a client that is starved falls behind forever, so a share is counted over many longest waits.
func TestContention(t *testing.T) {
	for name, tt := range map[string]struct {
		write    func(context.Context, *value.Counter) error
		vary     bool
		requests float64       // per addition, at most
		worst    time.Duration // wait of a caller, at most
	}{
		"Add":                   {addOne, true, 12, 2 * time.Second},
		"Add, equal latency":    {addOne, false, 14, 4 * time.Second},
		"Update":                {updateOne, true, 16, 2 * time.Second},
		"Update, equal latency": {updateOne, false, 16, 2 * time.Second},
	} {
		for n, lasts := range map[int]time.Duration{2: 10 * time.Second, 8: 12 * time.Second, 64: 16 * time.Second} {
			if n == 64 && tt.vary || bubble.Race && (n != 8 || !tt.vary) {
				continue // the luck of 64 clients evens out, and the race detector needs only one case
			}
			t.Run(fmt.Sprintf("%s, %d clients", name, n), func(t *testing.T) {
				inBubble(t, func(t *testing.T, srv *zktest.Server) {
					srv.SetLatency(time.Millisecond)
					if tt.vary {
						stop := varyLatency(srv)
						defer stop()
					}
					a := contend(t, srv, n, lasts, tt.write)
					require.LessOrEqual(t, a.each(), tt.requests)
					require.Less(t, a.worst, tt.worst)
					require.GreaterOrEqual(t, a.share(slices.Min[[]int]), 1.0/4)
					require.LessOrEqual(t, a.share(slices.Max[[]int]), 3.0)
					require.Equal(t, strconv.Itoa(a.total+n), stored(t, srv, path))
				})
			})
		}
	}
}

// varyLatency makes each round trip take between half a millisecond and one and a half.
func varyLatency(srv *zktest.Server) (stop func()) {
	over := make(chan struct{})
	var varying sync.WaitGroup
	varying.Go(func() {
		for {
			srv.SetLatency(time.Millisecond/2 + rand.N(time.Millisecond))
			select {
			case <-over:
				return
			case <-time.After(100 * time.Microsecond):
			}
		}
	})
	return func() {
		close(over)
		varying.Wait()
	}
}

// A client without competition does not pause.
func TestContention_Alone(t *testing.T) {
	for name, write := range map[string]func(context.Context, *value.Counter) error{"Add": addOne, "Update": updateOne} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				srv.SetLatency(time.Millisecond)
				c := counter(t, srv, "a")
				require.NoError(t, addOne(t.Context(), c))
				sent, start := bubble.Requests(srv), time.Now()
				for range 100 {
					require.NoError(t, write(t.Context(), c))
				}
				require.Equal(t, map[string]int{"Add": 100, "Update": 200}[name], sent.Hits())
				require.Equal(t, time.Duration(sent.Hits())*time.Millisecond, time.Since(start))
			})
		})
	}
}

// The call returns at once, and has written nothing.
func TestContention_ContextEndsInAPause(t *testing.T) {
	const latency = 20 * time.Millisecond
	for name, tt := range map[string]struct {
		write   func(context.Context, *value.Counter) error
		refused time.Duration // when the refusal arrives
	}{"Add": {addOne, latency}, "Update": {updateOne, 2 * latency}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				c := counter(t, srv, "a")
				require.NoError(t, addOne(t.Context(), c))
				srv.SetLatency(latency)
				refused := srv.Intercept(adds, zktest.Fail(zktest.CodeBadVersion))
				start := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), tt.refused+time.Microsecond)
				defer cancel()
				err := tt.write(ctx, c)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.NotErrorIs(t, err, zkrecipes.ErrUnknownOutcome)
				require.Equal(t, 1, refused.Hits())
				require.Equal(t, tt.refused+time.Microsecond, time.Since(start))
				require.Equal(t, "1", stored(t, srv, path))
			})
		})
	}
}
