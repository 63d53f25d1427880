package barrier_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/barrier"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func newLatch(t *testing.T, c *conn.Client, n int) *barrier.Latch {
	t.Helper()
	l, err := barrier.NewLatch(c, path, n)
	require.NoError(t, err)
	return l
}

// latch returns the latch as seen by a separate client.
func latch(t *testing.T, srv *zktest.Server, label string, n int) *barrier.Latch {
	t.Helper()
	return newLatch(t, bubble.Dial(t, srv, label), n)
}

func countDown(t *testing.T, l *barrier.Latch, name string) int {
	t.Helper()
	left, err := l.CountDown(t.Context(), name)
	require.NoError(t, err)
	return left
}

// Waiters that came before there was any node wake once, on the last count. A later caller does not wait.
func TestLatch(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		l := latch(t, srv, "a", 3)
		waiter := latch(t, srv, "w", 3)
		over := begin(func() error { return waiter.Wait(t.Context()) })
		requireWaits(t, over)
		left, err := waiter.Count(t.Context())
		require.NoError(t, err)
		require.Equal(t, 3, left)

		asked := srv.Intercept(zktest.Match{From: zktest.Label("w"), Times: -1}, zktest.Proceed())
		require.Equal(t, 2, countDown(t, l, ""))
		require.Equal(t, 1, countDown(t, l, ""))
		requireWaits(t, over)
		require.Zero(t, asked.Hits(), "counts wake nobody")
		require.Equal(t, 0, countDown(t, l, ""))
		requireDone(t, over)
		require.Equal(t, 2, asked.Hits(), "the waiter looks once, and takes its watch away")
		require.NoError(t, l.Wait(t.Context()))
		require.Equal(t, 0, countDown(t, l, ""), "once open, always open")
		left, err = l.Count(t.Context())
		require.NoError(t, err)
		require.Zero(t, left)
		require.Len(t, srv.Children(path), 3+1)
		total, _ := srv.Watches()
		require.Zero(t, total)
	})
}

// Everything that was counted remains, and a name counts once.
func TestLatch_ProgramsAreRestarted(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		for restart := range 3 {
			for i := range 2 {
				c := bubble.Dial(t, srv, fmt.Sprint("c", restart, i))
				left, err := newLatch(t, c, 3).CountDown(t.Context(), fmt.Sprint("worker-", i))
				require.NoError(t, err)
				require.Equal(t, 3-1-max(i, min(restart, 1)), left)
				require.NoError(t, c.Close())
			}
		}
		require.Equal(t, "1/3", data(t, srv))
		l := latch(t, srv, "a", 3)
		require.Equal(t, 0, countDown(t, l, "worker-3"))
		require.Equal(t, 0, countDown(t, l, "worker-1"))
		require.NoError(t, l.Wait(t.Context()))
	})
}

func data(t *testing.T, srv *zktest.Server) string {
	t.Helper()
	n, ok := srv.Node(path)
	require.True(t, ok)
	return string(n.Data)
}

// The request or its reply is lost for the first count, which creates the node, for another one, and for the last. Each
// call counts once, even if its session ends in between.
func TestLatch_RequestOrReplyLost(t *testing.T) {
	for which := range 3 {
		for name, fault := range map[string]zktest.Action{
			"request": zktest.DropRequest(), "reply": zktest.DropReply(),
		} {
			for _, expires := range []bool{false, true} {
				t.Run(fmt.Sprint(name, which, expires), func(t *testing.T) {
					inBubble(t, func(t *testing.T, srv *zktest.Server) {
						l := latch(t, srv, "a", 3)
						waiter := latch(t, srv, "w", 3)
						over := begin(func() error { return waiter.Wait(t.Context()) })
						for i := range 3 {
							requireWaits(t, over)
							if i == which {
								lost := srv.Intercept(zktest.Match{From: zktest.Label("a"), Op: zktest.OpMulti}, fault)
								if expires {
									srv.Intercept(zktest.Match{From: zktest.Label("a"), Op: zktest.OpConnect},
										zktest.Before(func(r zktest.Request) {
											srv.Expire(r.Session)
										}))
								}
								defer func() { require.Equal(t, 1, lost.Hits()) }()
							}
							require.Equal(t, 2-i, countDown(t, l, ""))
							require.Equal(t, fmt.Sprintf("%d/3", 2-i), data(t, srv))
						}
						requireDone(t, over)
					})
				})
			}
		}
	}
}

// Eight clients each count a given number of times, while connections are cut, sessions end and replies are lost. The
// latch opens with the last count, and no earlier.
func TestLatch_UnderFaults(t *testing.T) {
	for seed := range uint64(10) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				const clients, each = 8, 5
				random := rand.New(rand.NewPCG(seed, 4))
				srv.SetLatency(5 * time.Millisecond)
				waiter := latch(t, srv, "w", clients*each)
				over := begin(func() error { return waiter.Wait(t.Context()) })
				var counting sync.WaitGroup
				labels := []string{"w"}
				for i := range clients {
					labels = append(labels, fmt.Sprint("c", i))
					l := latch(t, srv, labels[i+1], clients*each)
					counting.Go(func() {
						for n := range each {
							name := ""
							if i%2 == 0 {
								name = fmt.Sprint(i, "-", n)
							}
							_, err := l.CountDown(t.Context(), name)
							assert.NoError(t, err)
							time.Sleep(time.Duration(100*i) * time.Millisecond)
						}
					})
				}
				for range 30 {
					who := zktest.Label(labels[random.IntN(len(labels))])
					switch random.IntN(5) {
					case 0:
						srv.Cut(who)
					case 1:
						srv.Intercept(zktest.Match{From: who, Skip: random.IntN(3)}, zktest.DropReply())
					case 2:
						srv.Intercept(zktest.Match{From: who, Op: zktest.OpMulti}, zktest.DropReply())
					case 3:
						srv.Intercept(zktest.Match{From: who, Op: zktest.OpMulti}, zktest.DropRequest())
					case 4:
						srv.Expire(srv.SessionOf(labels[random.IntN(len(labels))]))
					}
					time.Sleep(time.Duration(random.IntN(200)) * time.Millisecond)
				}
				counting.Wait()
				time.Sleep(3 * bubble.Timeout)
				requireDone(t, over)
				require.Len(t, srv.Children(path), clients*each+1)
				require.Equal(t, fmt.Sprintf("0/%d", clients*each), data(t, srv))
			})
		})
	}
}

func TestLatch_ContextEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		l := latch(t, srv, "a", 2)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, l.Wait(ctx), context.DeadlineExceeded)
		synctest.Wait()
		total, _ := srv.Watches()
		require.Zero(t, total, "a waiter that gives up leaves no watch")

		require.Equal(t, 1, countDown(t, l, ""))
		srv.Intercept(zktest.Match{Op: zktest.OpMulti}, zktest.HoldReply(2*time.Second))
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := l.CountDown(ctx, "mine")
		require.ErrorIs(t, err, zkrecipes.ErrUnknownOutcome)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 0, countDown(t, l, "mine"), "and again, in its name")
		require.Len(t, srv.Children(path), 2+1)
	})
}

// The latch was deleted, and the path serves the next one. A server that lags behind still has the old nodes, which
// show that the latch is open, that the name has counted, or that the number is another one.
func TestLatch_ServerLags(t *testing.T) {
	for name, counted := range map[string]string{"open": "", "counted": "shard-7"} {
		for _, n := range []int{1, 2} {
			t.Run(fmt.Sprint(name, n), func(t *testing.T) {
				lagging(t, n, func(t *testing.T, _, now *barrier.Latch, catchUp func()) {
					var left int
					over := begin(func() (err error) {
						left, err = now.CountDown(t.Context(), counted)
						return err
					})
					requireWaits(t, over)
					catchUp()
					requireDone(t, over)
					require.Equal(t, n-1, left)
				})
			})
		}
	}
	t.Run("wait", func(t *testing.T) {
		lagging(t, 1, func(t *testing.T, old, now *barrier.Latch, catchUp func()) {
			over := begin(func() error { return now.Wait(t.Context()) })
			requireWaits(t, over)
			catchUp()
			requireWaits(t, over)
			require.Equal(t, 0, countDown(t, old, ""))
			requireDone(t, over)
		})
	})
}

// lagging calls f with a latch for one count that is open and was then deleted, and with the next one, for n counts, as
// seen by a client whose server has not caught up.
func lagging(t *testing.T, n int, f func(t *testing.T, old, now *barrier.Latch, catchUp func())) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory(), zktest.WithFronts(3))
		front := srv.Fronts()[2]
		a := bubble.Dial(t, srv, "a")
		b, err := conn.Dial(t.Context(), front.Addr(), conn.WithDialer(front.DialAs("b")),
			conn.WithSessionTimeout(bubble.Timeout), bubble.Silent)
		require.NoError(t, err)
		defer func() { _ = b.Close() }() // never fails
		old := newLatch(t, a, 1)
		require.Equal(t, 0, countDown(t, old, "shard-7"))
		synctest.Wait()
		front.Lag()
		require.NoError(t, a.DeleteAll(t.Context(), path))
		f(t, old, newLatch(t, b, n), front.CatchUp)
	})
}

// A leader that has been replaced still answers reads and syncs, but may not know that the latch was deleted.
func TestLatch_AsksAQuorum(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		l := latch(t, srv, "a", 1)
		require.Equal(t, 0, countDown(t, l, ""))
		srv.Intercept(zktest.Match{Op: zktest.OpMulti, Times: -1}, zktest.DelayUntil(t.Context().Done()))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := l.CountDown(ctx, "")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, zkrecipes.ErrUnknownOutcome)
	})
}

func TestLatch_Refuses(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := bubble.Dial(t, srv, "a")
		for _, bad := range []struct {
			client *conn.Client
			path   string
			n      int
			want   string
		}{{nil, path, 1, "client is nil"}, {c, "app", 1, "relative"}, {c, "/", 1, "root"}, {c, path, 0, "n is 0"}} {
			_, err := barrier.NewLatch(bad.client, bad.path, bad.n)
			require.ErrorContains(t, err, bad.want)
		}
		l := newLatch(t, c, 2)
		_, err := l.CountDown(t.Context(), "a/b")
		require.ErrorContains(t, err, "without a slash")
		require.False(t, srv.Exists(path))
		require.Equal(t, 1, countDown(t, l, ""))
		other := newLatch(t, c, 3)
		_, err = other.CountDown(t.Context(), "")
		require.ErrorContains(t, err, "opens after 2 counts, not 3")
		_, err = other.Count(t.Context())
		require.ErrorContains(t, err, "must use the same number")
		for _, text := range []string{"", "2", "3/2", "-1/2", "a/2", "1/2/3"} {
			require.NoError(t, srv.Set(path, []byte(text)))
			_, err = l.CountDown(t.Context(), "")
			require.ErrorContains(t, err, "such as 3/10", text)
		}
		srv.Intercept(zktest.Match{Op: zktest.OpExists}, zktest.Fail(zktest.CodeNoAuth))
		_, err = l.CountDown(t.Context(), "")
		require.ErrorIs(t, err, zk.ErrNoAuth)
		require.NoError(t, c.Close())
		_, err = l.CountDown(t.Context(), "")
		require.ErrorIs(t, err, zkrecipes.ErrClosed)
		require.ErrorIs(t, l.Wait(t.Context()), zkrecipes.ErrClosed)
		require.Len(t, srv.Children(path), 1)
	})
}
