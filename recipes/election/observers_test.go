package election_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/election"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// On a resignation each observer reads two nodes, and none lists the candidates.
func TestWatch_ManyObserversOfManyCandidates(t *testing.T) {
	const sessions, observers, candidates = 10, 10, 100
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		leader := elected(t, campaign(t, join(t, srv, "a")))
		next := campaign(t, join(t, srv, "b"))
		for range candidates - 2 {
			_, err := srv.Create(path+"/_c_0f8fad5b-d9cb-469f-a165-70867728950e-latch-", []byte("c"),
				zktest.PersistentSequential)
			require.NoError(t, err)
		}
		var told []func() []string
		for i := range sessions {
			c := bubble.Dial(t, srv, "o")
			for j := range observers {
				e, err := election.New(c, path) // separate objects, as in a program with many parts
				require.NoError(t, err, fmt.Sprint(i, j))
				told = append(told, observe(t, e))
			}
		}
		for _, views := range told {
			require.Equal(t, []string{"a"}, views())
		}
		srv.SetLatency(time.Millisecond)
		from := zktest.Label("o")
		lists := srv.Intercept(zktest.Match{From: from, Op: zktest.OpGetChildren2, Times: -1}, zktest.Proceed())
		reads := srv.Intercept(zktest.Match{From: from, Op: zktest.OpGetData, Times: -1}, zktest.Proceed())
		require.NoError(t, leader.Release(t.Context()))
		elected(t, next)
		time.Sleep(time.Second)
		for _, views := range told {
			require.Equal(t, []string{"a", "none", "b"}, views())
		}
		require.Zero(t, lists.Hits())
		require.Equal(t, 2*sessions*observers, reads.Hits(), "the old leader and the new one")

		time.Sleep(10 * bubble.Timeout) // every observer rechecks, because an event may have been lost
		require.Zero(t, lists.Hits())
		synctest.Wait()
	})
}

// seat creates the nodes of candidates by hand.
func seat(t *testing.T, srv *zktest.Server, names ...string) {
	t.Helper()
	for _, name := range names {
		_, err := srv.Create(path+"/"+name, []byte(name), zktest.Persistent)
		require.NoError(t, err)
	}
}

// inElection runs f on an election of three numbered candidates, with a client whose lists are counted.
func inElection(t *testing.T, f func(t *testing.T, srv *zktest.Server, c *conn.Client, lists *zktest.Rule)) {
	t.Helper()
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		for _, parent := range []string{"/app", path} {
			_, err := srv.Create(parent, nil, zktest.Persistent)
			require.NoError(t, err)
		}
		seat(t, srv, "latch-0000000007", "latch-0000000008", "latch-0000000009")
		rule := srv.Intercept(zktest.Match{From: zktest.Label("w"), Op: zktest.OpGetChildren2, Times: -1}, zktest.Proceed())
		f(t, srv, bubble.Dial(t, srv, "w"), rule)
	})
}

// observer returns a separate election object.
func observer(t *testing.T, c *conn.Client) *election.Election {
	t.Helper()
	e, err := election.New(c, path)
	require.NoError(t, err)
	return e
}

// If the next candidate has left as well, the candidates are listed again.
func TestWatch_TheNextHasLeftToo(t *testing.T) {
	inElection(t, func(t *testing.T, srv *zktest.Server, c *conn.Client, lists *zktest.Rule) {
		told := observe(t, observer(t, c))
		require.Equal(t, []string{"latch-0000000007"}, told())
		_, err := bubble.Dial(t, srv, "x").Multi(t.Context(),
			zkrecipes.OpDelete(path+"/latch-0000000007", -1), zkrecipes.OpDelete(path+"/latch-0000000008", -1))
		require.NoError(t, err)
		require.Equal(t, []string{"latch-0000000007", "none", "latch-0000000009"}, told())
		require.Equal(t, 2, lists.Hits())
		require.NoError(t, srv.Delete(path+"/latch-0000000009"))
		require.Equal(t, []string{"latch-0000000007", "none", "latch-0000000009", "none"}, told())
		seat(t, srv, "latch-0000000010")
		require.Equal(t, "latch-0000000010", told()[4])
	})
}

// The parent was created again, so its numbers start over. A candidate with a known name is a different one.
func TestWatch_AnotherParent(t *testing.T) {
	inElection(t, func(t *testing.T, srv *zktest.Server, c *conn.Client, _ *zktest.Rule) {
		told := observe(t, observer(t, c))
		require.Equal(t, []string{"latch-0000000007"}, told())
		reading := make(chan struct{})
		srv.Intercept(zktest.Match{From: zktest.Label("w"), Op: zktest.OpGetData}, zktest.DelayUntil(reading))
		require.NoError(t, srv.DeleteAll(path))
		synctest.Wait()
		_, err := srv.Create(path, nil, zktest.Persistent)
		require.NoError(t, err)
		seat(t, srv, "latch-0000000003", "latch-0000000007", "latch-0000000008")
		close(reading)
		require.Equal(t, []string{"latch-0000000007", "none", "latch-0000000003"}, told())
	})
}

// When some observers stop, the others of their session are not disturbed and see every later leader.
func TestWatch_SomeObserversStop(t *testing.T) {
	inElection(t, func(t *testing.T, srv *zktest.Server, c *conn.Client, _ *zktest.Rule) {
		srv.SetLatency(time.Millisecond)
		ctx, stop := context.WithCancel(t.Context())
		var stopped sync.WaitGroup
		var told []func() []string
		for range 5 {
			told = append(told, observe(t, observer(t, c)))
			stopped.Go(func() {
				for _, err := range observer(t, c).Watch(ctx) { // until it is stopped
					assert.NoError(t, err)
				}
			})
		}
		time.Sleep(time.Second)
		sent := bubble.Requests(srv)
		stop()
		stopped.Wait()
		time.Sleep(time.Second)
		require.Zero(t, sent.Hits())
		require.NoError(t, srv.Delete(path+"/latch-0000000007"))
		time.Sleep(time.Second)
		for _, views := range told {
			require.Equal(t, []string{"latch-0000000007", "none", "latch-0000000008"}, views())
		}
	})
}

// When the last observer stops, its watch is removed from the server.
func TestWatch_LastObserverStops(t *testing.T) {
	inElection(t, func(t *testing.T, srv *zktest.Server, c *conn.Client, _ *zktest.Rule) {
		e := observer(t, c)
		for _, leader := range []string{"latch-0000000007", "latch-0000000008", "latch-0000000009"} {
			for view, err := range e.Watch(t.Context()) {
				require.NoError(t, err)
				require.Equal(t, leader, view.Leader.Name)
				break
			}
			synctest.Wait()
			watches, _ := srv.Watches()
			require.Zero(t, watches)
			require.NoError(t, srv.Delete(path+"/"+leader))
		}
	})
}

// An observer keeps the first 100 candidates, and lists again when these have gone.
func TestWatch_MoreCandidatesThanAreKept(t *testing.T) {
	inElection(t, func(t *testing.T, srv *zktest.Server, c *conn.Client, lists *zktest.Rule) {
		const first, last = 7, 157
		for n := 10; n <= last; n++ {
			seat(t, srv, fmt.Sprintf("latch-%010d", n))
		}
		told := observe(t, observer(t, c))
		for n := first; n <= last; n++ {
			leader := fmt.Sprintf("latch-%010d", n)
			require.Equal(t, leader, told()[2*(n-first)])
			require.NoError(t, srv.Delete(path+"/"+leader))
		}
		require.Equal(t, "none", told()[2*(last-first)+1])
		require.Equal(t, 4, lists.Hits(), "two for the candidates, and two to find that there is none")
	})
}

// If one observer gives up while it reads, the others of its session continue, and inherit the watch.
func TestWatch_GivesUpDuringAReading(t *testing.T) {
	inElection(t, func(t *testing.T, srv *zktest.Server, c *conn.Client, _ *zktest.Rule) {
		answers := make(chan struct{})
		srv.Intercept(zktest.Match{From: zktest.Label("w"), Op: zktest.OpGetData}, zktest.HoldReplyUntil(answers))
		var stops []context.CancelFunc
		for range 3 {
			ctx, stop := context.WithCancel(t.Context())
			stops = append(stops, stop)
			go func() {
				for _, err := range observer(t, c).Watch(ctx) { // until it is stopped
					assert.NoError(t, err)
				}
			}()
		}
		synctest.Wait()
		stops[0]()
		synctest.Wait()
		close(answers)
		time.Sleep(time.Second)
		stops[1]()
		stops[2]()
		time.Sleep(time.Second)
		total, _ := srv.Watches()
		require.Zero(t, total)
	})
}

// The observer gets the error. If the session ends instead, the next one answers.
func TestWatch_ReadingFails(t *testing.T) {
	inElection(t, func(t *testing.T, srv *zktest.Server, c *conn.Client, lists *zktest.Rule) {
		lists.Remove()
		srv.Intercept(zktest.Match{From: zktest.Label("w"), Op: zktest.OpGetChildren2},
			zktest.Before(func(r zktest.Request) { srv.Expire(r.Session) }))
		told := observe(t, observer(t, c))
		time.Sleep(time.Second)
		require.Equal(t, []string{"latch-0000000007"}, told())

		srv.Intercept(zktest.Match{From: zktest.Label("w"), Op: zktest.OpGetData}, zktest.Fail(zktest.CodeNoAuth))
		require.NoError(t, srv.Set(path+"/latch-0000000007", nil))
		require.Len(t, told(), 2)
		require.Contains(t, told()[1], "error: ")

		told = observe(t, observer(t, c))
		srv.Intercept(zktest.Match{From: zktest.Label("w"), Op: zktest.OpGetData}, zktest.Ignore())
		require.NoError(t, srv.Set(path+"/latch-0000000007", []byte("x")))
		synctest.Wait()
		require.NoError(t, c.Close())
		list := told()
		require.Contains(t, list[len(list)-1], zkrecipes.ErrClosed.Error())
	})
}
