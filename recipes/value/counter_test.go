package value_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/value"
	"github.com/zkrecipes/zkrecipes/zktest"
)

const path = "/app/value"

// inBubble runs f with a server, in virtual time.
func inBubble(t *testing.T, f func(t *testing.T, srv *zktest.Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, zktest.Run(t, zktest.InMemory())) })
}

// counter returns the counter as seen by a separate client.
func counter(t *testing.T, srv *zktest.Server, label string) *value.Counter {
	t.Helper()
	c, err := value.NewCounter(bubble.Dial(t, srv, label), path, value.KazooCounter())
	require.NoError(t, err)
	return c
}

func add(t *testing.T, c *value.Counter, delta int64) int64 {
	t.Helper()
	sum, err := c.Add(t.Context(), delta)
	require.NoError(t, err)
	return sum
}

// stored returns the data of the node.
func stored(t *testing.T, srv *zktest.Server, path string) string {
	t.Helper()
	n, ok := srv.Node(path)
	require.True(t, ok, path)
	return string(n.Data)
}

// marker returns the path of the only marker.
func marker(t *testing.T, srv *zktest.Server) string {
	t.Helper()
	children := srv.Children(path)
	require.Len(t, children, 1)
	return path + "/" + children[0]
}

// applied counts the transactions of the client that have set the node.
func applied(srv *zktest.Server, client string) (n int) {
	for _, txn := range srv.History() {
		if txn.Op == zktest.OpMulti && txn.Client == client && txn.Err == zktest.CodeOK &&
			slices.ContainsFunc(txn.Changes,
				func(c zktest.Change) bool { return c.Kind == zktest.ChangeSet && c.Path == path }) {
			n++
		}
	}
	return n
}

var adds = zktest.Match{From: zktest.Label("a"), Op: zktest.OpMulti, Path: "^" + path + "$"}

// The first addition creates the node and the marker. Each later one is one request.
func TestAdd_Cost(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		a := counter(t, srv, "a")
		require.EqualValues(t, 5, add(t, a, 5))
		requests := bubble.Requests(srv)
		require.EqualValues(t, 3, add(t, a, -2))
		require.Equal(t, 1, requests.Hits())
		require.Equal(t, "3", stored(t, srv, path))
		require.NoError(t, a.Close(t.Context()))
		require.Empty(t, srv.Children(path))
		require.EqualValues(t, 4, add(t, a, 1), "it may be used again")
	})
}

// While a does not know whether its addition was applied, b adds too.
func TestAdd_ReplyLost_OthersGoOn(t *testing.T) {
	for name, action := range map[string]zktest.Action{
		"not applied": zktest.DropRequest(), "applied": zktest.DropReply(),
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				a, b := counter(t, srv, "a"), counter(t, srv, "b")
				add(t, a, 1)
				srv.Intercept(adds, action)
				srv.Intercept(zktest.Match{From: zktest.Label("a"), Op: zktest.OpGetData, Path: "^" + path + "$"},
					zktest.Before(func(zktest.Request) { _, _ = b.Add(context.Background(), 100) }))
				sum := add(t, a, 10)
				if name == "applied" {
					require.EqualValues(t, 11, sum)
				} else {
					require.EqualValues(t, 111, sum)
				}
				require.Equal(t, "111", stored(t, srv, path))
				require.EqualValues(t, 112, add(t, a, 1))
			})
		})
	}
}

// The addition is applied late, after the node was read and before the marker is.
func TestAdd_CopyIsAppliedBetweenTheReads(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		a := counter(t, srv, "a")
		add(t, a, 1)
		m := marker(t, srv)
		srv.Intercept(adds, zktest.DropRequest())
		once := sync.OnceFunc(func() {
			require.NoError(t, srv.Set(path, []byte("11")))
			require.NoError(t, srv.Set(m, []byte("2")))
		})
		for _, p := range []string{path, m} { // whichever is read first
			srv.Intercept(zktest.Match{From: zktest.Label("a"), Op: zktest.OpGetData, Path: "^" + p + "$"},
				zktest.After(func(zktest.Request) { once() }))
		}
		require.EqualValues(t, 11, add(t, a, 10))
		require.Equal(t, "11", stored(t, srv, path))
	})
}

// The addition is applied late, just before it is sent again.
func TestAdd_CopyIsAppliedAfterTheReads(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		a := counter(t, srv, "a")
		add(t, a, 1)
		m := marker(t, srv)
		srv.Intercept(adds, zktest.DropRequest())
		srv.Intercept(adds, zktest.Before(func(zktest.Request) {
			require.NoError(t, srv.Set(path, []byte("11")))
			require.NoError(t, srv.Set(m, []byte("2")))
		}))
		require.EqualValues(t, 11, add(t, a, 10))
		require.Equal(t, "11", stored(t, srv, path))
	})
}

// Nothing shows any more whether the addition was applied.
func TestAdd_MarkerGone_AfterALostReply(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		a := counter(t, srv, "a")
		add(t, a, 1)
		m := marker(t, srv)
		srv.Intercept(adds, zktest.After(func(zktest.Request) {
			require.NoError(t, srv.Delete(m))
			srv.Cut(zktest.Label("a"))
		}))
		_, err := a.Add(t.Context(), 10)
		require.ErrorIs(t, err, zkrecipes.ErrUnknownOutcome)
		require.EqualValues(t, 12, add(t, a, 1))
	})
}

// The context ends while the answer is held back. The next addition starts from what was applied.
func TestAdd_CallerGone(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		a := counter(t, srv, "a")
		add(t, a, 1)
		srv.Intercept(adds, zktest.HoldReply(2*time.Second))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := a.Add(ctx, 10)
		require.ErrorIs(t, err, zkrecipes.ErrUnknownOutcome)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.EqualValues(t, 12, add(t, a, 1))
	})
}

// Without a connection the addition was not sent, and the error reports only that.
func TestAdd_NothingSent(t *testing.T) {
	for _, first := range []bool{true, false} {
		t.Run(fmt.Sprint("first=", first), func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				a := counter(t, srv, "a")
				if !first {
					add(t, a, 1)
				}
				srv.Refuse(zktest.Label("a"))
				srv.Cut(zktest.Label("a"))
				synctest.Wait()
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, err := a.Add(ctx, 10)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.NotErrorIs(t, err, zkrecipes.ErrUnknownOutcome)
			})
		})
	}
}

// The node is deleted with everything below it, and created again with the version that a knows.
func TestAdd_NodeMadeAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		a := counter(t, srv, "a")
		add(t, a, 5)
		require.NoError(t, srv.DeleteAll(path))
		_, err := srv.Create(path, []byte("70"), zktest.Persistent)
		require.NoError(t, err)
		require.NoError(t, srv.Set(path, []byte("77")))
		require.EqualValues(t, 78, add(t, a, 1))
		require.NoError(t, srv.DeleteAll(path))
		require.EqualValues(t, 1, add(t, a, 1))
	})
}

var makes = zktest.Match{From: zktest.Label("a"), Op: zktest.OpCreate, Path: "marker$"}

// lateCopy creates the marker a second time, late, in the session of c: when the server receives the next barrier of a,
// which is as late as a copy can arrive, or some time later without a barrier.
func lateCopy(t *testing.T, srv *zktest.Server, c *conn.Client, marker string) (came func() bool) {
	t.Helper()
	var err error
	done := make(chan struct{})
	create := sync.OnceFunc(func() {
		go func() {
			defer close(done)
			_, err = c.Create(context.WithoutCancel(t.Context()), marker, nil, zk.FlagEphemeral)
		}()
	})
	barrier := zktest.Match{From: zktest.Label("a"), Op: zktest.OpMulti, Path: "^/$", Where: func(zktest.Request) bool {
		create()
		return true
	}}
	srv.Intercept(barrier, zktest.Fail(zktest.CodeThrottled)) // so that it is sent again, behind the copy
	time.AfterFunc(time.Minute, create)
	return func() bool {
		<-done
		return err == nil
	}
}

// withoutMarker returns a counter at 1 without a marker, and its client.
func withoutMarker(t *testing.T, srv *zktest.Server) (*conn.Client, *value.Counter) {
	t.Helper()
	client := bubble.Dial(t, srv, "a")
	a, err := value.NewCounter(client, path, value.KazooCounter())
	require.NoError(t, err)
	add(t, a, 1)
	require.NoError(t, a.Close(t.Context()))
	return client, a
}

// The create of the marker was lost, and nothing shows whether it will be applied.
func TestClose_CreateComesLate(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		client, a := withoutMarker(t, srv)
		var m string
		ctx, cancel := context.WithCancel(t.Context())
		all := makes
		all.Where = func(r zktest.Request) bool { m = r.Path; return true }
		srv.Intercept(all, zktest.Before(func(zktest.Request) { cancel(); srv.Cut(zktest.Label("a")) }))
		_, err := a.Add(ctx, 1)
		require.ErrorIs(t, err, context.Canceled)
		for _, child := range srv.Children(path) {
			require.NoError(t, srv.Delete(path+"/"+child)) // as if the create had been lost too
		}
		came := lateCopy(t, srv, client, m)
		require.NoError(t, a.Close(t.Context()))
		came()
		time.Sleep(time.Minute)
		require.Empty(t, srv.Children(path))
	})
}

// The create was sent again, and the first copy arrives when the marker is gone.
func TestClose_CopyComesAfterTheMarkerWasDeleted(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		client, a := withoutMarker(t, srv)
		srv.Intercept(makes, zktest.DropRequest())
		add(t, a, 1)
		m := marker(t, srv)
		came := lateCopy(t, srv, client, m)
		require.NoError(t, a.Close(t.Context()))
		require.True(t, came())
		require.Empty(t, srv.Children(path))
	})
}

// The counter continues with another marker, and the late copy does not remain next to it.
func TestAdd_MarkerDeletedByHand_CopyComesLate(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		client, a := withoutMarker(t, srv)
		srv.Intercept(makes, zktest.DropRequest())
		add(t, a, 1)
		m := marker(t, srv)
		require.NoError(t, srv.Delete(m))
		came := lateCopy(t, srv, client, m)
		require.EqualValues(t, 3, add(t, a, 1))
		require.True(t, came())
		time.Sleep(time.Minute)
		require.NotEqual(t, m, marker(t, srv))
		require.NoError(t, a.Close(t.Context()))
		require.Empty(t, srv.Children(path))
	})
}

// ctx ends while the marker cannot be deleted. It is deleted nevertheless.
func TestClose_GoesOn(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		a := counter(t, srv, "a")
		add(t, a, 1)
		srv.Intercept(zktest.Match{From: zktest.Label("a"), Op: zktest.OpDelete}, zktest.Delay(2*time.Second))
		srv.Intercept(zktest.Match{From: zktest.Label("a"), Op: zktest.OpDelete}, zktest.DropRequest())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, a.Close(ctx), context.DeadlineExceeded)
		srv.Cut(zktest.Label("a"))
		time.Sleep(bubble.Timeout / 2)
		require.Empty(t, srv.Children(path))
	})
}

func TestAdd_Refused(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := counter(t, srv, "a"), counter(t, srv, "b")
		add(t, a, math.MaxInt64)
		_, err := a.Add(t.Context(), 1)
		require.ErrorContains(t, err, "does not fit")
		add(t, b, -1)
		add(t, a, 1) // a knows an older state
		require.NoError(t, srv.Set(path, []byte("ten")))
		_, err = a.Add(t.Context(), 1)
		require.ErrorContains(t, err, "decode "+path)
		require.Equal(t, "ten", stored(t, srv, path))
		_, err = a.Next(t.Context(), 0)
		require.ErrorContains(t, err, "want at least 1")
	})
}

// The server lags behind the leader, so the counter has a state that another client has since replaced. The error was
// about that state.
func TestAdd_ServerLags_RefusesOnlyWhatTheLeaderHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory(), zktest.WithFronts(3))
		front := srv.Fronts()[2]
		c, err := conn.Dial(t.Context(), front.Addr(), conn.WithDialer(front.DialAs("a")),
			conn.WithSessionTimeout(bubble.Timeout), bubble.Silent)
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		a, err := value.NewCounter(c, path, value.KazooCounter())
		require.NoError(t, err)
		add(t, a, 1)
		for _, bad := range []string{"ten", fmt.Sprint(int64(math.MaxInt64))} {
			require.NoError(t, srv.Set(path, []byte(bad)))
			_, err = a.Add(t.Context(), 1)
			require.Error(t, err)
			synctest.Wait()
			front.Lag()
			require.NoError(t, srv.Set(path, []byte("5")))
			time.AfterFunc(100*time.Millisecond, front.CatchUp)
			require.EqualValues(t, 6, add(t, a, 1))
		}
	})
}

// Goroutines of two clients reserve blocks.
func TestNext_BlocksAreDistinct(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		var mu sync.Mutex
		seen := map[int64]bool{}
		var wg sync.WaitGroup
		for _, c := range []*value.Counter{counter(t, srv, "a"), counter(t, srv, "b")} {
			for range 10 {
				wg.Go(func() {
					first, err := c.Next(t.Context(), 7)
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					defer mu.Unlock()
					for i := range int64(7) {
						seen[first+i] = true
					}
				})
			}
		}
		wg.Wait()
		require.Len(t, seen, 140)
		require.True(t, seen[1] && seen[140])
	})
}

// Adders of three clients meet random faults. Every addition that returned nil counts once. One that failed does not
// count, unless its error reports an unknown outcome. While no session ends, such errors do not occur.
func TestAdd_UnderFaults(t *testing.T) {
	for _, expire := range []bool{false, true} {
		for seed := range uint64(20) {
			t.Run(fmt.Sprintf("expire=%v/%d", expire, seed), func(t *testing.T) {
				inBubble(t, func(t *testing.T, srv *zktest.Server) { underFaults(t, srv, rand.New(rand.NewPCG(seed, 17)), expire) })
			})
		}
	}
}

func underFaults(t *testing.T, srv *zktest.Server, random *rand.Rand, expire bool) {
	t.Helper()
	const each, rounds = 4, 15
	srv.SetLatency(5 * time.Millisecond)
	labels := []string{"a", "b", "c"}
	var mu sync.Mutex
	certain, unknown := map[string]int{}, map[string]int{}
	var wg sync.WaitGroup
	for _, label := range labels {
		c := counter(t, srv, label)
		for range each {
			wg.Go(func() {
				for range rounds {
					_, err := c.Add(t.Context(), 1)
					mu.Lock()
					switch {
					case err == nil:
						certain[label]++
					case errors.Is(err, zkrecipes.ErrUnknownOutcome):
						unknown[label]++
					default:
						t.Error(err)
					}
					mu.Unlock()
				}
			})
		}
	}
	done := make(chan struct{})
	go func() {
		wg.Wait()
		close(done)
	}()
	for over := false; !over; {
		who := zktest.Label(labels[random.IntN(len(labels))])
		op := zktest.Match{From: who, Skip: random.IntN(4), Op: []zktest.Op{zktest.OpAny, zktest.OpMulti}[random.IntN(2)]}
		switch random.IntN(7) {
		case 0:
			srv.Intercept(op, zktest.DropReply())
		case 1:
			srv.Intercept(op, zktest.DropRequest())
		case 2:
			srv.Intercept(op, zktest.HoldReply(time.Duration(random.IntN(3000))*time.Millisecond))
		case 3:
			srv.Cut(who)
		case 4:
			srv.Freeze()
			time.Sleep(time.Second)
			srv.Thaw()
		case 5:
			srv.Restart()
		case 6:
			if expire {
				srv.Expire(srv.SessionOf(labels[random.IntN(len(labels))]))
			}
		}
		select {
		case <-done:
			over = true
		case <-time.After(time.Duration(random.IntN(200)) * time.Millisecond):
		}
	}
	total := 0
	for _, label := range labels {
		n := applied(srv, label)
		total += n
		require.LessOrEqual(t, certain[label], n)
		require.LessOrEqual(t, n, certain[label]+unknown[label])
		if !expire {
			require.Zero(t, unknown[label])
		}
	}
	require.Equal(t, fmt.Sprint(total), stored(t, srv, path))
	t.Log(certain, unknown, strings.Join(srv.Children(path), " "))
}

// Close gives up behind an Add that takes long. It reports that the removal continues.
func TestClose_BehindAnAdd_GoesOn(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c, err := value.NewCounter(bubble.Dial(t, srv, "a"), path, value.AtomicLong())
		require.NoError(t, err)
		_, err = c.Add(t.Context(), 1)
		require.NoError(t, err)
		require.Len(t, srv.Children(path), 1)
		srv.Intercept(zktest.Match{Op: zktest.OpMulti}, zktest.HoldReply(2*time.Second))
		added := make(chan error, 1)
		go func() {
			_, err := c.Add(context.Background(), 1)
			added <- err
		}()
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, c.Close(ctx), context.DeadlineExceeded)
		require.NoError(t, <-added)
		time.Sleep(time.Minute)
		require.Empty(t, srv.Children(path))
	})
}

// The context has already ended and no Add is running. The marker is removed whichever of the two Close notices first.
func TestClose_DeadContext_GoesOn(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for range 50 {
			c := counter(t, srv, "a")
			add(t, c, 1)
			_ = c.Close(ctx)
		}
		time.Sleep(time.Minute)
		require.Empty(t, srv.Children(path))
	})
}

// The server fails each attempt to create the node.
func TestAdd_ServerFaultAtTheNode_IsNotRepeatedForEver(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := counter(t, srv, "a")
		_, err := srv.Create("/app", nil, zktest.Persistent)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		tries := 0
		srv.Intercept(zktest.Match{Op: zktest.OpCreate, Path: "^" + path + "/", Times: -1},
			zktest.Before(func(zktest.Request) {
				if tries++; tries == 1000 {
					cancel()
				}
			}))
		srv.Intercept(zktest.Match{Op: zktest.OpCreate, Path: "^" + path + "$", Times: -1}, zktest.Fail(-1))
		_, err = c.Add(ctx, 1)
		require.Error(t, err)
		require.Less(t, tries, 1000)
	})
}

// The session lives on, and so does the marker.
func TestCounter_Close_SubIsClosed(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		sub, err := bubble.Dial(t, srv, "a").Sub("/app")
		require.NoError(t, err)
		c, err := value.NewCounter(sub, "/hits", value.KazooCounter())
		require.NoError(t, err)
		_, err = c.Add(t.Context(), 1)
		require.NoError(t, err)
		require.NoError(t, sub.Close())
		require.ErrorIs(t, c.Close(t.Context()), zkrecipes.ErrClosed)
		require.Len(t, srv.Children("/app/hits"), 1)
	})
}
