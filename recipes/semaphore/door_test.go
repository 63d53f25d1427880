package semaphore_test

import (
	"context"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/semaphore"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// These tests cover callers that take their leases in the transaction that gives up the door.

var together = zktest.Match{Op: zktest.OpMulti, Path: "lease-"}

// regular returns a semaphore that has been used before, and therefore has set the watches that it needs.
func regular(t *testing.T, c *conn.Client, limit int, opts ...semaphore.Option) *semaphore.Semaphore {
	t.Helper()
	s := newSemaphore(t, c, limit, opts...)
	for range 6 {
		h := acquire(t, s, 1)
		synctest.Wait()
		release(t, h)
		synctest.Wait()
	}
	return s
}

// foreign creates a node that belongs to another client.
func foreign(t *testing.T, srv *zktest.Server, path string) string {
	t.Helper()
	node, err := srv.Create(path, nil, zktest.PersistentSequential)
	require.NoError(t, err)
	return node
}

func TestAcquire_Alone_IsSixRequestsAndTwoRoundTrips(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, _ *conn.Client) {
		s := regular(t, a, 5)
		for _, n := range []int{1, 3} {
			sent := bubble.Requests(srv)
			h := acquire(t, s, n)
			synctest.Wait()
			require.Empty(t, srv.Children(locks), "the door is open")
			require.Len(t, srv.Children(leases), n)
			release(t, h)
			require.Equal(t, 6+n, sent.Hits(),
				"contender and two lists, leases for the door and a list, release; and the watches on the leases")
			sent.Remove()

			const trip = 10 * time.Millisecond
			contender := srv.Intercept(zktest.Match{Op: zktest.OpCreate}, zktest.HoldReply(trip))
			swap := srv.Intercept(together, zktest.HoldReply(trip))
			began := time.Now()
			h = acquire(t, s, n)
			require.Equal(t, 2*trip, time.Since(began))
			<-contender.Done()
			<-swap.Done()
			release(t, h)
			clean(t, srv)
		}
	})
}

// A waiter at the door counts the leases when it is woken.
func TestAcquire_BehindOneAtTheDoor(t *testing.T) {
	before := func(do func(srv *zktest.Server) error) func(*testing.T, *zktest.Server) zktest.Action {
		return func(t *testing.T, srv *zktest.Server) zktest.Action {
			t.Helper()
			return zktest.Before(func(zktest.Request) { require.NoError(t, do(srv)) })
		}
	}
	for name, fault := range map[string]func(*testing.T, *zktest.Server) zktest.Action{
		"undisturbed":          func(*testing.T, *zktest.Server) zktest.Action { return zktest.Proceed() },
		"answer lost":          func(*testing.T, *zktest.Server) zktest.Action { return zktest.DropReply() },
		"request lost":         func(*testing.T, *zktest.Server) zktest.Action { return zktest.DropRequest() },
		"door deleted by hand": before(func(srv *zktest.Server) error { return srv.DeleteAll(locks) }),
		"leases deleted":       before(func(srv *zktest.Server) error { return srv.DeleteAll(leases) }),
		"session expired": before(func(srv *zktest.Server) error {
			srv.Expire(srv.SessionOf("a"))
			return nil
		}),
	} {
		t.Run(name, func(t *testing.T) {
			pair(t, func(t *testing.T, srv *zktest.Server, a, _ *conn.Client) {
				s := regular(t, a, 3)
				ahead := foreign(t, srv, locks+"/lock-")
				try := bubble.Start(t.Context(), of(s, 2))
				try.Waits(t)
				hit := srv.Intercept(together, fault(t, srv))
				require.NoError(t, srv.Delete(ahead))
				h := try.Granted(t, time.Minute)
				require.Equal(t, 1, hit.Hits(), "door and leases in one transaction")
				synctest.Wait()
				require.Empty(t, srv.Children(locks))
				require.Len(t, srv.Children(leases), 2)
				require.NoError(t, h.Check(t.Context()))
				release(t, h)
				clean(t, srv)
			})
		})
	}
}

// Between the count and the transaction another client creates leases without holding the door, as a Curator client
// does that repeats a create in its next session.
func TestAcquire_LeasesMadePastTheDoor(t *testing.T) {
	for name, c := range map[string]struct {
		made  int
		waits bool
	}{
		"enough are left": {made: 1},
		"too many":        {made: 2, waits: true},
	} {
		t.Run(name, func(t *testing.T) {
			pair(t, func(t *testing.T, srv *zktest.Server, a, _ *conn.Client) {
				s := regular(t, a, 3)
				ahead := foreign(t, srv, locks+"/lock-")
				try := bubble.Start(t.Context(), of(s, 2))
				try.Waits(t)
				var others []string
				srv.Intercept(together, zktest.Before(func(zktest.Request) {
					for range c.made {
						others = append(others, foreign(t, srv, leases+"/lease-"))
					}
				}))
				require.NoError(t, srv.Delete(ahead))
				if c.waits {
					try.Waits(t)
					require.NoError(t, srv.Delete(others[0]))
				}
				h := try.Granted(t, time.Minute)
				require.Len(t, srv.Children(leases), 3)
				release(t, h)
				for _, path := range others[min(1, len(others)-1):] {
					if srv.Exists(path) {
						require.NoError(t, srv.Delete(path))
					}
				}
				clean(t, srv)
			})
		})
	}
}

func TestAcquire_CancelledWhileDoorAndLeasesChange_LeavesNothing(t *testing.T) {
	for name, fault := range map[string]func(<-chan struct{}) zktest.Action{
		"before": zktest.DelayUntil, "after": zktest.HoldReplyUntil,
	} {
		t.Run(name, func(t *testing.T) {
			pair(t, func(t *testing.T, srv *zktest.Server, a, _ *conn.Client) {
				s := regular(t, a, 3)
				gate := make(chan struct{})
				hit := srv.Intercept(together, fault(gate))
				ctx, cancel := context.WithCancel(t.Context())
				try := bubble.Start(ctx, of(s, 3))
				try.Waits(t)
				cancel()
				require.ErrorIs(t, try.Failed(t, 0), context.Canceled)
				require.Equal(t, 1, hit.Hits())
				close(gate)
				time.Sleep(time.Second)
				clean(t, srv)
				release(t, acquire(t, s, 3))
			})
		})
	}
}

// The leases are counted before others take some. A caller that gave up the door on the basis of that count would lose
// its place in the queue.
func TestAcquire_DoorUsedInBetween_WaitsInside(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, _ *conn.Client) {
		s := regular(t, a, 3)
		var others []string
		// Client a does not know of this contender, and counts while its own create is in flight.
		ahead := foreign(t, srv, locks+"/lock-")
		srv.Intercept(zktest.Match{Op: zktest.OpCreate, Path: "lock-"}, zktest.HoldReply(time.Second)) // until it has counted
		srv.Intercept(zktest.Match{Op: zktest.OpGetChildren2, Path: leases}, zktest.After(func(zktest.Request) {
			others = append(others, foreign(t, srv, leases+"/lease-"), foreign(t, srv, leases+"/lease-"))
			require.NoError(t, srv.Delete(ahead)) // takes two leases and leaves the door
		}))
		srv.Intercept(zktest.Match{Op: zktest.OpMulti, Path: "lock-", Times: -1}, zktest.Forbid())
		try := bubble.Start(t.Context(), of(s, 2))
		time.Sleep(2 * time.Second)
		try.Waits(t)
		require.Len(t, srv.Children(locks), 1)
		require.Len(t, srv.Children(leases), 4)
		require.NoError(t, srv.Delete(others[0]))
		release(t, try.Granted(t, 0))
		require.NoError(t, srv.Delete(others[1]))
		clean(t, srv)
	})
}

// A caller that gives up the door and has to count again does not count the leases of the caller behind it, which has
// passed the door in the meantime and waits inside.
func TestAcquire_CountedAgain_IsNotOvertakenByTheOneBehind(t *testing.T) {
	for name, fault := range map[string]func(*testing.T, *zktest.Server){
		"answer lost": func(_ *testing.T, srv *zktest.Server) {
			srv.Intercept(zktest.Match{From: zktest.Label("a"), Op: zktest.OpMulti, Path: "lease-"}, zktest.DropReply())
		},
		"busy ensemble, slow link": func(t *testing.T, srv *zktest.Server) {
			t.Helper()
			srv.Intercept(zktest.Match{From: zktest.Label("a"), Op: zktest.OpMulti, Path: "lease-"},
				zktest.Before(func(zktest.Request) {
					for range 50 {
						foreign(t, srv, "/elsewhere-")
					}
				}))
			srv.Intercept(zktest.Match{From: zktest.Label("a"), Op: zktest.OpGetChildren2, Path: "^" + leases + "$", Skip: 1},
				zktest.Delay(10*time.Millisecond))
		},
	} {
		t.Run(name, func(t *testing.T) {
			pair(t, func(t *testing.T, srv *zktest.Server, a, b *conn.Client) {
				s, other := regular(t, a, 3), regular(t, b, 3)
				out := acquire(t, other, 1)
				synctest.Wait()
				ahead := foreign(t, srv, locks+"/lock-")
				first := bubble.Start(t.Context(), of(s, 2)) // 1 + 2 = 3: enough
				first.Waits(t)
				second := bubble.Start(t.Context(), of(other, 2))
				second.Waits(t)
				fault(t, srv)
				require.NoError(t, srv.Delete(ahead))
				h := first.Granted(t, time.Minute)
				second.Waits(t)
				release(t, h)
				release(t, second.Granted(t, time.Minute))
				release(t, out)
				clean(t, srv)
			})
		})
	}
}

// The contender just ahead gives up, but it is not the holder of the door. The holder passes before the line is listed.
func TestAcquire_CountedBeforeTheHolderOfTheDoorPassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ms = time.Millisecond
		srv := zktest.Run(t, zktest.InMemory())
		a := bubble.Dial(t, srv, "a", conn.WithDialer(far(srv.DialAs("a"), 10*ms)))
		b := bubble.Dial(t, srv, "b")
		s, other := regular(t, a, 3), regular(t, b, 3)
		time.Sleep(time.Second)
		holder := foreign(t, srv, locks+"/lock-")
		quits := foreign(t, srv, locks+"/lock-")
		first := bubble.Start(t.Context(), of(s, 2))
		time.Sleep(time.Second)
		second := bubble.Start(t.Context(), of(other, 1))
		time.Sleep(time.Second)

		require.NoError(t, srv.Delete(quits)) // a learns of it in 10 ms
		time.Sleep(5 * ms)
		third := bubble.Start(t.Context(), of(s, 1)) // lists, for 10 ms
		time.Sleep(7 * ms)
		taken := []string{foreign(t, srv, leases+"/lease-"), foreign(t, srv, leases+"/lease-")}
		require.NoError(t, srv.Delete(holder)) // takes two leases and leaves the door
		time.Sleep(time.Second)
		require.False(t, first.Over(), "wants 2, 1 is there")
		require.False(t, second.Over(), "has overtaken the first")
		for _, path := range taken {
			require.NoError(t, srv.Delete(path))
		}
		release(t, first.Granted(t, time.Minute))
		release(t, second.Granted(t, time.Minute))
		release(t, third.Granted(t, time.Minute))
		time.Sleep(time.Second)
		clean(t, srv)
	})
}

func TestAcquire_RoundTrips(t *testing.T) {
	const trip = 10 * time.Millisecond
	for name, c := range map[string]struct {
		opts                []semaphore.Option
		alone, behind, busy int
	}{
		"fixed limit": {nil, 2, 3, 3},
		"limit node":  {[]semaphore.Option{semaphore.WithLimitNode("/limit")}, 3, 4, 4},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := zktest.Run(t, zktest.InMemory())
				client := bubble.Dial(t, srv, "a", conn.WithDialer(far(srv.DialAs("a"), trip)))
				s := regular(t, client, 5, c.opts...)
				took := func(began time.Time, try *bubble.Attempt) int {
					for !try.Over() {
						time.Sleep(trip / 10)
					}
					trips := int(time.Since(began) / trip)
					time.Sleep(time.Second)
					release(t, try.Hold)
					time.Sleep(time.Second)
					return trips
				}
				for range 3 {
					require.Equal(t, c.alone, took(time.Now(), bubble.Start(t.Context(), of(s, 1))))
				}
				behind := func(s *semaphore.Semaphore, elsewhere int) int {
					ahead := foreign(t, srv, locks+"/lock-")
					time.Sleep(time.Second)
					try := bubble.Start(t.Context(), of(s, 1))
					time.Sleep(time.Second)
					for range elsewhere {
						foreign(t, srv, "/elsewhere-")
					}
					began := time.Now()
					require.NoError(t, srv.Delete(ahead))
					return took(began, try)
				}
				require.Equal(t, c.behind, behind(s, 0))
				behind(s, 50) // the numbers reveal too little when there is much other traffic, and it learns that
				require.Equal(t, c.busy, behind(s, 50))
				require.Equal(t, c.behind, behind(newSemaphore(t, client, 5, c.opts...), 0), "without a watch on the parent yet")
			})
		})
	}
}

// far returns a dialer whose connections delay each answer by trip, however many are in flight.
func far(
	dial func(context.Context, string, string) (net.Conn, error), trip time.Duration,
) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		raw, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		type chunk struct {
			data []byte
			due  time.Time
		}
		chunks := make(chan chunk, 1000)
		near, mine := net.Pipe()
		go func() {
			_, _ = io.Copy(raw, mine) // until one of them is closed
			_ = raw.Close()
		}()
		go func() {
			defer close(chunks)
			for {
				b := make([]byte, 64<<10)
				n, err := raw.Read(b)
				if err != nil {
					return
				}
				chunks <- chunk{b[:n], time.Now().Add(trip)}
			}
		}()
		go func() {
			defer func() { _ = mine.Close() }()
			for c := range chunks {
				time.Sleep(time.Until(c.due))
				_, _ = mine.Write(c.data) // a closed pipe ends the reader, and with it this
			}
		}()
		return near, nil
	}
}

func TestLimitNode_LoweredBeforeTheLeasesAreMade_IsRespected(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, b *conn.Client) {
		const node = "/limit"
		s := regular(t, a, 3, semaphore.WithLimitNode(node))
		out := acquire(t, newSemaphore(t, b, 3), 1)
		ahead := foreign(t, srv, locks+"/lock-")
		try := bubble.Start(t.Context(), of(s, 2))
		try.Waits(t)
		srv.Intercept(together, zktest.Before(func(zktest.Request) {
			require.NoError(t, srv.Set(node, []byte{0, 0, 0, 2}))
		}))
		require.NoError(t, srv.Delete(ahead))
		try.Waits(t)
		require.NoError(t, srv.Set(node, []byte{0, 0, 0, 3}))
		release(t, try.Granted(t, 0))
		release(t, out)
		require.NoError(t, srv.Delete(node))
		clean(t, srv)
	})
}

// ZOOKEEPER-710: a create of a contender at the door that was sent twice may also be executed late. The late node is
// removed together with the contender that counts.
func TestAcquire_DoorSentAgain_LateOneGoesWithIt(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, b *conn.Client) {
		others, mine := regular(t, b, 2), regular(t, a, 2)
		held := acquire(t, others, 1)
		inside, giveUp := context.WithCancel(t.Context())
		ahead := bubble.Start(inside, of(others, 2))
		ahead.Waits(t)
		lost := srv.Intercept(zktest.Match{From: zktest.Label("a"), Op: zktest.OpCreate, Path: "^" + locks + "/"},
			zktest.DropRequest())
		waiter := bubble.Start(t.Context(), of(mine, 1))
		time.Sleep(time.Second)
		require.Equal(t, 1, lost.Hits())
		waiter.Waits(t)
		doors := srv.Children(locks)
		require.Len(t, doors, 2)
		number := func(name string) string { return name[strings.LastIndex(name, "-"):] }
		last := slices.MaxFunc(doors, func(x, y string) int { return strings.Compare(number(x), number(y)) })
		late := locks + "/" + strings.TrimSuffix(last, number(last)) + "-"
		_, err := a.Create(t.Context(), late, nil, zk.FlagEphemeral|zk.FlagSequence)
		require.NoError(t, err)
		giveUp()
		h := waiter.Granted(t, time.Second)
		synctest.Wait()
		require.Empty(t, srv.Children(locks))
		release(t, h)
		release(t, held)
		clean(t, srv)
	})
}

// The transaction that takes the leases and gives up the door is executed late: after it was looked for, and before it
// is sent again. The second copy finds the door gone.
func TestAcquire_LeasesForTheDoorSentAgain_LateOneIsSwept(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, _ *conn.Client) {
		s := regular(t, a, 1)
		time.Sleep(2 * time.Second)
		var paths []string
		srv.Intercept(zktest.Match{Op: zktest.OpMulti, Path: "lease-", Where: func(r zktest.Request) bool {
			paths = r.Paths
			return true
		}}, zktest.DropRequest())
		barrier := srv.Intercept(zktest.Match{Op: zktest.OpMulti, Path: "^/$"}, zktest.Proceed())
		gate := make(chan struct{})
		searched := srv.Intercept(zktest.Match{
			Op: zktest.OpGetChildren2, Path: leases + "$",
			Where: func(zktest.Request) bool { return barrier.Hits() > 0 },
		}, zktest.HoldReplyUntil(gate))
		try := bubble.Start(t.Context(), of(s, 1))
		time.Sleep(time.Second)
		require.Equal(t, 1, searched.Hits())
		require.Len(t, paths, 2)
		late := make(chan error, 1)
		go func() {
			_, err := a.Multi(t.Context(), zkrecipes.OpCreate(paths[0], nil, zk.FlagEphemeral|zk.FlagSequence),
				zkrecipes.OpDelete(paths[1], -1))
			late <- err
		}()
		synctest.Wait()
		close(gate)
		require.NoError(t, <-late)
		if !try.Over() {
			time.Sleep(time.Minute)
		}
		require.True(t, try.Over(), "waits for its own lease: %v", srv.Children(leases))
		release(t, try.Granted(t, 0))
		clean(t, srv)
	})
}

// The create of the door is sent again, and its first copy is executed after the transaction that takes the leases has
// deleted the door. No other client would remove the late node.
func TestAcquire_DoorSentAgain_LateOneIsSwept(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, _ *conn.Client) {
		s := regular(t, a, 2)
		time.Sleep(2 * time.Second)
		holder := foreign(t, srv, locks+"/lock-")
		quits := foreign(t, srv, locks+"/lock-")
		var door string
		lost := srv.Intercept(zktest.Match{Op: zktest.OpCreate, Where: func(r zktest.Request) bool {
			if strings.HasPrefix(r.Path, locks+"/") {
				door = r.Path
			}
			return door != ""
		}}, zktest.DropRequest())
		waiter := bubble.Start(t.Context(), of(s, 1))
		time.Sleep(time.Second)
		require.Equal(t, 1, lost.Hits())
		waiter.Waits(t)
		require.Len(t, srv.Children(locks), 3)
		require.NoError(t, srv.Delete(quits)) // the first count sets the watch on the parent of the leases again
		waiter.Waits(t)

		// Its own door is deleted in the transaction. The request by which it then ensures that nothing is left is
		// delayed until the late copy has been sent behind it.
		gate := make(chan struct{})
		swap := srv.Intercept(together, zktest.Proceed())
		removal := srv.Intercept(zktest.Match{Op: zktest.OpDelete, Path: "^" + locks + "/"}, zktest.DelayUntil(gate))
		require.NoError(t, srv.Delete(holder))
		h := waiter.Granted(t, time.Second)
		synctest.Wait()
		require.Equal(t, 1, swap.Hits(), "in the transaction that gives up the door")
		require.Equal(t, 1, removal.Hits(), "and yet it looks after the door")
		require.Empty(t, srv.Children(locks))
		late := make(chan error, 1)
		go func() {
			_, err := a.Create(t.Context(), door, nil, zk.FlagEphemeral|zk.FlagSequence)
			late <- err
		}()
		synctest.Wait()
		close(gate)
		require.NoError(t, <-late)
		synctest.Wait()
		require.Empty(t, srv.Children(locks), "the late copy is in everybody's way")
		release(t, h)
		clean(t, srv)
	})
}

// The limit is read once the caller is first at the door, and no earlier.
func TestTryAcquire_LimitLoweredWhileAtTheDoor_IsBusy(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, b *conn.Client) {
		const node = "/limit"
		s := newSemaphore(t, a, 12, semaphore.WithLimitNode(node))
		held := acquire(t, newSemaphore(t, b, 12, semaphore.WithLimitNode(node)), 10)
		create := srv.Intercept(zktest.Match{From: zktest.Label("a"), Op: zktest.OpCreate, Path: "^" + locks + "/"},
			zktest.Before(func(zktest.Request) {
				assert.NoError(t, srv.Set(node, []byte{0, 0, 0, 10})) // 10 and 1 were within 12
			}))
		_, err := s.TryAcquire(t.Context(), 1)
		require.Equal(t, 1, create.Hits())
		var busy *zkrecipes.BusyError
		require.ErrorAs(t, err, &busy)
		require.Equal(t, held.Path(), busy.Holder.Path, "the first lease")
		require.Len(t, srv.Children(leases), 10)
		release(t, held)
	})
}

// The node of a client that died at the door stays there until its session expires. TryAcquire does not wait for that,
// although all leases are free.
func TestTryAcquire_BehindADeadClientAtTheDoor_IsBusyAtOnce(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, _ *conn.Client) {
		release(t, acquire(t, newSemaphore(t, a, 3), 1)) // creates the parents
		synctest.Wait()
		dead := foreign(t, srv, locks+"/lock-")
		try := bubble.Start(t.Context(), func(ctx context.Context) (*zkrecipes.Hold, error) {
			return newSemaphore(t, a, 3).TryAcquire(ctx, 1)
		})
		err := try.Failed(t, 0)
		var busy *zkrecipes.BusyError
		require.ErrorAs(t, err, &busy)
		require.Equal(t, dead, busy.Holder.Path)
		require.Empty(t, srv.Children(leases))
		require.Len(t, srv.Children(locks), 1)
	})
}

// The event of the limit node is lost. The waiter rereads the limit in bounded time.
func TestLimitNode_EventLost_IsReadAgain(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, b *conn.Client) {
		const node = "/limit"
		s := newSemaphore(t, a, 1, semaphore.WithLimitNode(node))
		held := acquire(t, s, 1)
		waiting := bubble.Start(t.Context(), of(newSemaphore(t, b, 1, semaphore.WithLimitNode(node)), 1))
		waiting.Waits(t)
		require.Equal(t, 1, srv.LoseWatch(zktest.Label("b"), node))
		require.NoError(t, srv.Set(node, []byte{0, 0, 0, 2}))
		waiting.Waits(t)
		release(t, waiting.Granted(t, 3*bubble.Timeout))
		release(t, held)
	})
}

// A waiter at the door gets an event that is not a departure, and its list arrives late. The leases are counted after
// that list, so it keeps its place even if the client ahead has taken leases in the meantime.
func TestAcquire_EventWithoutADepartureAtTheDoor_KeepsThePlace(t *testing.T) {
	for name, late := range map[string]zktest.Action{
		"throttled": zktest.Fail(zktest.Code(zkrecipes.CodeThrottled)), "slow": zktest.Delay(time.Second),
		"lost": zktest.DropReply(),
	} {
		t.Run(name, func(t *testing.T) {
			pair(t, func(t *testing.T, srv *zktest.Server, a, b *conn.Client) {
				s, other := regular(t, a, 3), regular(t, b, 3)
				ahead := foreign(t, srv, locks+"/lock-")
				first := bubble.Start(t.Context(), of(s, 2))
				first.Waits(t)
				second := bubble.Start(t.Context(), of(other, 1))
				second.Waits(t)
				srv.Intercept(zktest.Match{From: zktest.Label("a"), Op: zktest.OpGetChildren2, Path: locks}, late)
				require.NoError(t, srv.Set(ahead, []byte("something else")))
				time.Sleep(5 * time.Millisecond) // a has sent its request, and has no answer yet
				taken := []string{foreign(t, srv, leases+"/lease-"), foreign(t, srv, leases+"/lease-")}
				require.NoError(t, srv.Delete(ahead))
				time.Sleep(5 * time.Second)
				first.Waits(t)
				second.Waits(t)
				require.Len(t, srv.Children(leases), 4, "the first stands at the door with its leases")
				for _, path := range taken {
					require.NoError(t, srv.Delete(path))
				}
				release(t, first.Granted(t, 0))
				release(t, second.Granted(t, 0))
				clean(t, srv)
			})
		})
	}
}

// The node of the door takes up room in the transaction that creates the leases.
func TestAcquire_JustFits_HoweverTheDoorIsPassed(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, _ *conn.Client) {
		bad, step := 0, 20/bubble.Rounds(5)
		for size := (1<<20-4<<10)/2 - 260; size < (1<<20-4<<10)/2-100; size += step {
			s := newSemaphore(t, a, 2, semaphore.WithData(make([]byte, size)))
			h, err := s.Acquire(t.Context(), 2)
			if err != nil {
				continue
			}
			synctest.Wait()
			release(t, h)
			synctest.Wait()
			small := regular(t, a, 2)
			_ = small
			for range 10 {
				h, err = s.Acquire(t.Context(), 2)
				if err != nil {
					bad++
					break
				}
				synctest.Wait()
				release(t, h)
				synctest.Wait()
			}
			synctest.Wait()
		}
		require.Zero(t, bad)
	})
}

// A caller that waits for leases needs no proof, and reads only what has changed.
func TestAcquire_WaitingInside_Cost(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, b *conn.Client) {
		const node = "/limit"
		with := semaphore.WithLimitNode(node)
		others := newSemaphore(t, b, 3, with)
		one, two := acquire(t, others, 1), acquire(t, others, 1)
		waiting := bubble.Start(t.Context(), of(newSemaphore(t, a, 3, with), 3))
		waiting.Waits(t)
		time.Sleep(time.Minute)
		mine := zktest.Match{From: zktest.Label("a"), Times: -1}
		syncs := mine
		syncs.Op = zktest.OpSync
		rule := srv.Intercept(syncs, zktest.Proceed())
		time.Sleep(10 * time.Minute)
		require.Zero(t, rule.Hits())
		rule.Remove()

		sent := srv.Intercept(zktest.Match{From: zktest.Label("a"), Times: -1, Where: func(r zktest.Request) bool {
			return r.Op != zktest.OpSync
		}}, zktest.Proceed())
		release(t, one)
		waiting.Waits(t)
		require.Equal(t, 1, sent.Hits(), "the leases")
		sent.Remove()

		// The door is given up after the grant.
		srv.Intercept(zktest.Match{From: zktest.Label("a"), Op: zktest.OpDelete, Path: "^" + locks},
			zktest.Delay(time.Second))
		release(t, two)
		h := waiting.Granted(t, 0)
		require.Len(t, srv.Children(locks), 1)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Empty(t, srv.Children(locks))
		release(t, h)
		require.NoError(t, srv.Delete(node))
		clean(t, srv)
	})
}

// The event of the door is lost, and so is the door. The waiter finds out in bounded time, and lets the next one pass.
func TestAcquire_DoorLostWithoutAnEvent_TakesItsLeasesBack(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, b *conn.Client) {
		held := acquire(t, newSemaphore(t, b, 3), 1)
		waiting := bubble.Start(t.Context(), of(newSemaphore(t, a, 3), 3))
		waiting.Waits(t)
		door := locks + "/" + srv.Children(locks)[0]
		require.Equal(t, 1, srv.LoseWatch(zktest.Label("a"), door))
		require.NoError(t, srv.Delete(door))
		waiting.Waits(t)
		require.Len(t, srv.Children(leases), 4)
		next := bubble.Start(t.Context(), of(newSemaphore(t, b, 3), 2))
		next.Waits(t) // 4 and 2 are more than 3
		h := next.Granted(t, 3*bubble.Timeout)
		release(t, h)
		release(t, held)
		release(t, waiting.Granted(t, time.Minute))
		clean(t, srv)
	})
}
