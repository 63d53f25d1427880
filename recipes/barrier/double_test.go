package barrier_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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
	"github.com/zkrecipes/zkrecipes/recipes/barrier"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// double returns the double barrier of n members as seen by a separate client.
func double(t *testing.T, srv *zktest.Server, label string, n int) *barrier.Double {
	t.Helper()
	d, err := barrier.NewDouble(bubble.Dial(t, srv, label), path, n)
	require.NoError(t, err)
	return d
}

// entry is a call of Enter on another goroutine.
type entry struct {
	round *barrier.Round
	err   error
	done  chan struct{}
}

func enter(ctx context.Context, d *barrier.Double) *entry {
	e := &entry{done: make(chan struct{})}
	go func() {
		defer close(e.done)
		e.round, e.err = d.Enter(ctx)
	}()
	synctest.Wait()
	return e
}

func (e *entry) requireIn(t *testing.T) *barrier.Round {
	t.Helper()
	synctest.Wait()
	select {
	case <-e.done:
	default:
		t.Fatal("want it to be in")
	}
	require.NoError(t, e.err)
	require.NoError(t, e.round.Err())
	return e.round
}

func (e *entry) requireWaits(t *testing.T) {
	t.Helper()
	synctest.Wait()
	select {
	case <-e.done:
		t.Fatalf("want it to wait: %v, %v", e.round, e.err)
	default:
	}
}

// Three members enter together and leave together.
func TestDouble(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b, c := double(t, srv, "a", 3), double(t, srv, "b", 3), double(t, srv, "c", 3)
		var last int64
		for range 3 {
			first, second := enter(t.Context(), a), enter(t.Context(), b)
			time.Sleep(time.Hour)
			first.requireWaits(t)
			second.requireWaits(t)
			third := enter(t.Context(), c)
			rounds := []*barrier.Round{first.requireIn(t), second.requireIn(t), third.requireIn(t)}
			require.Equal(t, rounds[0].Number(), rounds[1].Number())
			require.Equal(t, rounds[0].Number(), rounds[2].Number())
			require.Greater(t, rounds[0].Number(), last)
			last = rounds[0].Number()
			left := begin(func() error { return rounds[1].Leave(t.Context()) })
			leaving := begin(func() error { return rounds[0].Leave(t.Context()) })
			time.Sleep(time.Hour)
			requireWaits(t, left)
			requireWaits(t, leaving)
			require.NoError(t, rounds[2].Leave(t.Context()))
			requireDone(t, left)
			requireDone(t, leaving)
			require.Empty(t, srv.Children(path))
		}
	})
}

// Seven members arrive for rounds of three. Two rounds begin, and the seventh waits for two more.
func TestDouble_ManyAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		srv.SetLatency(3 * time.Millisecond)
		var entries []*entry
		for i := range 7 {
			d := double(t, srv, fmt.Sprint("c", i), 3)
			e := &entry{done: make(chan struct{})}
			entries = append(entries, e)
			go func() {
				defer close(e.done)
				e.round, e.err = d.Enter(t.Context())
			}()
		}
		time.Sleep(time.Minute)
		sizes, waiting := map[int64]int{}, 0
		for _, e := range entries {
			select {
			case <-e.done:
				require.NoError(t, e.err)
				sizes[e.round.Number()]++
			default:
				waiting++
			}
		}
		require.Len(t, sizes, 2)
		for number, n := range sizes {
			require.Equal(t, 3, n, "round %d", number)
		}
		require.Equal(t, 1, waiting)
	})
}

// Members that are in a round do not count for the next one, and members of the old round need not wait until those of
// the new one leave.
func TestDouble_NextRoundWhileTheOldOneIsIn(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := double(t, srv, "a", 2), double(t, srv, "b", 2)
		x, y := enter(t.Context(), a), enter(t.Context(), b)
		old := []*barrier.Round{x.requireIn(t), y.requireIn(t)}
		z := enter(t.Context(), a)
		z.requireWaits(t)
		w := enter(t.Context(), b)
		require.Equal(t, z.requireIn(t).Number(), w.requireIn(t).Number())
		left := begin(func() error { return old[0].Leave(t.Context()) })
		requireWaits(t, left)
		also := begin(func() error { return old[1].Leave(t.Context()) })
		requireDone(t, also)
		requireDone(t, left)
		require.Len(t, srv.Children(path), 2)
	})
}

// What a crashed round left behind does not admit a lone member.
func TestDouble_RoundHasCrashed(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := double(t, srv, "a", 2), double(t, srv, "b", 2)
		x, y := enter(t.Context(), a), enter(t.Context(), b)
		first := x.requireIn(t)
		y.requireIn(t)
		srv.Expire(srv.SessionOf("a"))
		<-first.Done()
		left := begin(func() error { return first.Leave(t.Context()) })
		time.Sleep(time.Second) // a request of the old session is retried after a pause
		requireWaits(t, left)
		srv.Expire(srv.SessionOf("b"))
		_, err := left()
		require.ErrorIs(t, err, zkrecipes.ErrLost)
		z := enter(t.Context(), double(t, srv, "c", 2))
		time.Sleep(time.Hour)
		z.requireWaits(t)
	})
}

// A member that has given up is not counted.
func TestDouble_ContextEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b, c := double(t, srv, "a", 2), double(t, srv, "b", 2), double(t, srv, "c", 2)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := a.Enter(ctx)
		var waited *zkrecipes.WaitError
		require.ErrorAs(t, err, &waited)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 1, waited.Position)
		require.Equal(t, 1, waited.Queue)
		e := enter(t.Context(), b)
		time.Sleep(time.Hour)
		e.requireWaits(t)
		enter(t.Context(), c).requireIn(t)
		e.requireIn(t)
	})
}

// When Enter returns, its node is gone. If the server does not answer, Enter does not wait long.
func TestEnter_ContextEnds_NodeIsGone(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		d := double(t, srv, "a", 2)
		srv.SetLatency(30 * time.Millisecond)
		attempt := func() time.Duration {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			began := time.Now()
			_, err := d.Enter(ctx)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			return time.Since(began) - time.Minute
		}
		attempt()
		require.Empty(t, srv.Children(path))
		srv.Intercept(zktest.Match{Op: zktest.OpDelete}, zktest.HoldReply(time.Second))
		require.Equal(t, 100*time.Millisecond, attempt())
	})
}

var letIn = zktest.Match{Op: zktest.OpMulti, Path: "^" + path + "/"}

// A member leaves after the members were counted. The round does not begin.
func TestEnter_MemberGoesAtTheLastMoment(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b, c := double(t, srv, "a", 2), double(t, srv, "b", 2), double(t, srv, "c", 2)
		ctx, cancel := context.WithCancel(t.Context())
		gone := enter(ctx, a)
		gone.requireWaits(t)
		deleted := make(chan struct{})
		srv.Intercept(zktest.Match{From: zktest.Label("a"), Op: zktest.OpDelete},
			zktest.After(func(zktest.Request) { close(deleted) }))
		srv.Intercept(letIn, zktest.Before(func(zktest.Request) {
			cancel()
			<-deleted
		}))
		e := enter(t.Context(), b)
		time.Sleep(time.Hour)
		e.requireWaits(t)
		require.Len(t, srv.Children(path), 1)
		enter(t.Context(), c).requireIn(t)
		e.requireIn(t)
	})
}

// The connection of the member that completes the round breaks at each of its requests.
func TestEnter_RequestOrReplyLost(t *testing.T) {
	for name, action := range map[string]zktest.Action{
		"not applied": zktest.DropRequest(), "applied": zktest.DropReply(),
	} {
		for skip := range 8 {
			t.Run(fmt.Sprint(name, skip), func(t *testing.T) {
				inBubble(t, func(t *testing.T, srv *zktest.Server) {
					a, b := double(t, srv, "a", 2), double(t, srv, "b", 2)
					x := enter(t.Context(), a)
					srv.Intercept(zktest.Match{From: zktest.Label("b"), Skip: skip}, action)
					y := enter(t.Context(), b)
					time.Sleep(time.Minute)
					first, second := x.requireIn(t), y.requireIn(t)
					require.Equal(t, first.Number(), second.Number())
					left := begin(func() error { return first.Leave(t.Context()) })
					requireWaits(t, left)
					require.NoError(t, second.Leave(t.Context()))
					requireDone(t, left)
					require.Len(t, begun(t, srv, 2), 1)
				})
			})
		}
	}
}

// The request of the member that completes the round is swallowed. The others check again by themselves.
func TestEnter_RequestSwallowed(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b, c := double(t, srv, "a", 3), double(t, srv, "b", 3), double(t, srv, "c", 3)
		x, y := enter(t.Context(), a), enter(t.Context(), b)
		m := letIn
		m.From = zktest.Label("c")
		srv.Intercept(m, zktest.Ignore())
		_ = enter(t.Context(), c) // waits for the answer
		time.Sleep(4 * bubble.Timeout)
		require.Equal(t, x.requireIn(t).Number(), y.requireIn(t).Number())
	})
}

// A member that was admitted finds out by itself.
func TestEnter_EventLost(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		x := enter(t.Context(), double(t, srv, "a", 2))
		require.Equal(t, 1, srv.LoseWatch(zktest.Label("a"), path+"/"+srv.Children(path)[0]))
		y := enter(t.Context(), double(t, srv, "b", 2))
		y.requireIn(t)
		x.requireWaits(t)
		time.Sleep(3 * bubble.Timeout)
		require.Equal(t, y.round.Number(), x.requireIn(t).Number())
	})
}

// A member whose session ends while it waits enters again.
func TestEnter_SessionEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := double(t, srv, "a", 2), double(t, srv, "b", 2)
		x := enter(t.Context(), a)
		srv.Expire(srv.SessionOf("a"))
		time.Sleep(time.Minute)
		x.requireWaits(t)
		require.Len(t, srv.Children(path), 1)
		enter(t.Context(), b).requireIn(t)
		x.requireIn(t)
	})
}

// The caller gets the error of the server, and is out of the queue.
func TestEnter_MemberCannotBeRead(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		x := enter(t.Context(), double(t, srv, "a", 2))
		srv.Intercept(zktest.Match{From: zktest.Label("b"), Op: zktest.OpGetData, Path: srv.Children(path)[0]},
			zktest.Fail(zktest.CodeNoAuth))
		_, err := double(t, srv, "b", 2).Enter(t.Context())
		require.ErrorIs(t, err, zk.ErrNoAuth)
		require.Len(t, srv.Children(path), 1)
		x.requireWaits(t)
		enter(t.Context(), double(t, srv, "c", 2)).requireIn(t)
		x.requireIn(t)
	})
}

// The error quotes what the node holds.
func TestEnter_NodeChangedByHand(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		x := enter(t.Context(), double(t, srv, "a", 2))
		require.NoError(t, srv.Set(path+"/"+srv.Children(path)[0], []byte("hello")))
		synctest.Wait()
		<-x.done
		require.ErrorContains(t, x.err, `"hello"`)
	})
}

// A create that was sent again may create a second node, late. It does not count as a second member.
func TestEnter_LateCopyOfAMember(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		client := bubble.Dial(t, srv, "a")
		d, err := barrier.NewDouble(client, path, 2)
		require.NoError(t, err)
		x, y := enter(t.Context(), d), enter(t.Context(), double(t, srv, "b", 2))
		first, second := x.requireIn(t), y.requireIn(t)
		made, _, _ := strings.Cut(first.Path(), "member-")
		_, err = client.Create(t.Context(), made+"member-", nil, zk.FlagEphemeral|zk.FlagSequence)
		require.NoError(t, err)
		z := enter(t.Context(), double(t, srv, "c", 2))
		z.requireWaits(t)
		w := enter(t.Context(), double(t, srv, "d", 2))
		require.Equal(t, z.requireIn(t).Number(), w.requireIn(t).Number())
		require.NotEqual(t, second.Number(), z.round.Number())
	})
}

// A node that was restored by hand is not a member, because it would not end with a session.
func TestEnter_PersistentNode(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		e := enter(t.Context(), double(t, srv, "a", 2))
		e.requireWaits(t)
		name := srv.Children(path)[0]
		digit := "0"
		if name[3:4] == digit {
			digit = "1"
		}
		_, err := srv.Create(path+"/"+name[:3]+digit+name[4:len(name)-1]+"7", nil, zktest.Persistent)
		require.NoError(t, err)
		time.Sleep(10 * time.Minute)
		e.requireWaits(t)
	})
}

func TestEnter_WithData(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		d, err := barrier.NewDouble(bubble.Dial(t, srv, "a"), path, 2, barrier.WithData([]byte("step-1/a")))
		require.NoError(t, err)
		enter(t.Context(), d).requireWaits(t)
		members := srv.Children(path)
		require.Len(t, members, 1)
		node, ok := srv.Node(path + "/" + members[0])
		require.True(t, ok)
		require.Contains(t, string(node.Data), "step-1/a")
	})
}

// Servers hang up on the transaction. The member that sends it gives up, so that others can continue.
func TestEnter_RoundIsTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory(), zktest.WithMaxBuffer(70<<10))
		var entries []*entry
		for _, label := range []string{"a", "b"} {
			d, err := barrier.NewDouble(bubble.Dial(t, srv, label), path, 2, barrier.WithData(make([]byte, 40<<10)))
			require.NoError(t, err)
			entries = append(entries, enter(t.Context(), d))
		}
		time.Sleep(time.Minute)
		entries[0].requireWaits(t)
		<-entries[1].done
		require.ErrorContains(t, entries[1].err, "jute.maxbuffer")
		require.Len(t, srv.Children(path), 1)
	})
}

// Sequence numbers start over when the parent is created again. Its members belong to no earlier round.
func TestLeave_ParentMadeAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		x, y := enter(t.Context(), double(t, srv, "a", 2)), enter(t.Context(), double(t, srv, "b", 2))
		first, second := x.requireIn(t), y.requireIn(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, first.Leave(ctx), context.Canceled)
		require.ErrorIs(t, second.Leave(ctx), context.Canceled)
		synctest.Wait()
		require.NoError(t, srv.Delete(path))
		z, w := enter(t.Context(), double(t, srv, "c", 2)), enter(t.Context(), double(t, srv, "d", 2))
		z.requireIn(t)
		w.requireIn(t)
		requireDone(t, begin(func() error { return first.Leave(t.Context()) }))
	})
}

// A tracer is notified of the entry as of every acquisition.
func TestEnter_IsTraced(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		var ends []zkrecipes.AcquireEnd // of one caller
		tracer := &zkrecipes.Tracer{AcquireEnd: func(_ context.Context, e zkrecipes.AcquireEnd) { ends = append(ends, e) }}
		d, err := barrier.NewDouble(bubble.Dial(t, srv, "b", conn.WithTracer(tracer)), path, 2,
			barrier.WithTracerName("step"))
		require.NoError(t, err)
		x := enter(t.Context(), double(t, srv, "a", 2))
		y := enter(t.Context(), d)
		x.requireIn(t)
		round := y.requireIn(t)
		require.Len(t, ends, 1)
		e := ends[0]
		require.Equal(t, zkrecipes.AcquireStart{Recipe: "barrier", Name: "step", Path: path}, e.AcquireStart)
		require.Equal(t, round.Token(), e.Token)
		require.Equal(t, 2, e.Position)
		require.NoError(t, e.Err)
	})
}

// A member that leaves finds out by itself that the last of the others has gone.
func TestLeave_EventLost(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		x, y := enter(t.Context(), double(t, srv, "a", 2)), enter(t.Context(), double(t, srv, "b", 2))
		first, second := x.requireIn(t), y.requireIn(t)
		left := begin(func() error { return first.Leave(t.Context()) })
		requireWaits(t, left)
		require.Equal(t, 1, srv.LoseWatch(zktest.Label("a"), second.Path()))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, second.Leave(ctx), context.Canceled, "it leaves all the same")
		requireWaits(t, left)
		time.Sleep(3 * bubble.Timeout)
		requireDone(t, left)
		require.NoError(t, second.Leave(t.Context()), "it may go on waiting")
	})
}

// A member that has left waits for the others in the next session.
func TestLeave_SessionEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		x, y := enter(t.Context(), double(t, srv, "a", 2)), enter(t.Context(), double(t, srv, "b", 2))
		first, second := x.requireIn(t), y.requireIn(t)
		left := begin(func() error { return first.Leave(t.Context()) })
		requireWaits(t, left)
		srv.Expire(srv.SessionOf("a"))
		time.Sleep(bubble.Timeout)
		requireWaits(t, left)
		require.NoError(t, second.Leave(t.Context()))
		requireDone(t, left)
	})
}

// begun returns the rounds of the server's history: the members that one transaction admitted. It requires that each
// round has n members, that all of them existed, and that none was admitted before.
func begun(t *testing.T, srv *zktest.Server, n int) map[int64][]string {
	t.Helper()
	rounds, there, in := map[int64][]string{}, map[string]bool{}, map[string]bool{}
	for _, txn := range srv.History() {
		for _, c := range txn.Changes {
			if !strings.HasPrefix(c.Path, path+"/") {
				continue
			}
			switch c.Kind {
			case zktest.ChangeCreate:
				there[c.Path] = true
			case zktest.ChangeDelete:
				delete(there, c.Path)
			case zktest.ChangeSet:
				require.True(t, there[c.Path], "%s was not there", c.Path)
				require.False(t, in[c.Path], "%s was let in before", c.Path)
				in[c.Path] = true
				rounds[txn.Zxid] = append(rounds[txn.Zxid], c.Path)
			case zktest.ChangeACL:
			}
		}
	}
	for number, members := range rounds {
		require.Len(t, members, n, "round %d", number)
	}
	return rounds
}

// Members enter and leave while connections break and sessions end. Each member that is in is in one round of the
// server's history, and none is stuck.
func TestDouble_UnderFaults(t *testing.T) {
	seeds := uint64(8)
	if bubble.Race {
		seeds = 2
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) { doubleUnderFaults(t, srv, rand.New(rand.NewPCG(seed, 5))) })
		})
	}
}

func doubleUnderFaults(t *testing.T, srv *zktest.Server, random *rand.Rand) {
	t.Helper()
	srv.SetLatency(5 * time.Millisecond)
	const n = 3
	labels := []string{"a", "b", "c", "d", "e"}
	var mu sync.Mutex
	entered := map[string]int64{} // by path
	var members sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	for _, label := range labels {
		d := double(t, srv, label, n)
		members.Go(func() {
			for ctx.Err() == nil {
				time.Sleep(100 * time.Millisecond)
				trying, cancel := context.WithTimeout(ctx, 30*time.Second)
				round, err := d.Enter(trying)
				cancel()
				if err != nil {
					if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
						t.Error(err)
					}
					continue
				}
				mu.Lock()
				entered[round.Path()] = round.Number()
				mu.Unlock()
				if err := round.Leave(ctx); err != nil && !errors.Is(err, zkrecipes.ErrLost) && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			}
		})
	}
	for range 60 {
		i := random.IntN(len(labels))
		who := zktest.Label(labels[i])
		lost := zktest.Match{From: who, Skip: random.IntN(5), Op: []zktest.Op{zktest.OpAny, zktest.OpMulti}[random.IntN(2)]}
		switch random.IntN(7) {
		case 0:
			srv.Cut(who)
		case 1:
			srv.Intercept(lost, zktest.DropReply())
		case 2:
			srv.Intercept(lost, zktest.DropRequest())
		case 3:
			srv.Expire(srv.SessionOf(labels[i]))
		case 4:
			srv.Intercept(lost, zktest.HoldReply(2*time.Second))
		case 5:
			srv.Restart()
		case 6:
			srv.Freeze()
			time.Sleep(time.Second)
			srv.Thaw()
		}
		time.Sleep(time.Duration(random.IntN(500)) * time.Millisecond)
	}
	quiet := time.Now()
	time.Sleep(time.Minute)
	rounds := begun(t, srv, n)
	after := 0
	for _, txn := range srv.History() {
		if _, ok := rounds[txn.Zxid]; ok && txn.Time.After(quiet.Add(40*time.Second)) {
			after++
		}
	}
	require.Positive(t, after, "none is stuck")
	stop()
	members.Wait()
	time.Sleep(bubble.Timeout) // the nodes of members that have given up are being removed
	for member, number := range entered {
		require.Contains(t, rounds[number], member)
	}
	t.Log(len(rounds), "rounds,", len(entered), "entries")
	require.Empty(t, srv.Children(path))
}
