package client_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/internal/testkit/trial"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// following is a Follow on a separate goroutine.
type following struct {
	*testing.T
	views trial.Log[conn.Node]
	// The caller is busy with a view until it receives a value; nil means never.
	busy  chan struct{}
	ended chan struct{}
	err   error // valid once ended is closed
}

func follow(t *testing.T, c *conn.Client, path string) *following {
	t.Helper()
	return followWith(t.Context(), t, c, path, nil)
}

func followWith(ctx context.Context, t *testing.T, c *conn.Client, path string, busy chan struct{}) *following {
	t.Helper()
	f := &following{T: t, busy: busy, ended: make(chan struct{})}
	go func() {
		defer close(f.ended)
		for n, err := range c.Watch(ctx, path) {
			if err != nil {
				f.err = err
				continue // it must be the last
			}
			f.views.Add(n)
			if f.busy != nil {
				<-f.busy
			}
		}
	}()
	synctest.Wait()
	return f
}

// words describes the views: the data or "none", with "?" if the view is not current.
func (f *following) words() []string {
	synctest.Wait()
	var list []string
	for _, n := range f.views.Values() {
		word := "none"
		if n.Exists {
			word = string(n.Data)
		}
		if !n.Current {
			word += "?"
		}
		list = append(list, word)
	}
	return list
}

func (f *following) requireTold(words ...string) {
	f.Helper()
	require.Equal(f, words, f.words())
}

func (f *following) last() conn.Node {
	list := f.views.Values()
	return list[len(list)-1]
}

// set changes the data of /a.
func set(t *testing.T, srv *zktest.Server, data string) {
	t.Helper()
	require.NoError(t, srv.Set("/a", []byte(data)))
	synctest.Wait()
}

func remove(t *testing.T, srv *zktest.Server, path string) {
	t.Helper()
	require.NoError(t, srv.Delete(path))
	synctest.Wait()
}

func TestFollow_EveryChangeIsTold(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		f := follow(t, trial.Dial(t, srv), "/a")
		trial.Create(t, srv, "/a", "1")
		set(t, srv, "2")
		set(t, srv, "2")
		trial.Create(t, srv, "/a/child", "")
		remove(t, srv, "/a/child")
		remove(t, srv, "/a")
		trial.Create(t, srv, "/a", "2")
		f.requireTold("none", "1", "2", "2", "none", "2")
		n, _ := srv.Node("/a")
		require.Equal(t, n.Stat.Czxid, f.last().Stat.Czxid)
		require.Equal(t, time.Now(), f.last().AsOf)
	})
}

// TestFollow_NothingChanges_OneReadAndOneWatch: for an hour the only reads are those that check for lost events.
func TestFollow_NothingChanges_OneReadAndOneWatch(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		trial.Create(t, srv, "/a", "1")
		c := trial.Dial(t, srv)
		all := srv.Intercept(zktest.Match{Times: -1}, zktest.Proceed())
		f := follow(t, c, "/a")
		require.Equal(t, 1, all.Hits())
		require.Equal(t, 1, trial.Watches(srv))
		time.Sleep(time.Hour)
		f.requireTold("1")
		require.Equal(t, 1, trial.Watches(srv))
		require.LessOrEqual(t, all.Hits(), int(time.Hour/(2*trial.Timeout))+1)
	})
}

// TestFollow_CreatedBetweenTheReads: the node was missing when it was read, but not when its creation was watched.
func TestFollow_CreatedBetweenTheReads(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		srv.Intercept(zktest.Match{Op: zktest.OpExists}, zktest.Before(func(zktest.Request) {
			_, err := srv.Create("/a", []byte("1"), zktest.Persistent)
			require.NoError(t, err)
		}))
		f := follow(t, trial.Dial(t, srv), "/a")
		f.requireTold("1")
		require.Equal(t, 1, trial.Watches(srv))
		set(t, srv, "2")
		f.requireTold("1", "2")
	})
}

// TestFollow_SlowCaller_GetsTheNewest: views that it missed are not kept for it.
func TestFollow_SlowCaller_GetsTheNewest(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		trial.Create(t, srv, "/a", "0")
		busy := make(chan struct{})
		f := followWith(t.Context(), t, trial.Dial(t, srv), "/a", busy)
		for i := range 100 {
			set(t, srv, strconv.Itoa(i))
		}
		busy <- struct{}{}
		f.requireTold("0", "99")
		// The same data, in a different node.
		remove(t, srv, "/a")
		trial.Create(t, srv, "/a", "99")
		busy <- struct{}{}
		f.requireTold("0", "99", "99")
		all := f.views.Values()
		require.NotEqual(t, all[1].Stat.Czxid, all[2].Stat.Czxid)
		close(busy)
	})
}

// TestFollow_SlowCallerAndSlowReading_GetsNothingOldAsCurrent: a read ends while the caller is busy with an outdated
// view, and the node changes after it.
func TestFollow_SlowCallerAndSlowReading_GetsNothingOldAsCurrent(t *testing.T) {
	faults := map[string]struct {
		happens func(t *testing.T, srv *zktest.Server)
		told    []string
	}{
		"changed": {func(t *testing.T, srv *zktest.Server) { set(t, srv, "3") }, []string{"1", "1?", "3"}},
		"disconnected": {
			func(_ *testing.T, srv *zktest.Server) { trial.CutOff(srv, trial.Ours) },
			[]string{"1", "1?"},
		},
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			trial.Run(t, func(t *testing.T, srv *zktest.Server) {
				trial.Create(t, srv, "/a", "1")
				busy := make(chan struct{})
				f := followWith(t.Context(), t, trial.Dial(t, srv), "/a", busy)
				busy <- struct{}{}
				answer := make(chan struct{})
				srv.Intercept(zktest.Match{Op: zktest.OpGetData}, zktest.DelayUntil(answer))
				set(t, srv, "2")
				time.Sleep(trial.Timeout / 8)
				f.requireTold("1", "1?")
				close(answer)
				synctest.Wait()
				require.Equal(t, 1, trial.Watches(srv), "the reading has ended")
				fault.happens(t, srv)
				synctest.Wait()
				busy <- struct{}{}
				f.requireTold(fault.told...)
				close(busy)
			})
		})
	}
}

// TestFollow_Outage_IsToldAtOnce: the view has the time up to which the server has confirmed it.
func TestFollow_Outage_IsToldAtOnce(t *testing.T) {
	faults := map[string]struct {
		begins, ends func(srv *zktest.Server)
		after        time.Duration // until it is yielded
	}{
		"cut": {
			func(srv *zktest.Server) { trial.CutOff(srv, trial.Ours) },
			func(srv *zktest.Server) { srv.Accept(trial.Ours) }, 0,
		},
		"expired": {
			func(srv *zktest.Server) { srv.Refuse(trial.Ours); srv.Expire(srv.SessionOf(trial.Label)) },
			func(srv *zktest.Server) { srv.Accept(trial.Ours) }, 0,
		},
		"server away":   {(*zktest.Server).Down, (*zktest.Server).Up, 0},
		"server silent": {(*zktest.Server).Freeze, (*zktest.Server).Thaw, trial.Timeout},
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			trial.Run(t, func(t *testing.T, srv *zktest.Server) {
				trial.Create(t, srv, "/a", "1")
				f := follow(t, trial.Dial(t, srv), "/a")
				time.Sleep(time.Hour)
				began := time.Now()
				fault.begins(srv)
				time.Sleep(fault.after)
				f.requireTold("1", "1?")
				require.False(t, f.last().AsOf.After(began))
				require.WithinDuration(t, began, f.last().AsOf, trial.Timeout/2)
				time.Sleep(3 * trial.Timeout)
				f.requireTold("1", "1?")
				fault.ends(srv)
				time.Sleep(trial.Timeout)
				f.requireTold("1", "1?", "1")
				set(t, srv, "2")
				f.requireTold("1", "1?", "1", "2")
			})
		})
	}
}

// TestFollow_ChangedAndNotReadAgain_IsOutdated: the event has arrived, and the server does not answer the read. From
// then on the last view is known to be outdated.
func TestFollow_ChangedAndNotReadAgain_IsOutdated(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		trial.Create(t, srv, "/a", "1")
		c := trial.Dial(t, srv)
		f := follow(t, c, "/a")
		srv.Intercept(zktest.Match{Op: zktest.OpGetData}, zktest.Ignore())
		time.Sleep(trial.Timeout/3 - time.Second)
		changed := time.Now()
		set(t, srv, "2")
		time.Sleep(trial.Timeout/8 - time.Nanosecond)
		require.Greater(t, c.Status().LastAnswer, changed, "a ping was answered after the change")
		f.requireTold("1")
		time.Sleep(time.Nanosecond)
		f.requireTold("1", "1?")
		require.False(t, f.last().AsOf.After(changed))
		srv.Cut(trial.Ours)
		time.Sleep(trial.Timeout)
		f.requireTold("1", "1?", "2")
	})
}

// TestFollow_EventLost: the change is yielded when the follower reads again on its own.
func TestFollow_EventLost(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		trial.Create(t, srv, "/a", "1")
		f := follow(t, trial.Dial(t, srv), "/a")
		require.Equal(t, 1, srv.LoseWatch(trial.Ours, "/a"))
		set(t, srv, "2")
		f.requireTold("1")
		time.Sleep(3 * trial.Timeout)
		f.requireTold("1", "2")
	})
}

// TestFollow_Many: those that wait read again at a rate that does not grow with their number.
func TestFollow_Many(t *testing.T) {
	const following, most = 6_000, 200
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		trial.Create(t, srv, "/a", "1")
		c := trial.Dial(t, srv)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range following {
			all.Go(func() {
				for _, err := range c.Watch(ctx, "/a") {
					assert.NoError(t, err)
				}
			})
		}
		time.Sleep(5 * trial.Timeout) // each has read again once, and has therefore seen how many wait
		reads := srv.Intercept(zktest.Match{Op: zktest.OpGetData, Times: -1}, zktest.Proceed())
		time.Sleep(40 * time.Second)
		require.Less(t, reads.Hits(), 40*most)
		require.Greater(t, reads.Hits(), 40*most/2)
		cancel()
		all.Wait()
	})
}

func TestFollow_Ends(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		trial.Create(t, srv, "/a", "1")
		c := trial.Dial(t, srv)
		ctx, cancel := context.WithCancel(t.Context())
		cancelled := followWith(ctx, t, c, "/a", nil)
		cancel()
		<-cancelled.ended
		require.NoError(t, cancelled.err)
		cancelled.requireTold("1")

		closed := follow(t, c, "/a")
		require.NoError(t, c.Close())
		<-closed.ended
		require.ErrorIs(t, closed.err, zkrecipes.ErrClosed)
		closed.requireTold("1", "1?")

		late := follow(t, c, "/a")
		<-late.ended
		require.ErrorIs(t, late.err, zkrecipes.ErrClosed)
		late.requireTold()

		for _, err := range trial.Dial(t, srv).Watch(t.Context(), "/a") {
			require.NoError(t, err)
			break
		}
	})
}

// TestFollow_EndsInAnOutage: it ends without an error, during a read.
func TestFollow_EndsInAnOutage(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		trial.Create(t, srv, "/a", "1")
		ctx, cancel := context.WithCancel(t.Context())
		f := followWith(ctx, t, trial.Dial(t, srv), "/a", nil)
		trial.CutOff(srv, trial.Ours)
		time.Sleep(3 * trial.Timeout)
		cancel()
		<-f.ended
		require.NoError(t, f.err)
		f.requireTold("1", "1?")
	})
}

func TestFollow_Refused(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c := trial.Dial(t, srv)
		bad := follow(t, c, "a")
		<-bad.ended
		require.ErrorContains(t, bad.err, `watch: path "a" is relative`)

		_, err := c.Create(t.Context(), "/secret", nil, 0, zk.WorldACL(zk.PermCreate)...)
		require.NoError(t, err)
		secret := follow(t, c, "/secret")
		<-secret.ended
		require.ErrorIs(t, secret.err, zk.ErrNoAuth)
		require.ErrorContains(t, secret.err, "/secret")
	})
}

// TestFollow_Storm_NeverBackInTime: the node changes while servers lag, connections end and sessions expire. Afterwards
// the follower has seen the last change.
func TestFollow_Storm_NeverBackInTime(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			trial.Run(t, func(t *testing.T, srv *zktest.Server) {
				rnd := rand.New(rand.NewPCG(seed, 0))
				fronts := srv.Fronts()
				c := trial.DialTo(t, srv.Addrs(), conn.WithDialer(srv.DialAs(trial.Label)))
				f := follow(t, c, "/a")
				for range 200 {
					front := fronts[rnd.IntN(len(fronts))]
					switch rnd.IntN(10) {
					case 0:
						srv.Cut(trial.Ours)
					case 1:
						srv.Expire(srv.SessionOf(trial.Label))
					case 2, 3:
						front.Lag()
					case 4, 5:
						front.CatchUp()
					case 6:
						_ = srv.Delete("/a") // it may not exist
					default:
						if srv.Set("/a", []byte("x")) != nil {
							trial.Create(t, srv, "/a", "x")
						}
					}
					time.Sleep(time.Duration(rnd.IntN(300)) * time.Millisecond)
				}
				for _, front := range fronts {
					front.CatchUp()
				}
				time.Sleep(3 * trial.Timeout)
				synctest.Wait()
				var newest int64
				asOf := time.Time{}
				for _, n := range f.views.Values() {
					require.False(t, n.AsOf.Before(asOf))
					asOf = n.AsOf
					if n.Exists {
						require.GreaterOrEqual(t, n.Stat.Mzxid, newest)
						newest = n.Stat.Mzxid
					}
				}
				n, exists := srv.Node("/a")
				require.True(t, f.last().Current)
				require.Equal(t, exists, f.last().Exists)
				require.Equal(t, n.Stat.Mzxid, f.last().Stat.Mzxid)
			}, zktest.WithFronts(3))
		})
	}
}

// TestFollow_ContextEnded_NoViewComes: no view is yielded, whatever happens at the same moment.
func TestFollow_ContextEnded_NoViewComes(t *testing.T) {
	for range 20 {
		trial.Run(t, func(t *testing.T, srv *zktest.Server) {
			trial.Create(t, srv, "/a", "1")
			c := trial.Dial(t, srv)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			views := 0
			for n, err := range c.Watch(ctx, "/a") {
				require.NoError(t, err)
				require.True(t, n.Current)
				views++
				cancel()
				set(t, srv, "2")
				s := trial.Live(t, c)
				srv.Expire(s.ID())
				<-s.Done()
			}
			require.Equal(t, 1, views)
		})
	}
}

// If the loop panics while a late read is in flight, Watch ends only after that read, and leaves no watch.
func TestFollow_LoopPanicsDuringARead(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		trial.Create(t, srv, "/a", "1")
		c := trial.Dial(t, srv)
		trial.Live(t, c)
		require.Panics(t, func() {
			for n, err := range c.Watch(t.Context(), "/a") {
				require.NoError(t, err)
				if !n.Current {
					panic("the caller's")
				}
				srv.Intercept(zktest.Match{Op: zktest.OpGetData}, zktest.HoldReply(trial.Timeout/4))
				set(t, srv, "2")
			}
		})
		time.Sleep(trial.Timeout)
		require.Zero(t, trial.Watches(srv))
	})
}

// TestFollow_ChangedAsTheSessionEnds_IsOutdatedAtOnce: there is a change to read, but no session to read it in.
func TestFollow_ChangedAsTheSessionEnds_IsOutdatedAtOnce(t *testing.T) {
	for range 30 {
		trial.Run(t, func(t *testing.T, srv *zktest.Server) {
			trial.Create(t, srv, "/a", "1")
			c := trial.Dial(t, srv)
			var ended time.Time
			for n, err := range c.Watch(t.Context(), "/a") {
				require.NoError(t, err)
				if !n.Current {
					require.Equal(t, ended, time.Now())
					break
				}
				require.True(t, ended.IsZero(), "the next view is that it is outdated")
				set(t, srv, "2")
				s := trial.Live(t, c)
				trial.CutOff(srv, trial.Ours)
				<-s.Done()
				ended = time.Now()
			}
			require.False(t, ended.IsZero())
		})
	}
}

// TestFollow_ManyChanges_LeaveNothingOnTheContext: the context may live as long as the process.
func TestFollow_ManyChanges_LeaveNothingOnTheContext(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		trial.Create(t, srv, "/a", "0")
		ctx := bubble.Last(t.Context())
		f := followWith(ctx, t, trial.Dial(t, srv), "/a", nil)
		for i := range 100 {
			set(t, srv, strconv.Itoa(i))
		}
		require.Equal(t, "99", string(f.last().Data))
		require.LessOrEqual(t, ctx.Waiting(), 5)
	})
}
