package mutex_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// handOvers are the ways in which a lock is handed over, with the number of clients that a release may wake, and of
// requests that a contended section may take.
var handOvers = []struct {
	name     string
	opts     []mutex.Option
	wakes    int
	requests float64
}{
	{"default", nil, 1, 6.1},
	{"eager", []mutex.Option{mutex.WithHandOver(zkrecipes.HandOverEager)}, 2, 8.2},
	{"auto", []mutex.Option{mutex.WithHandOver(zkrecipes.HandOverAuto)}, 2, 8.2},
}

// count counts the requests that arrive while do runs, and until all goroutines rest, by the result of key.
func count[K comparable](srv *zktest.Server, key func(zktest.Request) K, do func()) map[K]int {
	var mu sync.Mutex
	counts := map[K]int{}
	rule := srv.Intercept(zktest.Match{Times: -1, Where: func(q zktest.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		counts[key(q)]++
		return true
	}}, zktest.Proceed())
	defer rule.Remove()
	do()
	synctest.Wait()
	return counts
}

// A release wakes the next waiter and no other: the others receive no event, and send nothing.
func TestRelease_WakesTheNextAlone(t *testing.T) {
	for _, way := range handOvers {
		t.Run(way.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := zktest.Run(t, zktest.InMemory())
				var queue []*bubble.Attempt
				for i := range 8 {
					m := newMutex(t, bubble.Dial(t, srv, fmt.Sprint("c", i)), way.opts...)
					queue = append(queue, bubble.Start(t.Context(), m.Lock))
					queue[i].Over() // it is in the queue, ahead of the next
				}
				for i := range queue {
					holder := queue[i].Granted(t, 0)
					time.Sleep(time.Minute) // all have completed their reads
					synctest.Wait()
					me := srv.SessionOf(fmt.Sprint("c", i))
					told := slices.DeleteFunc(srv.Watchers(holder.Path()), func(id int64) bool { return id == me })
					assert.LessOrEqual(t, len(told), way.wakes, "that watch the holder")

					asks := count(srv, func(q zktest.Request) string { return q.Client }, func() {
						require.NoError(t, holder.Release(t.Context()))
					})
					delete(asks, fmt.Sprint("c", i))
					assert.LessOrEqual(t, len(asks), way.wakes, "that ask something: %v", asks)
				}
			})
		})
	}
}

// The test logs what a contended section costs the server, by kind of request, and how many sections fit into a round
// trip. It bounds the sum of the requests.
func TestLock_Contended_RequestsOfASection(t *testing.T) {
	span := time.Duration(bubble.Rounds(2000)) * time.Millisecond
	for _, way := range handOvers {
		for _, crowd := range []struct{ clients, callers int }{{2, 1}, {4, 1}, {8, 1}, {16, 1}, {1, 16}} {
			name := fmt.Sprintf("%s, %d clients × %d callers", way.name, crowd.clients, crowd.callers)
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					srv := zktest.Run(t, zktest.InMemory(), zktest.WithLatency(time.Millisecond))
					over := make(chan struct{})
					var sections atomic.Int64
					for i := range crowd.clients {
						m := newMutex(t, bubble.Dial(t, srv, fmt.Sprint("c", i)), way.opts...)
						for range crowd.callers {
							go func() {
								for t.Context().Err() == nil {
									h, err := m.Lock(t.Context())
									if !assert.NoError(t, err) {
										return
									}
									sections.Add(1)
									_ = h.Release(t.Context())
									select {
									case <-over:
										return
									default:
									}
								}
							}()
						}
					}
					time.Sleep(span / 2) // the shortcuts are in use
					synctest.Wait()
					before := sections.Load()
					kinds := count(srv, func(q zktest.Request) zktest.Op { return q.Op }, func() { time.Sleep(span) })
					n := float64(sections.Load() - before)
					close(over)
					time.Sleep(time.Second)

					sum := 0
					var list []string
					for _, op := range slices.Sorted(maps.Keys(kinds)) {
						sum += kinds[op]
						list = append(list, fmt.Sprintf("%.2f %v", float64(kinds[op])/n, op))
					}
					t.Logf("%s: %.2f requests: %s; %.2f sections in a round trip",
						name, float64(sum)/n, strings.Join(list, ", "), n/float64(span/time.Millisecond))
					require.LessOrEqual(t, float64(sum)/n, way.requests)
				})
			})
		}
	}
}

// Waiters are eager while sections are short compared with a round trip, lazy while they are not, and find out again
// each time that the sections change.
func TestHandOver_Auto(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory(), zktest.WithLatency(time.Millisecond))
		var length, sections atomic.Int64
		ctx, stop := context.WithCancel(t.Context())
		var contending sync.WaitGroup
		for i := range 4 {
			m := newMutex(t, bubble.Dial(t, srv, fmt.Sprint("c", i)), mutex.WithHandOver(zkrecipes.HandOverAuto))
			contending.Go(func() {
				for ctx.Err() == nil {
					h, err := m.Lock(ctx)
					if err != nil {
						return // stopped
					}
					time.Sleep(time.Duration(length.Load()))
					sections.Add(1)
					_ = h.Release(t.Context())
				}
			})
		}
		// cost lets all contend for sections of one length, and returns the reads of a node and the time that each takes.
		cost := func(section time.Duration) (reads float64, took time.Duration) {
			length.Store(int64(section))
			time.Sleep(40*section + time.Second)
			before, start := sections.Load(), time.Now()
			kinds := count(srv, func(q zktest.Request) zktest.Op { return q.Op },
				func() { time.Sleep(100*section + time.Second) })
			n := sections.Load() - before
			t.Logf("sections of %v: %v in %d", section, kinds, n)
			return float64(kinds[zktest.OpGetData]) / float64(n), time.Since(start) / time.Duration(n)
		}
		for range 2 {
			reads, took := cost(0)
			assert.InDelta(t, 4, reads, 0.1)
			assert.Less(t, took, 1100*time.Microsecond)
			reads, took = cost(12 * time.Millisecond)
			assert.InDelta(t, 2, reads, 0.1)
			assert.Less(t, took, 15*time.Millisecond)
		}
		stop()
		contending.Wait()
	})
}

// Values that are none are refused.
func TestNew_HandOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := bubble.Dial(t, zktest.Run(t, zktest.InMemory()), "c")
		for _, when := range []zkrecipes.HandOver{-1, 3} {
			_, err := mutex.New(c, "/app/lock", mutex.WithHandOver(when))
			require.ErrorContains(t, err, "want HandOverLazy, HandOverEager or HandOverAuto")
		}
	})
}
