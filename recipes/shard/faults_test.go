package shard_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/shard"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// requireRunning requires that Run has not returned for any of the members.
func (f *fleet) requireRunning(members ...*mate) {
	f.Helper()
	synctest.Wait()
	for _, m := range members {
		select {
		case <-m.ended:
			f.Errorf("Run of %s has ended: %v", m.id, m.err)
		default:
		}
	}
}

// team starts a, b and c on the shards that the source names. The first one leads.
func (f *fleet) team(from shard.Source) []*mate {
	f.Helper()
	var all []*mate
	for _, id := range []string{"a", "b", "c"} {
		m := f.prepare(id)
		m.run(from)
		all = append(all, m)
	}
	n := len(f.shards) / 3
	f.requireServed(3*settle, map[string]int{"a": n, "b": n, "c": n})
	return all
}

// gone ends the session of a member at once, and keeps the member away.
func (f *fleet) gone(m *mate) {
	f.srv.Refuse(zktest.Label(m.label))
	f.expire(f.srv.SessionOf(m.label))
}

// An unreadable node used to end the member that led, and then each next leader, until no member served any more.
func TestLeader_MayNotRead(t *testing.T) {
	for name, match := range map[string]zktest.Match{
		"the set":         {Op: zktest.OpGetData, Path: "/shards$"},
		"the members":     {Op: zktest.OpGetChildren2, Path: "/members$"},
		"one member":      {Op: zktest.OpGetData, Path: "/members/b$"},
		"the plan":        {Op: zktest.OpGetData, Path: "/plan$"},
		"the locks":       {Op: zktest.OpGetChildren2, Path: "/own$"},
		"the election":    {Op: zktest.OpGetChildren2, Path: "/election$"},
		"another's place": {Op: zktest.OpGetData, Path: "/election/"},
	} {
		for who, from := range map[string]zktest.Who{"nobody may": zktest.Everyone, "it may not": zktest.Label("a")} {
			t.Run(name+", "+who, func(t *testing.T) {
				inFleet(t, 6, func(f *fleet) {
					require.NoError(f, f.prepare("x").shards.SetNames(f.Context(), f.shards...))
					all := f.team(shard.Node())
					match.From, match.Times = from, -1
					forbidden := f.srv.Intercept(match, zktest.Fail(zktest.CodeNoAuth))
					require.NoError(f, f.srv.Set(path+"/shards", []byte(`["s000","s001","s002","s003","s004","s005"]`)))
					require.NoError(f, f.srv.Set(path+"/members/b", []byte(`{"weight":2}`)))
					require.NoError(f, f.srv.Delete(path+"/plan"))
					f.depose()
					f.pass(time.Minute)
					f.requireRunning(all...)
					require.True(f, f.isServed(), "%v", f.load())
					require.Less(f, forbidden.Hits(), 100, "with pauses")
					forbidden.Remove()
					f.pass(bubble.Timeout)
					f.gone(all[2])
					f.await(10*time.Second, f.isServed, f.planned)
				})
			})
		}
	}
}

// If one leader may not read the members, another one leads, and the shards of a member that has left are served.
func TestLeader_GivesWay(t *testing.T) {
	inFleet(t, 6, func(f *fleet) {
		all := f.team(shard.List(f.shards...))
		f.srv.Intercept(zktest.Match{From: zktest.Label("a"), Op: zktest.OpGetChildren2, Path: "/members$", Times: -1},
			zktest.Fail(zktest.CodeNoAuth))
		f.gone(all[2])
		f.requireServed(10*time.Second, map[string]int{"a": 3, "b": 3})
		f.requireLogged("a", "level=ERROR", "this leader cannot continue", "id=a",
			"ACL of "+path+"/members does not grant read")
		require.Equal(f, "b", f.writers()[len(f.writers())-1])
		f.requireRunning(all[:2]...)
	})
}

// A leader that may no longer write the plan ends no member that serves. TestRun_NotAllowed covers the first plan.
func TestLeader_MayNotWrite(t *testing.T) {
	inFleet(t, 6, func(f *fleet) {
		all := f.team(shard.List(f.shards...))
		forbidden := f.srv.Intercept(zktest.Match{Op: zktest.OpMulti, Path: "/plan$", Times: -1},
			zktest.Fail(zktest.CodeNoAuth))
		f.gone(all[2])
		f.pass(5 * time.Minute)
		f.requireRunning(all[:2]...)
		require.Equal(f, map[string]int{"a": 2, "b": 2}, f.load())
		require.Less(f, forbidden.Hits(), 70, "one try every five seconds, whoever leads")
		f.requireLogged("a", "level=ERROR", "this leader cannot continue", "write the plan "+path+"/plan")
		forbidden.Remove()
		f.requireServed(10*time.Second, map[string]int{"a": 3, "b": 3})
	})
}

// A single error of a server ends no member, whichever request it answers.
func TestMember_ServerFault(t *testing.T) {
	const systemError zktest.Code = -1
	for name, match := range map[string]zktest.Match{
		"the plan":         {Op: zktest.OpGetData, Path: "/plan$"},
		"the members":      {Op: zktest.OpGetChildren2, Path: "/members$"},
		"one member":       {Op: zktest.OpGetData, Path: "/members/c$"},
		"the election":     {Op: zktest.OpGetChildren2, Path: "/election$"},
		"the write":        {Op: zktest.OpMulti, Path: "/plan$"},
		"the sync of that": {Op: zktest.OpSync, Path: "/plan$"},
		"the locks":        {Op: zktest.OpGetChildren2, Path: "/own$"},
		"a lock":           {Op: zktest.OpGetChildren2, Path: "/own/s000$"},
	} {
		for _, who := range []string{"a", "b"} { // a leads
			for _, code := range []zktest.Code{systemError, zktest.CodeMarshallingError} {
				t.Run(fmt.Sprintf("%s, %s, %d", name, who, code), func(t *testing.T) {
					inFleet(t, 6, func(f *fleet) {
						all := f.team(shard.List(f.shards...))
						match.From = zktest.Label(who)
						f.srv.Intercept(match, zktest.Fail(code))
						require.NoError(f, f.srv.Delete(path+"/plan"))
						f.depose()
						f.pass(10 * time.Second)
						f.gone(all[2])
						f.requireServed(15*time.Second, map[string]int{"a": 3, "b": 3})
						f.requireRunning(all[:2]...)
					})
				})
			}
		}
	}
}

// A server that fails on each write of the plan is asked with pauses.
func TestLeader_ServerFailsOnThePlan(t *testing.T) {
	for _, code := range []zktest.Code{-1, zktest.CodeMarshallingError} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			inFleet(t, 6, func(f *fleet) {
				all := f.team(shard.List(f.shards...))
				failing := f.srv.Intercept(zktest.Match{Op: zktest.OpMulti, Path: "/plan$", Times: 1000}, zktest.Fail(code))
				f.gone(all[2])
				f.pass(time.Minute)
				require.Less(f, failing.Hits(), 15)
				failing.Remove()
				f.requireServed(10*time.Second, map[string]int{"a": 3, "b": 3})
			})
		})
	}
}

// A member that could never read the plan ends with the reason, so that the others get its shards. One that could read
// it before keeps what it has.
func TestMember_MayNotReadThePlan(t *testing.T) {
	inFleet(t, 6, func(f *fleet) {
		all := f.team(shard.List(f.shards...))
		f.srv.Intercept(zktest.Match{From: zktest.Label("d"), Op: zktest.OpGetData, Path: "/plan$", Times: -1},
			zktest.Fail(zktest.CodeNoAuth))
		d := f.join("d")
		<-d.ended
		require.ErrorContains(f, d.err, "get "+path+"/plan")
		f.requireServed(3*settle, map[string]int{"a": 2, "b": 2, "c": 2})

		forbidden := f.srv.Intercept(
			zktest.Match{From: zktest.Label("b"), Op: zktest.OpGetData, Path: "/plan$", Times: -1},
			zktest.Fail(zktest.CodeNoAuth))
		asks := f.srv.Intercept(
			zktest.Match{From: zktest.Label("b"), Path: path + "/own/", Op: zktest.OpMulti, Times: -1},
			zktest.Proceed())
		require.NoError(f, f.srv.Set(path+"/plan", []byte(`{"owners":{"b":["s000","s001","s002","s003","s004","s005"]}}`)))
		f.pass(time.Minute)
		require.Zero(f, asks.Hits(), "it does not know the present plan")
		f.requireRunning(all...)
		require.Equal(f, 2, f.load()["b"])
		f.requireLogged("b", "level=ERROR",
			"this member keeps its shards and tries again", "/plan does not grant read", "after=5s")
		forbidden.Remove()
		f.requireServed(15*time.Second, map[string]int{"a": 2, "b": 2, "c": 2})
	})
}

// If the source failed and the leader left, the next leader used to have no set of shards, and repaired nothing.
func TestSource_FailsForTheNextLeader(t *testing.T) {
	fails := func(context.Context) ([]string, error) { return nil, errors.New("no catalog") }
	waits := func(ctx context.Context) ([]string, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	for name, source := range map[string]struct {
		broken func(context.Context) ([]string, error) // nil: the source is a node
		harm   func(f *fleet) error
		log    string
	}{
		"a function fails": {fails, nil, "cannot get"},
		"a function waits": {waits, nil, ""},
		"the node is garbled": {
			nil, func(f *fleet) error { return f.srv.Set(path+"/shards", []byte("garbled")) },
			"cannot read",
		},
		"the node may not be read": {nil, func(f *fleet) error {
			f.srv.Intercept(zktest.Match{Op: zktest.OpGetData, Path: "/shards$", Times: -1}, zktest.Fail(zktest.CodeNoAuth))
			return nil
		}, "cannot read"},
		"the node is deleted": {nil, func(f *fleet) error { return f.srv.Delete(path + "/shards") }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			inFleet(t, 6, func(f *fleet) {
				var broken atomic.Bool
				from := shard.Node()
				if source.broken != nil {
					from = shard.Func(time.Second, func(ctx context.Context) ([]string, error) {
						if broken.Load() {
							return source.broken(ctx)
						}
						return f.shards, nil
					})
				}
				require.NoError(f, f.prepare("x").shards.SetNames(f.Context(), f.shards...))
				all := f.team(from)
				broken.Store(true)
				if source.harm != nil {
					require.NoError(f, source.harm(f))
				}
				f.pass(5 * time.Second)
				f.gone(all[0]) // it led
				f.requireServed(3*time.Second, map[string]int{"b": 3, "c": 3})
				f.requireLogged("b", "level=WARN", "the source has not reported the set of shards yet", "path="+path, "shards=6")
				if source.log != "" {
					f.requireLogged("b", "level=ERROR", source.log, "keeping the previous one")
				}
				require.NoError(f, f.srv.Delete(path+"/plan"))
				f.pass(settle)
				require.Contains(f, f.planned(), "s005", "the set is known, also without a plan")
			})
		})
	}
}

// Such names are not shards, even if the set is known only from the plan.
func TestSource_FailsAndThePlanHasNamesThatCannotBe(t *testing.T) {
	inFleet(t, 1, func(f *fleet) {
		m := f.prepare("a")
		require.NoError(f, m.client.CreateAll(f.Context(), path+"/plan",
			[]byte(`{"owners":{"x":["odd/name","s000"]},"nobody":[".."]}`)))
		m.run(shard.Node())
		f.requireServed(2*settle, map[string]int{"a": 1})
		require.JSONEq(f, `{"owners":{"a":["s000"]}}`, f.planned())
	})
}

// A leader whose source yields the set soon does not plan for the set of the last plan.
func TestSource_TellsInTime(t *testing.T) {
	inFleet(t, 2, func(f *fleet) {
		a := f.prepare("a")
		require.NoError(f, a.client.CreateAll(f.Context(), path+"/plan", []byte(`{"owners":{"a":["old"]}}`)))
		a.run(shard.Func(time.Minute, func(ctx context.Context) ([]string, error) {
			time.Sleep(900 * time.Millisecond)
			return f.shards, nil
		}))
		f.requireServed(2*settle, map[string]int{"a": 2})
		require.Len(f, f.writers(), 2, "the one above and one more")
	})
}

// A plan above the jute.maxbuffer of the servers used to cost the client its connection again and again.
func TestPlan_AboveTheBufferOfTheServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory(), zktest.WithTickTime(tick), zktest.WithMaxBuffer(100_000),
			zktest.WithHistory(5000))
		f := newFleet(t, 3000, srv)
		for i := range f.shards {
			f.shards[i] = fmt.Sprintf("a-rather-long-name-of-a-shard-%06d", i)
		}
		connects := srv.Intercept(zktest.Match{Op: zktest.OpConnect, Times: -1}, zktest.Proceed())
		var names atomic.Pointer[[]string]
		names.Store(&f.shards)
		a := f.prepare("a")
		a.run(shard.Func(time.Second, func(context.Context) ([]string, error) { return *names.Load(), nil }))
		f.pass(5*time.Minute + 10*time.Second)
		require.InDelta(f, 3+5, connects.Hits(), 1, "two tries, one each minute")
		f.requireRunning(a)
		f.requireLogged("a", "level=ERROR", "the plan is too large, keeping the previous one", "path="+path+"/plan",
			"bytes=1", "again=1m0s", "jute.maxbuffer")
		f.shards = f.shards[:10]
		names.Store(&f.shards)
		f.requireServed(5*time.Second, map[string]int{"a": 10})
		f.end()
		f.judge()
	})
}

// A set that fits a node is accepted, but the plan also has the ids of the owners. A plan that does not fit is not
// sent.
func TestPlan_AboveTheLimitOfTheClient(t *testing.T) {
	inFleet(t, 560, func(f *fleet) {
		a := f.prepare("a")
		require.NoError(f, a.client.Close())
		var err error
		a.client, err = conn.New(f.srv.Addr(), conn.WithDialer(f.srv.DialAs("a")), conn.WithMaxRequestSize(4<<10),
			conn.WithSessionTimeout(bubble.Timeout), conn.WithLogger(f.logger("a")))
		require.NoError(f, err)
		a.shards, err = shard.New(a.client, path, shard.WithID(strings.Repeat("a", 200)))
		require.NoError(f, err)
		sent := f.srv.Intercept(zktest.Match{Op: zktest.OpMulti, Path: "/plan$", Times: -1}, zktest.Proceed())
		a.run(shard.List(f.shards...))
		f.pass(time.Minute)
		require.Zero(f, sent.Hits())
		f.requireRunning(a)
		f.requireLogged("a", "level=ERROR", "the plan is too large, keeping the previous one", "bytes=41",
			"want fewer shards or shorter names")
	})
}

// A plan that a server refuses is retried every five seconds, whatever else happens.
func TestPlan_CannotBeWritten(t *testing.T) {
	inFleet(t, 6, func(f *fleet) {
		refused := f.srv.Intercept(zktest.Match{Op: zktest.OpMulti, Path: "/plan$", Times: -1},
			zktest.Fail(zktest.CodeQuotaExceeded))
		a := f.join("a")
		f.pass(settle)
		b := f.join("b")
		for range 60 {
			f.pass(time.Second)
			require.NoError(f, f.srv.Set(path+"/members/b", []byte(`{"weight":1}`)))
		}
		require.InDelta(f, 12, refused.Hits(), 1)
		f.requireLogged("a", "level=ERROR", "cannot write the plan, keeping the previous one", "path="+path+"/plan")
		f.requireRunning(a, b)
		refused.Remove()
		f.requireServed(5*time.Second+settle, map[string]int{"a": 3, "b": 3})
	})
}

// A member whose node cannot be written keeps trying, and reports why others do not know that it is leaving.
func TestMember_CannotSayWhatItIs(t *testing.T) {
	inFleet(t, 4, func(f *fleet) {
		a := f.join("a")
		f.join("b")
		f.requireServed(2*settle, map[string]int{"a": 2, "b": 2})
		refused := f.srv.Intercept(
			zktest.Match{From: zktest.Label("a"), Op: zktest.OpSetData, Path: "/members/a$", Times: -1},
			zktest.Fail(zktest.CodeNoAuth))
		leaving, cancel := context.WithTimeout(f.Context(), 10*time.Second)
		defer cancel()
		require.ErrorIs(f, a.shards.Leave(leaving), context.DeadlineExceeded)
		require.Positive(f, refused.Hits())
		require.Less(f, refused.Hits(), 30, "with pauses")
		f.requireLogged("a", "level=ERROR", "cannot write the state of this member", "id=a", "does not grant")
		require.Equal(f, 2, f.load()["a"])
		refused.Remove()
		f.requireServed(time.Minute, map[string]int{"b": 4})
		<-a.ended
		require.NoError(f, a.err)
	})
}

// A lock that a member may not acquire counts as a failure, and the shard is moving to another member.
func TestWorker_LockCannotBeHad(t *testing.T) {
	inFleet(t, 2, func(f *fleet) {
		f.srv.Intercept(zktest.Match{From: zktest.Label("a"), Path: "/own/s000/", Times: -1}, zktest.Fail(zktest.CodeNoAuth))
		f.join("a", shard.WithGiveUp(3))
		f.join("b")
		f.requireServed(10*time.Second, map[string]int{"a": 1, "b": 1})
		require.Equal(f, "b", f.owners()["s000"])
		f.requireLogged("a", "level=WARN", "cannot acquire the lock of a shard", "shard=s000", "failures=3")
		f.requireLogged("a", "level=ERROR", "giving a shard away", "shard=s000", "id=a", "for=5m0s")
	})
}

// Run returns the reason if a member may not create its node.
func TestRun_CannotJoin(t *testing.T) {
	inFleet(t, 2, func(f *fleet) {
		f.srv.Intercept(zktest.Match{Op: zktest.OpMulti, Path: "/members/a$", Times: -1}, zktest.Fail(zktest.CodeNoAuth))
		a := f.join("a")
		<-a.ended
		require.ErrorIs(f, a.err, zk.ErrNoAuth)
		require.ErrorContains(f, a.err, path+"/members")
	})
}

// A leader that cannot find out who holds what writes no plan. The next one can, and nothing moves.
func TestRecall_ServerFault(t *testing.T) {
	for name, match := range map[string]zktest.Match{
		"the list of locks": {Op: zktest.OpGetChildren2, Path: "/own$"},
		"a lock":            {Op: zktest.OpGetChildren2, Path: "/own/s001$"},
	} {
		t.Run(name, func(t *testing.T) {
			inFleet(t, 4, func(f *fleet) {
				f.join("a")
				f.requireServed(2*settle, map[string]int{"a": 4})
				f.join("b")
				f.requireServed(2*settle, map[string]int{"a": 2, "b": 2}) // each has other shards than in a plan made from nothing
				before, planned, started := f.owners(), f.planned(), f.started()
				fault := f.srv.Intercept(match, zktest.Fail(zktest.CodeMarshallingError))
				require.NoError(f, f.srv.Delete(path+"/plan"))
				f.depose()
				f.pass(20 * time.Second)
				require.Equal(f, 1, fault.Hits())
				require.Equal(f, planned, f.planned())
				require.Equal(f, before, f.owners())
				require.Equal(f, started, f.started())
			})
		})
	}
}

// Owners returns only the error.
func TestOwners_CannotReadThePlan(t *testing.T) {
	inFleet(t, 2, func(f *fleet) {
		a := f.join("a")
		f.requireServed(2*settle, map[string]int{"a": 2})
		f.srv.Intercept(zktest.Match{Op: zktest.OpGetData, Path: "/plan$", Times: -1}, zktest.Fail(zktest.CodeNoAuth))
		view, err := a.shards.Owners(f.Context())
		require.ErrorIs(f, err, zk.ErrNoAuth)
		require.Zero(f, view)
	})
}

// The leader reads back its plan, finds it garbled, and writes it again at once.
func TestPlan_GarbledAsItIsWritten(t *testing.T) {
	inFleet(t, 4, func(f *fleet) {
		f.join("a")
		b := f.join("b")
		f.requireServed(2*settle, map[string]int{"a": 2, "b": 2})
		garble := func(zktest.Request) { require.NoError(f, f.srv.Set(path+"/plan", []byte("garbled"))) }
		f.srv.Intercept(zktest.Match{Op: zktest.OpMulti, Path: "/plan$"}, zktest.Before(garble))
		f.gone(b)
		f.requireServed(time.Second, map[string]int{"a": 4})
		f.requireLogged("a", "level=ERROR", "cannot read the plan, writing a new one")
	})
}
