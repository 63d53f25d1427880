package shard_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/layout"
	"github.com/zkrecipes/zkrecipes/recipes/shard"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func TestRun_DividesAmongMembers(t *testing.T) {
	inFleet(t, 64, func(f *fleet) {
		for _, id := range []string{"a", "b", "c", "d"} {
			f.join(id)
		}
		f.requireServed(2*settle, map[string]int{"a": 16, "b": 16, "c": 16, "d": 16})
		require.Equal(f, 64, f.started(), "they settled, and nothing moved")
		before := f.owners()
		f.join("e")
		f.requireServed(2*settle, map[string]int{"a": 13, "b": 13, "c": 13, "d": 13, "e": 12})
		require.Equal(f, 64+12, f.started(), "what did not move went on")
		for name, id := range f.owners() {
			require.True(f, id == "e" || id == before[name], name)
		}
	})
}

func TestRun_Crash(t *testing.T) {
	inFleet(t, 30, func(f *fleet) {
		a, b := f.join("a"), f.join("b")
		f.join("c")
		f.requireServed(2*settle, map[string]int{"a": 10, "b": 10, "c": 10})
		f.crash(b) // the leader is a, the oldest member
		f.pass(bubble.Timeout * 9 / 10)
		require.Equal(f, 30, f.started(), "the holds of b last, and nothing moves before its session is over")
		f.requireServed(bubble.Timeout/10+2*tick, map[string]int{"a": 15, "c": 15})
		require.Equal(f, 40, f.started())
		f.srv.Heal(zktest.Label("b"))
		f.requireServed(bubble.Timeout, map[string]int{"a": 10, "b": 10, "c": 10})
		f.crash(a)
		f.requireServed(bubble.Timeout+2*tick, map[string]int{"b": 15, "c": 15})
	})
}

// A member that was away for longer than its session does not acquire a lock before it knows the current plan.
func TestRun_WasAway(t *testing.T) {
	inFleet(t, 10, func(f *fleet) {
		f.join("a")
		b := f.join("b")
		f.requireServed(2*settle, map[string]int{"a": 5, "b": 5})
		f.crash(b)
		f.requireServed(bubble.Timeout+2*tick, map[string]int{"a": 10})
		asks := f.srv.Intercept(zktest.Match{From: zktest.Label("b"), Path: path + "/own/", Times: -1}, zktest.Proceed())
		f.srv.Heal(zktest.Everyone)
		f.await(bubble.Timeout, func() bool { return len(f.srv.Children(path+"/members")) == 2 }, f.planned)
		f.pass(settle / 2)
		require.Zero(f, asks.Hits())
		f.requireServed(2*settle, map[string]int{"a": 5, "b": 5})
		require.Positive(f, asks.Hits())
	})
}

// A member stops its functions one after another, and the next owner of each shard starts at that instant.
func TestLeave_HandsOver(t *testing.T) {
	const each = 12 // more than eight: a map may keep fewer in order by chance
	inFleet(t, 2*each, func(f *fleet) {
		f.join("a")
		f.requireServed(2*settle, map[string]int{"a": 2 * each})
		b := f.join("b")
		f.requireServed(2*settle, map[string]int{"a": each, "b": each})
		b.linger = 300 * time.Millisecond
		f.most = 0
		mine := slices.DeleteFunc(slices.Clone(f.shards), func(name string) bool { return f.owners()[name] != "b" })
		from := time.Now()
		left := make(chan error, 1)
		go func() { left <- b.shards.Leave(f.Context()) }()
		for n := range each {
			f.pass(b.linger / 2)
			require.Len(f, f.owners(), 2*each, "while one is being stopped, the others are served")
			require.Equal(f, each-n, f.load()["b"])
			f.pass(b.linger / 2)
			require.Equal(f, each+n+1, f.load()["a"])
			require.Equal(f, "a", f.owners()[mine[n]], "in their order")
		}
		require.NoError(f, <-left)
		require.Equal(f, each*b.linger, time.Since(from))
		require.Equal(f, 1, f.most, "stopped at a time")
		<-b.ended
		require.NoError(f, b.err)
		require.Equal(f, []string{"a"}, f.srv.Children(path+"/members"))
	})
}

// When the context of Run ends, the shards are handed over one after another.
func TestWithLeave_HandsOver(t *testing.T) {
	inFleet(t, 6, func(f *fleet) {
		f.join("a")
		b := f.join("b", shard.WithLeave(time.Minute))
		f.requireServed(2*settle, map[string]int{"a": 3, "b": 3})
		b.linger, f.most = 300*time.Millisecond, 0
		from := time.Now()
		b.stop()
		<-b.ended
		require.NoError(f, b.err)
		require.Equal(f, 3*b.linger, time.Since(from))
		require.Equal(f, 1, f.most, "stopped at a time")
		f.requireServed(0, map[string]int{"a": 6})
	})
}

// What has not been handed over in time stops at once, and Run returns the reason.
func TestWithLeave_TimeIsTooShort(t *testing.T) {
	inFleet(t, 12, func(f *fleet) {
		f.join("a")
		b := f.join("b", shard.WithLeave(time.Second))
		f.requireServed(2*settle, map[string]int{"a": 6, "b": 6})
		b.linger, f.most = 400*time.Millisecond, 0
		from := time.Now()
		b.stop()
		<-b.ended
		require.ErrorIs(f, b.err, context.Canceled)
		require.Equal(f, time.Second+b.linger, time.Since(from))
		require.Greater(f, f.most, 1, "the others stopped together")
		f.requireServed(2*settle, map[string]int{"a": 12})
	})
}

// A slow function does not hold up the others.
func TestLeave_SlowFunction(t *testing.T) {
	inFleet(t, 4, func(f *fleet) {
		b := f.join("b")
		b.linger = 10 * time.Second
		f.requireServed(2*settle, map[string]int{"b": 4})
		from := time.Now()
		require.NoError(f, b.shards.Leave(f.Context()), "the last member leaves, too")
		require.Equal(f, 13*time.Second, time.Since(from))
		require.Contains(f, f.planned(), `"nobody":["s000","s001","s002","s003"]`)
	})
}

func TestLeave_WithoutRun(t *testing.T) {
	inFleet(t, 1, func(f *fleet) {
		a := f.prepare("a")
		require.NoError(f, a.shards.Leave(f.Context()))
		a.run(shard.List(f.shards...))
		f.requireServed(2*settle, map[string]int{"a": 1})
		f.crash(a)
		ctx, cancel := context.WithTimeout(f.Context(), time.Second)
		defer cancel()
		require.ErrorIs(f, a.shards.Leave(ctx), context.DeadlineExceeded, "nobody can be told")
		f.srv.Heal(zktest.Everyone)
		f.pass(bubble.Timeout)
		<-a.ended
		require.NoError(f, a.err, "it went on")
	})
}

// Each member restarts once, including the leader, and nothing moves.
func TestReturnGrace_RollingRestart(t *testing.T) {
	inFleet(t, 12, func(f *fleet) {
		ids := []string{"a", "b", "c"}
		grace := shard.WithReturnGrace(30 * time.Second)
		for _, id := range ids {
			f.join(id, grace)
		}
		want := map[string]int{"a": 4, "b": 4, "c": 4}
		f.requireServed(2*settle, want)
		before := f.owners()
		for _, id := range ids {
			m := f.members[id]
			m.stop()
			<-m.ended
			require.NoError(f, m.client.Close())
			f.pass(20 * time.Second)
			require.Len(f, f.owners(), 8)
			f.join(id, grace)
			f.requireServed(0, want)
		}
		f.pass(time.Minute)
		require.Equal(f, before, f.owners())
		require.Equal(f, 12+12, f.started())
	})
}

// Nothing is reserved for a member without shards, so it waits for nothing.
func TestReturnGrace_WithoutShards(t *testing.T) {
	inFleet(t, 1, func(f *fleet) {
		f.join("a")
		f.requireServed(2*settle, map[string]int{"a": 1})
		b := f.join("b", shard.WithReturnGrace(time.Minute))
		f.pass(2 * settle)
		from := time.Now()
		b.stop()
		<-b.ended
		require.Zero(f, time.Since(from))
	})
}

// A member that does not return loses its shards when its time is over.
func TestReturnGrace_Ends(t *testing.T) {
	inFleet(t, 12, func(f *fleet) {
		f.join("a")
		b := f.join("b", shard.WithReturnGrace(30*time.Second))
		f.requireServed(2*settle, map[string]int{"a": 6, "b": 6})
		b.stop()
		f.pass(29 * time.Second)
		require.Equal(f, map[string]int{"a": 6}, f.load())
		view, err := f.members["a"].shards.Owners(f.Context())
		require.NoError(f, err)
		for _, o := range view.Shards {
			require.Equal(f, o.Member == "b", o.Away)
		}
		f.requireServed(time.Second+10*time.Millisecond, map[string]int{"a": 12})
		require.NotContains(f, f.planned(), "away")
	})
}

// A member that leaves does not return, even if its context ends before everything is handed over. Its shards used to
// wait for it, and were not served.
func TestReturnGrace_AfterLeave(t *testing.T) {
	inFleet(t, 12, func(f *fleet) {
		f.join("a")
		b := f.join("b", shard.WithReturnGrace(time.Hour))
		b.linger = 2 * time.Second
		f.requireServed(2*settle, map[string]int{"a": 6, "b": 6})
		leaving, cancel := context.WithTimeout(f.Context(), time.Second)
		defer cancel()
		require.ErrorIs(f, b.shards.Leave(leaving), context.DeadlineExceeded)
		b.stop()
		f.requireServed(10*time.Second, map[string]int{"a": 12})
	})
}

// A function that fails is called again, with growing pauses. Then another member gets the shard, for five minutes.
func TestGiveUp(t *testing.T) {
	inFleet(t, 2, func(f *fleet) {
		a, b := f.prepare("a", shard.WithGiveUp(3)), f.prepare("b", shard.WithGiveUp(3))
		var mu sync.Mutex
		calls := map[string][]zkrecipes.Token{} // by member
		breaks := func(m *mate) func(context.Context, *shard.Shard) error {
			return func(ctx context.Context, s *shard.Shard) error {
				if s.Name == "s000" && m == a {
					mu.Lock()
					defer mu.Unlock()
					calls[m.id] = append(calls[m.id], s.Token())
					return errors.New("no disk")
				}
				<-ctx.Done()
				return nil
			}
		}
		a.serve, b.serve = breaks(a), breaks(b)
		a.run(shard.List(f.shards...))
		f.pass(settle / 2)
		b.run(shard.List(f.shards...))
		f.requireServed(5*time.Second, map[string]int{"a": 1, "b": 1})
		require.Equal(f, "b", f.owners()["s000"])
		require.Len(f, calls["a"], 3)
		require.Equal(f, calls["a"][0], calls["a"][2], "it had the lock between the calls")
		member, _ := f.srv.Node(path + "/members/a")
		require.JSONEq(f, `{"weight":1,"refuses":["s000"]}`, string(member.Data))
		f.pass(5 * time.Minute)
		member, _ = f.srv.Node(path + "/members/a")
		require.JSONEq(f, `{"weight":1}`, string(member.Data))
	})
}

// A shard that fails on all members stays where it is, and its function is retried.
func TestGiveUp_Nowhere(t *testing.T) {
	inFleet(t, 1, func(f *fleet) {
		for _, id := range []string{"a", "b"} {
			m := f.prepare(id, shard.WithGiveUp(2))
			m.serve = func(context.Context, *shard.Shard) error { return errors.New("poison") }
			m.run(shard.List(f.shards...))
		}
		f.pass(time.Minute)
		tried := f.started()
		require.Greater(f, tried, 5)
		for _, id := range []string{"a", "b"} {
			member, _ := f.srv.Node(path + "/members/" + id)
			require.JSONEq(f, `{"weight":1,"refuses":["s000"]}`, string(member.Data), "once, however often it fails")
		}
		f.pass(10 * time.Minute)
		require.Greater(f, f.started(), tried+10)
		require.Less(f, f.started(), tried+100, "with pauses")
	})
}

// A function that returns without an error has not failed, and is called again.
func TestRun_FunctionReturns(t *testing.T) {
	inFleet(t, 1, func(f *fleet) {
		a := f.prepare("a", shard.WithGiveUp(1))
		a.serve = func(context.Context, *shard.Shard) error { return nil }
		a.run(shard.List(f.shards...))
		f.pass(10 * time.Minute)
		require.Greater(f, f.started(), 10)
		member, _ := f.srv.Node(path + "/members/a")
		require.NotContains(f, string(member.Data), "refuses")
	})
}

// Nothing stops, and the leader writes the plan again unchanged.
func TestPlan_Deleted(t *testing.T) {
	inFleet(t, 12, func(f *fleet) {
		f.join("a")
		f.join("b")
		f.requireServed(2*settle, map[string]int{"a": 6, "b": 6})
		for _, harm := range []func() error{
			func() error { return f.srv.Delete(path + "/plan") },
			func() error { return f.srv.Set(path+"/plan", []byte("no JSON")) },
			func() error { return f.srv.Set(path+"/plan", nil) },
		} {
			before := f.planned()
			require.NoError(f, harm())
			f.pass(2 * settle)
			require.Equal(f, before, f.planned())
		}
		require.Equal(f, 12, f.started())
		require.NoError(f, f.srv.Set(path+"/plan", []byte("{}"))) // this plan assigns nothing
		f.requireServed(2*settle, map[string]int{"a": 6, "b": 6})
		require.NoError(f, f.srv.Set(path+"/plan",
			[]byte(`{"owners":{"a":["s000","s000","odd/name","s001"],"b":["s000"],"nobody":["s002"]}}`)))
		f.requireServed(3*settle, map[string]int{"a": 6, "b": 6})
		require.Equal(f, 12, strings.Count(f.planned(), `"s0`), f.planned())
	})
}

// The next leader has no plan to start from, and reads the locks.
func TestPlan_DeletedAndNewLeader(t *testing.T) {
	inFleet(t, 12, func(f *fleet) {
		f.join("a")
		f.requireServed(2*settle, map[string]int{"a": 12})
		f.join("b")
		f.requireServed(2*settle, map[string]int{"a": 6, "b": 6})
		f.join("c")
		f.requireServed(2*settle, map[string]int{"a": 4, "b": 4, "c": 4})
		before, started := f.owners(), f.started()
		f.depose()
		require.NoError(f, f.srv.Delete(path+"/plan"))
		f.pass(2 * settle)
		require.NotEmpty(f, f.planned())
		require.Equal(f, "b", f.writers()[len(f.writers())-1])
		require.Equal(f, before, f.owners())
		require.Equal(f, started, f.started())
	})
}

// Somebody asks for the release of all locks, which replaces the data that names the holders. The next leader took the
// locks for free, and the shards for those of nobody.
func TestRevokedLocks_StillHaveTheirHolders(t *testing.T) {
	inFleet(t, 12, func(f *fleet) {
		a := f.join("a")
		f.requireServed(2*settle, map[string]int{"a": 12})
		f.join("b")
		f.requireServed(2*settle, map[string]int{"a": 6, "b": 6})
		before, started := f.owners(), f.started()
		for _, name := range f.shards {
			lock := path + "/own/" + name
			require.NoError(f, f.srv.Set(lock+"/"+f.srv.Children(lock)[0], []byte(layout.RevokeRequest)))
		}
		v, err := a.shards.Owners(f.Context())
		require.NoError(f, err)
		require.Len(f, v.Members, 2)
		for _, o := range v.Shards {
			require.Equal(f, o.Member, o.Holder.Name)
			require.False(f, o.Moving())
		}
		f.depose()
		require.NoError(f, f.srv.Delete(path+"/plan"))
		f.pass(2 * settle)
		require.NotEmpty(f, f.planned())
		require.Equal(f, before, f.owners())
		require.Equal(f, started, f.started())
	})
}

// Two members share a client, so the session does not identify the holder of a lock whose release was requested.
func TestRevokedLocks_OfTwoMembersOfAClient_NameNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory())
		client := bubble.Dial(t, srv, "a")
		var members []*shard.Shards
		for _, id := range []string{"a", "b"} {
			s, err := shard.New(client, path, shard.WithID(id), shard.WithSettle(settle, settle))
			require.NoError(t, err)
			members = append(members, s)
			go func() { // ends with the client
				_ = s.Run(t.Context(), shard.List(names(4)...), func(ctx context.Context, _ *shard.Shard) error {
					<-ctx.Done()
					return nil
				})
			}()
		}
		time.Sleep(5 * settle)
		before, err := members[0].Owners(t.Context())
		require.NoError(t, err)
		for _, o := range before.Shards {
			require.Equal(t, o.Member, o.Holder.Name)
			require.NoError(t, srv.Set(o.Holder.Path, []byte(layout.RevokeRequest)))
		}
		after, err := members[0].Owners(t.Context())
		require.NoError(t, err)
		for i, o := range after.Shards {
			require.Contains(t, []string{"", before.Shards[i].Holder.Name}, o.Holder.Name)
		}
		require.NoError(t, client.Close())
	})
}

// The plan of a leader that loses its term while it writes is not applied.
func TestPlan_DeposedLeader(t *testing.T) {
	inFleet(t, 12, func(f *fleet) {
		f.join("a")
		f.join("b")
		f.requireServed(2*settle, map[string]int{"a": 6, "b": 6})
		before := f.planned()
		deposed := f.srv.Intercept(zktest.Match{From: zktest.Label("a"), Op: zktest.OpMulti, Path: "/plan$"},
			zktest.Before(func(zktest.Request) { f.depose() }))
		f.join("c")
		f.requireServed(3*settle, map[string]int{"a": 4, "b": 4, "c": 4})
		require.Equal(f, 1, deposed.Hits())
		require.Equal(f, []string{"a", "b"}, slices.Compact(f.writers()))
		require.NotEqual(f, before, f.planned())
	})
}

// A leader whose session ends during a write does not know the outcome of its plan, and its term ends. Run does not
// report that as an error.
func TestPlan_TermEndsMeanwhile(t *testing.T) {
	inFleet(t, 12, func(f *fleet) {
		a := f.join("a")
		f.join("b")
		f.requireServed(2*settle, map[string]int{"a": 6, "b": 6})
		f.srv.Intercept(zktest.Match{From: zktest.Label("a"), Op: zktest.OpMulti, Path: "/plan$"},
			zktest.Before(func(r zktest.Request) { f.expire(r.Session) }))
		f.join("c")
		f.pass(2 * settle)
		f.requireServed(bubble.Timeout, map[string]int{"a": 4, "b": 4, "c": 4})
		select {
		case <-a.ended:
			require.NoError(f, a.err)
		default:
		}
	})
}

// A leader that does not know whether its plan was applied reads it.
func TestPlan_ReplyLost(t *testing.T) {
	for name, lost := range map[string]zktest.Action{"request": zktest.DropRequest(), "reply": zktest.DropReply()} {
		t.Run(name, func(t *testing.T) {
			inFleet(t, 12, func(f *fleet) {
				f.srv.Intercept(zktest.Match{Op: zktest.OpMulti, Path: "/plan$"}, lost)
				f.join("a")
				f.join("b")
				f.requireServed(5*settle, map[string]int{"a": 6, "b": 6})
				require.Len(f, f.writers(), 1)
			})
		})
	}
}

func TestSource_Node(t *testing.T) {
	inFleet(t, 6, func(f *fleet) {
		a, b := f.prepare("a"), f.prepare("b")
		a.run(shard.Node())
		b.run(shard.Node())
		f.pass(time.Minute)
		require.Empty(f, f.planned(), "there is no set")
		require.NoError(f, a.shards.SetNames(f.Context(), f.shards...))
		f.requireServed(2*settle, map[string]int{"a": 3, "b": 3})
		require.NoError(f, f.srv.Set(path+"/shards", []byte(`["x/y"]`)))
		f.pass(time.Minute)
		require.NoError(f, f.srv.Set(path+"/shards", []byte("no JSON")))
		f.pass(time.Minute)
		f.requireServed(0, map[string]int{"a": 3, "b": 3})
		require.NoError(f, b.shards.SetNames(f.Context(), f.shards[:4]...))
		f.shards = f.shards[:4]
		f.requireServed(2*settle, map[string]int{"a": 2, "b": 2})
		for text, bad := range map[string][]string{"at least one name": {}, "twice": {"a", "a"}, "without a slash": {"a/b"}} {
			require.ErrorContains(f, a.shards.SetNames(f.Context(), bad...), text)
		}
	})
}

func TestSource_Func(t *testing.T) {
	inFleet(t, 6, func(f *fleet) {
		var mu sync.Mutex
		answer, failure := f.shards[:2], error(nil)
		say := func(names []string, err error) {
			mu.Lock()
			defer mu.Unlock()
			answer, failure = names, err
		}
		a := f.prepare("a")
		a.run(shard.Func(time.Minute, func(context.Context) ([]string, error) {
			mu.Lock()
			defer mu.Unlock()
			return answer, failure
		}))
		f.pass(2 * settle)
		require.Equal(f, map[string]int{"a": 2}, f.load())
		say(nil, errors.New("no catalog"))
		f.pass(time.Minute)
		say(nil, nil) // an empty set stops nothing
		f.pass(time.Minute)
		require.Equal(f, map[string]int{"a": 2}, f.load())
		say(f.shards, nil)
		f.pass(time.Minute + 2*settle)
		require.Equal(f, map[string]int{"a": 6}, f.load())
	})
}

// Run returns after the function of Func.
func TestSource_FuncIsRunning(t *testing.T) {
	inFleet(t, 1, func(f *fleet) {
		a, goOn := f.prepare("a"), make(chan struct{})
		a.run(shard.Func(time.Minute, func(context.Context) ([]string, error) {
			if time.Since(f.start) > time.Minute {
				<-goOn // it does not check its context
			}
			return f.shards, nil
		}))
		f.pass(2 * time.Minute)
		require.Equal(f, map[string]int{"a": 1}, f.load())
		a.stop()
		f.pass(time.Minute)
		select {
		case <-a.ended:
			require.Fail(f, "Run has returned")
		default:
		}
		close(goOn)
		<-a.ended
	})
}

// Without a limit the next owner waits for a function that keeps running; with one, the hold of that function is ended.
func TestDrainLimit(t *testing.T) {
	for limit, want := range map[time.Duration]time.Duration{0: 40 * time.Second, 5 * time.Second: 5 * time.Second} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			inFleet(t, 1, func(f *fleet) {
				var opts []shard.Option
				if limit > 0 {
					opts = append(opts, shard.WithDrainLimit(limit))
				}
				a := f.prepare("a", opts...)
				stopped := make(chan time.Time, 1)
				a.serve = func(ctx context.Context, s *shard.Shard) error {
					<-ctx.Done()
					stopped <- time.Now()
					time.Sleep(40 * time.Second)
					if limit > 0 {
						require.ErrorIs(f, s.Err(), zkrecipes.ErrReleased)
						_, err := s.Txn(f.Context(), zkrecipes.OpCreate("/app/late", nil, 0))
						require.ErrorIs(f, err, zkrecipes.ErrFenced)
					}
					return nil
				}
				a.run(shard.List(f.shards...))
				f.requireServed(2*settle, map[string]int{"a": 1})
				started := make(chan time.Time, 1)
				b := f.prepare("b")
				b.serve = func(ctx context.Context, _ *shard.Shard) error {
					started <- time.Now()
					<-ctx.Done()
					return nil
				}
				b.run(shard.List(f.shards...))
				f.pass(2 * settle)
				a.stop()
				require.Equal(f, want, (<-started).Sub(<-stopped))
			})
		})
	}
}

func TestOptions_PinsAndWeights(t *testing.T) {
	inFleet(t, 8, func(f *fleet) {
		pins := shard.WithPins(map[string]string{"s007": "a", "s000": "c"})
		f.join("a", pins, shard.WithWeight(3))
		f.join("b", pins)
		f.requireServed(2*settle, map[string]int{"a": 6, "b": 2})
		require.Equal(f, "a", f.owners()["s007"])
		f.join("c", pins, shard.WithWeight(4))
		f.requireServed(2*settle, map[string]int{"a": 3, "b": 1, "c": 4})
		require.Equal(f, "c", f.owners()["s000"])
	})
}

// Members follow the strategy, even if it omits shards.
func TestWithStrategy(t *testing.T) {
	inFleet(t, 4, func(f *fleet) {
		f.join("a", shard.WithStrategy(func(now shard.Situation) map[string]string {
			return map[string]string{now.Shards[1]: now.Members[0].ID}
		}))
		f.pass(2 * settle)
		require.Equal(f, map[string]string{"s001": "a"}, f.owners())
	})
}

// A strategy that never settles costs one plan per settle time. Leaders used to write plans without a pause.
func TestWithStrategy_ThatNeverRests(t *testing.T) {
	inFleet(t, 2, func(f *fleet) {
		f.srv.SetWriteLatency(time.Millisecond)
		restless := shard.WithStrategy(func(now shard.Situation) map[string]string { // the shards go to whoever has none
			to := now.Members[0].ID
			if now.Owners[now.Shards[0]] == to && len(now.Members) > 1 {
				to = now.Members[1].ID
			}
			return map[string]string{now.Shards[0]: to, now.Shards[1]: to}
		})
		f.join("a", restless)
		f.join("b", restless)
		f.pass(time.Minute)
		require.InDelta(f, 60, len(f.writers()), 5)
	})
}

func TestViews(t *testing.T) {
	inFleet(t, 2, func(f *fleet) {
		a := f.prepare("a")
		view, err := a.shards.Owners(f.Context())
		require.NoError(f, err)
		require.Empty(f, view.Shards)
		var mu sync.Mutex
		var views []shard.View
		watching, stop := context.WithCancel(f.Context())
		go func() {
			for view, err := range a.shards.Watch(watching) {
				mu.Lock()
				views = append(views, view)
				mu.Unlock()
				if err != nil {
					return
				}
			}
		}()
		a.run(shard.List(f.shards...))
		f.requireServed(2*settle, map[string]int{"a": 2})
		view, err = a.shards.Owners(f.Context())
		require.NoError(f, err)
		require.False(f, view.Current)
		require.Positive(f, view.Generation)
		for i, o := range view.Shards {
			require.Equal(f, f.shards[i], o.Shard)
			require.Equal(f, "a", o.Member)
			require.Equal(f, "a", o.Holder.Name)
			require.False(f, o.Moving())
		}
		a.stop()
		<-a.ended
		require.NoError(f, f.srv.Set(path+"/plan", []byte("no JSON"))) // and no leader writes another one
		f.pass(2 * settle)
		f.crash(a)
		f.pass(bubble.Timeout)
		f.srv.Heal(zktest.Everyone)
		f.pass(bubble.Timeout)
		stop()
		synctest.Wait()
		var told []string
		for _, v := range views {
			told = append(told, fmt.Sprintf("%d current=%t bad=%t", len(v.Shards), v.Current, v.Err != nil))
		}
		require.Equal(f, []string{
			"0 current=true bad=false", "2 current=true bad=false", "0 current=true bad=true",
			"0 current=false bad=true", "0 current=true bad=true",
		}, told)
	})
}

// A process that was restarted waits until the session of its predecessor has ended.
func TestRun_IDIsTaken(t *testing.T) {
	inFleet(t, 2, func(f *fleet) {
		a := f.join("a")
		f.requireServed(2*settle, map[string]int{"a": 2})
		again := f.prepare("again", shard.WithID("a"))
		again.run(shard.List(f.shards...))
		f.pass(time.Minute)
		require.Equal(f, 2, f.started())
		third := f.prepare("third", shard.WithID("a"))
		third.run(shard.List(f.shards...))
		f.pass(settle)
		require.NoError(f, third.shards.Leave(f.Context()), "it is not there yet")
		<-third.ended
		require.NoError(f, third.err)
		a.stop()
		f.pass(2 * settle)
		require.Equal(f, map[string]int{"again": 2}, f.load())
	})
}

// A process that loses its id to another one stops, even if both are alive. Two with one id would wait for each other.
func TestRun_IDIsTakenFromIt(t *testing.T) {
	inFleet(t, 4, func(f *fleet) {
		a := f.join("a")
		f.join("b")
		f.requireServed(2*settle, map[string]int{"a": 2, "b": 2})
		again := f.prepare("again", shard.WithID("a"))
		again.run(shard.List(f.shards...)) // it waits
		f.srv.Intercept(zktest.Match{From: zktest.Label("a"), Op: zktest.OpMulti, Path: "/members/a$"},
			zktest.Delay(time.Second))
		require.NoError(f, f.srv.Delete(path+"/members/a"))
		f.pass(5 * settle)
		require.Equal(f, map[string]int{"again": 2, "b": 2}, f.load())
		f.requireLogged("a", "another session has taken the id")
		require.NotContains(f, f.log.text.String(), "data ")
		require.NoError(f, a.shards.Leave(f.Context()), "it has nothing any more")
	})
}

func TestRun_ClientIsClosed(t *testing.T) {
	inFleet(t, 2, func(f *fleet) {
		a := f.join("a")
		f.requireServed(2*settle, map[string]int{"a": 2})
		require.NoError(f, a.client.Close())
		<-a.ended
		require.ErrorIs(f, a.err, zkrecipes.ErrClosed)
	})
}

// What the server refuses for good ends Run, with the reason.
func TestRun_NotAllowed(t *testing.T) {
	inFleet(t, 2, func(f *fleet) {
		f.srv.Intercept(zktest.Match{Op: zktest.OpMulti, Path: "/plan$", Times: -1}, zktest.Fail(zktest.CodeNoAuth))
		a := f.join("a")
		<-a.ended
		require.ErrorContains(f, a.err, "/plan")
		require.ErrorContains(f, a.err, "not authenticated")
	})
}

func TestBadInput(t *testing.T) {
	inFleet(t, 1, func(f *fleet) {
		c := bubble.Dial(f, f.srv, "x")
		for want, opts := range map[string][]shard.Option{
			"id \"a/b\"":            {shard.WithID("a/b")},
			"id is empty":           {shard.WithID("")},
			"weight 0":              {shard.WithWeight(0)},
			"weight 1001":           {shard.WithWeight(1001)},
			"WithStrategy":          {shard.WithStrategy(nil)},
			"settle 2s":             {shard.WithSettle(2*time.Second, time.Second)},
			"return grace 2h":       {shard.WithReturnGrace(2 * time.Hour)},
			"return grace -1ns":     {shard.WithReturnGrace(-1)},
			"leave":                 {shard.WithLeave(0)},
			"want one of the two":   {shard.WithID("x"), shard.WithReturnGrace(time.Second), shard.WithLeave(time.Second)},
			"needs WithID":          {shard.WithReturnGrace(time.Second)},
			"drain limit 0s":        {shard.WithDrainLimit(0)},
			"give up after 0":       {shard.WithGiveUp(0)},
			"tracer name \"\"":      {shard.WithTracerName("")},
			"tracer: all hooks":     {shard.WithTracer(&shard.Tracer{})},
			"option 0 is nil":       {nil},
			"more than 0\noption 1": {shard.WithDrainLimit(0), nil},
		} {
			_, err := shard.New(c, path, opts...)
			require.ErrorContains(f, err, want)
		}
		_, err := shard.New(c, path, shard.WithID("x"), shard.WithWeight(1000), shard.WithReturnGrace(time.Hour),
			shard.WithSettle(0, 0), shard.WithGiveUp(1))
		require.NoError(f, err, "the bounds themselves")
		_, err = shard.New(c, path, shard.WithReturnGrace(0), shard.WithWeight(1))
		require.NoError(f, err, "the bounds themselves")
		for want, path := range map[string]string{"relative": "app", "root": "/"} {
			_, err := shard.New(c, path)
			require.ErrorContains(f, err, want)
		}
		_, err = shard.New(nil, path)
		require.ErrorContains(f, err, "client is nil")
		serve := func(context.Context, *shard.Shard) error { return nil }
		long := make([]string, 2000)
		for i := range long {
			long[i] = fmt.Sprintf("%0600d", i)
		}
		for want, from := range map[string]shard.Source{
			"the source is empty":             {},
			"at least one name":               shard.List(),
			"is listed twice":                 shard.List("a", "b", "a"),
			"without a slash":                 shard.List("a/b"),
			"want the name of a node":         shard.List(".."),
			"exceeds the limit of":            shard.List(long...),
			"want a function":                 shard.Func(time.Second, nil),
			"want a function, and a pause of": shard.Func(0, func(context.Context) ([]string, error) { return nil, nil }),
		} {
			require.ErrorContains(f, shard.Run(f.Context(), c, path, from, serve), want)
		}
		require.ErrorContains(f, shard.Run(f.Context(), c, path, shard.List("a"), nil), "the function is nil")
		require.Error(f, shard.Run(f.Context(), nil, path, shard.List("a"), serve))
		a := f.join("a")
		f.requireServed(2*settle, map[string]int{"a": 1})
		require.ErrorContains(f, a.shards.Run(f.Context(), shard.List("a"), serve), "is already running")
		require.Equal(f, []string{"a"}, slices.Sorted(maps.Keys(f.load())))
	})
}

// A standby used to wait for the members to settle, although no member served.
func TestRun_Standby(t *testing.T) {
	for name, goes := range map[string]func(f *fleet, a *mate){
		"crash": func(f *fleet, a *mate) { f.gone(a) },
		"stop":  func(_ *fleet, a *mate) { a.stop() },
	} {
		t.Run(name, func(t *testing.T) {
			inFleet(t, 1, func(f *fleet) {
				slow := shard.WithSettle(30*time.Second, time.Minute)
				a := f.join("a", slow)
				f.requireServed(time.Minute, map[string]int{"a": 1})
				f.join("b", slow)
				f.pass(time.Minute)
				goes(f, a)
				f.requireServed(100*time.Millisecond, map[string]int{"b": 1})
			})
		})
	}
}

// Members that start one after another cause one plan, even if there is a plan of others. The settle time starts when
// the last member has joined, but not when one has left.
func TestRun_AllBeginAnew(t *testing.T) {
	inFleet(t, 6, func(f *fleet) {
		slow := shard.WithSettle(10*time.Second, time.Hour)
		a := f.prepare("a", slow)
		require.NoError(f, a.client.CreateAll(f.Context(), path+"/plan",
			[]byte(`{"owners":{"x":["s000","s001","s002"],"y":["s003","s004","s005"]}}`)))
		a.run(shard.List(f.shards...))
		f.pass(9 * time.Second)
		f.join("b", slow)
		f.pass(9 * time.Second)
		f.join("c", slow)
		f.pass(9 * time.Second)
		require.Empty(f, f.load())
		a.stop()
		f.requireServed(1100*time.Millisecond, map[string]int{"b": 3, "c": 3})
		require.Equal(f, 6, f.started())
	})
}

// A node without a session among the members used to get shards, which were never served.
func TestRun_NodeOfNoSessionAmongTheMembers(t *testing.T) {
	for name, mode := range map[string]zktest.Mode{"persistent": zktest.Persistent, "container": zktest.Container} {
		t.Run(name, func(t *testing.T) {
			inFleet(t, 4, func(f *fleet) {
				f.join("a")
				f.requireServed(2*settle, map[string]int{"a": 4})
				_, err := f.srv.Create(path+"/members/ghost", nil, mode)
				require.NoError(f, err)
				f.pass(time.Minute)
				f.requireServed(0, map[string]int{"a": 4})
			})
		})
	}
}

// A plan written by hand could make shards wait for a member forever.
func TestPlan_ByHandWithALongAbsence(t *testing.T) {
	for _, wait := range []string{"31536000000", "9223372036854775807"} {
		t.Run(wait, func(t *testing.T) {
			inFleet(t, 2, func(f *fleet) {
				b := f.prepare("b")
				require.NoError(f, b.client.CreateAll(f.Context(), path+"/plan",
					[]byte(`{"owners":{"a":["s000","s001"]},"away":{"a":`+wait+`}}`)))
				b.run(shard.List(f.shards...))
				f.pass(59 * time.Minute)
				require.Empty(f, f.load(), "an hour is the most that WithReturnGrace allows")
				f.requireServed(time.Minute+settle, map[string]int{"b": 2})
			})
		})
	}
}

// A name with a slash in a plan written by hand used to be served, under a lock below that of another shard.
func TestPlan_ByHandWithANameThatCannotBe(t *testing.T) {
	inFleet(t, 1, func(f *fleet) {
		a := f.prepare("a")
		require.NoError(f, a.client.CreateAll(f.Context(), path+"/plan", []byte(`{"owners":{"a":["s000/x","s000",".."]}}`)))
		require.NoError(f, a.client.CreateAll(f.Context(), path+"/election", nil))
		// This candidate keeps the others from leading.
		_, err := f.srv.Create(path+"/election/_c_00000000-0000-0000-0000-000000000000-latch-0000000000", nil,
			zktest.Persistent)
		require.NoError(f, err)
		a.run(shard.List(f.shards...))
		f.pass(time.Minute)
		require.Equal(f, map[string]string{"s000": "a"}, f.owners())
		require.Len(f, f.srv.Children(path+"/own/s000"), 1)
		_, err = a.shards.Owners(f.Context())
		require.ErrorContains(f, err, "s000/x")
	})
}

// The grace of a member starts again at each restart.
func TestReturnGrace_AgainAndAgain(t *testing.T) {
	inFleet(t, 4, func(f *fleet) {
		f.join("a", shard.WithReturnGrace(grace))
		b := f.join("b", shard.WithReturnGrace(grace))
		f.requireServed(2*settle, map[string]int{"a": 2, "b": 2})
		before := f.owners()
		for life := range 3 {
			b.stop()
			<-b.ended
			f.pass(grace * 9 / 10)
			b = f.prepareAs(fmt.Sprint("b", life), "b", shard.WithReturnGrace(grace))
			b.run(shard.List(f.shards...))
			f.requireServed(settle, map[string]int{"a": 2, "b": 2})
			f.pass(2 * grace)
			require.Equal(f, before, f.owners())
		}
		require.Equal(f, 4+3*2, f.started(), "only what b has was started again")
	})
}

// A call that lasts for a minute is a success, whatever it returns.
func TestGiveUp_Rarely(t *testing.T) {
	inFleet(t, 1, func(f *fleet) {
		a := f.prepare("a", shard.WithGiveUp(2))
		a.serve = func(ctx context.Context, _ *shard.Shard) error {
			select {
			case <-time.After(time.Hour):
				return errors.New("once an hour")
			case <-ctx.Done():
				return nil
			}
		}
		a.run(shard.List(f.shards...))
		f.pass(3*time.Hour + time.Minute)
		require.Equal(f, 4, f.started())
		require.NotContains(f, f.said("a"), "refuses")
	})
}

// A member that gets a shard back while its old function is still running does not call the function concurrently.
func TestDrainLimit_ComesBack(t *testing.T) {
	inFleet(t, 2, func(f *fleet) {
		a := f.prepare("a", shard.WithDrainLimit(2*time.Second))
		var mu sync.Mutex
		running, most := map[string]int{}, 0
		count := func(name string, n int) {
			mu.Lock()
			defer mu.Unlock()
			running[name] += n
			most = max(most, running[name])
		}
		a.serve = func(ctx context.Context, s *shard.Shard) error {
			count(s.Name, 1)
			defer count(s.Name, -1)
			<-ctx.Done()
			time.Sleep(time.Hour)
			return nil
		}
		a.run(shard.List(f.shards...))
		f.requireServed(2*settle, map[string]int{"a": 2})
		b := f.join("b")
		f.await(time.Minute, func() bool { return f.load()["b"] == 1 }, f.planned)
		b.stop()
		f.pass(2 * time.Hour)
		require.Equal(f, 1, most)
		f.requireServed(0, map[string]int{"a": 2})
	})
}

// The holder is the first at the lock, even while the next owner waits behind it.
func TestOwners_Moving(t *testing.T) {
	inFleet(t, 4, func(f *fleet) {
		a := f.prepare("a")
		a.linger = time.Minute
		a.run(shard.List(f.shards...))
		f.requireServed(2*settle, map[string]int{"a": 4})
		f.join("b")
		f.pass(10 * time.Second) // b waits for two
		v, err := a.shards.Owners(f.Context())
		require.NoError(f, err)
		moving := 0
		for _, o := range v.Shards {
			require.Equal(f, "a", o.Holder.Name, o.Shard)
			require.Equal(f, o.Member == "b", o.Moving(), o.Shard)
			if o.Moving() {
				moving++
			}
		}
		require.Equal(f, 2, moving)
	})
}

// Nothing moves while nobody holds the shard.
func TestMoving_NobodyHolds(t *testing.T) {
	t.Parallel()
	require.False(t, shard.Owner{Shard: "s", Member: "a", Away: true}.Moving())
}

// The root of a client made by Sub is a path like any other.
func TestNew_RootOfASub(t *testing.T) {
	inFleet(t, 2, func(f *fleet) {
		a := f.prepare("a")
		sub, err := a.client.Sub(path)
		require.NoError(f, err)
		a.shards, err = shard.New(sub, "/", shard.WithID("a"), shard.WithSettle(settle, settle))
		require.NoError(f, err)
		a.run(shard.List(f.shards...))
		f.requireServed(2*settle, map[string]int{"a": 2})
		require.Contains(f, f.planned(), "s001")
		require.Equal(f, "/", a.shards.Path())
	})
}

// The last value is the reason.
func TestWatch_CannotGoOn(t *testing.T) {
	inFleet(t, 1, func(f *fleet) {
		a := f.join("a")
		f.requireServed(2*settle, map[string]int{"a": 1})
		require.NoError(f, a.client.Close())
		var last error
		for _, err := range a.shards.Watch(f.Context()) {
			require.NoError(f, last, "nothing comes after an error")
			last = err
		}
		require.ErrorIs(f, last, zkrecipes.ErrClosed)
	})
}

// A member leaves only after it has announced that. Otherwise it could be given a shard at that moment.
func TestLeave_WithoutShards(t *testing.T) {
	inFleet(t, 1, func(f *fleet) {
		f.join("a")
		b := f.join("b")
		f.requireServed(2*settle, map[string]int{"a": 1})
		f.srv.Intercept(zktest.Match{Op: zktest.OpSetData, Path: "/members/b$"}, zktest.Delay(time.Second))
		from := time.Now()
		require.NoError(f, b.shards.Leave(f.Context()))
		require.GreaterOrEqual(f, time.Since(from), time.Second)
	})
}

// The leader waits until the members have been stable for a second, but at most ten seconds.
func TestWithSettle_Default(t *testing.T) {
	inFleet(t, 12, func(f *fleet) {
		join := func(id string) {
			m := f.prepare(id)
			var err error
			m.shards, err = shard.New(m.client, path, shard.WithID(id))
			require.NoError(f, err)
			m.run(shard.List(f.shards...))
		}
		join("a")
		for n := range 11 {
			f.pass(900 * time.Millisecond)
			require.Empty(f, f.load())
			join(fmt.Sprint("b", n))
		}
		f.pass(99 * time.Millisecond)
		require.Empty(f, f.load())
		f.pass(2 * time.Millisecond)
		require.True(f, f.isServed())
		f.pass(10 * time.Second)
		require.Equal(f, 12, f.started())
		join("c")
		f.pass(time.Second - time.Millisecond)
		require.Equal(f, 12, f.started())
	})
}

// List copies its arguments.
func TestSource_List(t *testing.T) {
	inFleet(t, 2, func(f *fleet) {
		names := slices.Clone(f.shards)
		a, from := f.prepare("a"), shard.List(names...)
		names[0] = "other"
		a.run(from)
		f.pass(2 * settle)
		require.ElementsMatch(f, f.shards, slices.Collect(maps.Keys(f.owners())))
	})
}

// No member can take over the shards, so the member stops when its time is over.
func TestWithLeave_CutOff(t *testing.T) {
	inFleet(t, 2, func(f *fleet) {
		a := f.join("a", shard.WithLeave(2*time.Second))
		f.requireServed(2*settle, map[string]int{"a": 2})
		f.crash(a)
		a.stop()
		f.pass(2 * time.Second)
		require.Empty(f, f.load())
		<-a.ended
		require.ErrorIs(f, a.err, context.Canceled)
		require.NotContains(f, f.log.text.String(), "cannot write", "it has ended, and nobody is to do anything")
	})
}

// The identity of a client, of which the default ID is made, may be any text. A node cannot have any name.
func TestRun_IdentityThatIsNoName(t *testing.T) {
	inFleet(t, 1, func(f *fleet) {
		a := f.prepare("a")
		require.NoError(f, a.client.Close())
		var err error
		a.client, err = conn.New(f.srv.Addr(), conn.WithDialer(f.srv.DialAs("a")), conn.WithLogger(f.logger("a")),
			conn.WithIdentity("eu/w.1\n\xff😀"))
		require.NoError(f, err)
		f.Cleanup(func() { _ = a.client.Close() }) // never fails
		a.shards, err = shard.New(a.client, path)
		require.NoError(f, err)
		a.run(shard.List(f.shards...))
		f.requireRunning(a)
		f.requireServed(2*settle, map[string]int{"a": 1})
		require.Regexp(f, "^eu-w\\.1----[A-Z2-7]{8}$", a.shards.ID())
	})
}
