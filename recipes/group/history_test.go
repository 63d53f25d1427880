package group_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/group"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// instants returns, from the server's history, the czxids of the members after each transaction that changed the list
// of members, in order.
func instants(srv *zktest.Server) map[int64][]int64 {
	at := map[int64][]int64{0: nil}
	czxids := map[string]int64{}
	for _, txn := range srv.History() {
		for _, c := range txn.Changes {
			switch {
			case c.Path == path && c.Kind == zktest.ChangeCreate:
				at[txn.Zxid] = nil
			case !strings.HasPrefix(c.Path, path+"/"):
			case c.Kind == zktest.ChangeCreate:
				czxids[c.Path] = txn.Zxid
			case c.Kind == zktest.ChangeDelete:
				delete(czxids, c.Path)
			default:
				continue
			}
		}
		var list []int64
		for _, czxid := range czxids {
			list = append(list, czxid)
		}
		slices.Sort(list)
		at[txn.Zxid] = list
	}
	return at
}

func czxids(v group.View) []int64 {
	var list []int64
	for _, m := range v.Members {
		list = append(list, m.Czxid)
	}
	return list
}

// requireTrue requires that each view is the state of the server at one instant, that views are in order, and that no
// view repeats the previous one.
func requireTrue(t *testing.T, srv *zktest.Server, views []group.View) {
	t.Helper()
	truth := instants(srv)
	for i, v := range views {
		want, known := truth[v.Zxid]
		require.True(t, known, "view %d: no transaction %d", i, v.Zxid)
		require.Equal(t, want, czxids(v), "view %d, zxid %d", i, v.Zxid)
		if i > 0 && v.Zxid != 0 { // 0 if the parent is gone
			before := views[i-1]
			require.GreaterOrEqual(t, v.Zxid, before.Zxid, "view %d", i)
			require.False(t, v.Current == before.Current && v.Zxid == before.Zxid &&
				fmt.Sprint(v.Members) == fmt.Sprint(before.Members), "view %d is told twice", i)
		}
	}
}

// TestRandom runs storms of faults on members that join and leave, and on a client that watches them. Each view must be
// one instant of the server's history, and the last one the state after the storm.
func TestRandom(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, srv *zktest.Server) { storm(t, srv, rand.New(rand.NewPCG(seed, 0))) })
		})
	}
}

func storm(t *testing.T, srv *zktest.Server, random *rand.Rand) {
	t.Helper()
	const clients = 4
	groups := map[string]*group.Group{}
	label := func() string { return []string{"w", "0", "1", "2", "3"}[random.IntN(clients+1)] }
	for _, l := range []string{"w", "0", "1", "2", "3"} {
		groups[l] = open(t, bubble.Dial(t, srv, l))
	}
	var opts []group.WatchOption
	if random.IntN(2) == 0 {
		opts = append(opts, group.WithPayloads())
	}
	told := watch(t, groups["w"], opts...)
	members := map[string]*group.Membership{}
	soon := func() time.Duration { return time.Duration(random.Int64N(int64(bubble.Timeout))) }
	ops := []zktest.Op{
		zktest.OpAny, zktest.OpMulti, zktest.OpGetData, zktest.OpGetChildren2, zktest.OpExists,
		zktest.OpConnect,
	}
	actions := []func() zktest.Action{
		zktest.DropRequest, zktest.DropReply, zktest.Ignore, func() zktest.Action { return zktest.HoldReply(soon()) },
		func() zktest.Action { return zktest.Delay(soon()) },
		func() zktest.Action { return zktest.Fail(zktest.CodeThrottled) },
	}
	one := func() string { // a member, or a path without one
		children := srv.Children(path)
		if len(children) == 0 {
			return path
		}
		return path + "/" + children[random.IntN(len(children))]
	}
	steps := []func() (undo func()){
		func() func() {
			id := fmt.Sprint(random.IntN(clients))
			ctx, cancel := context.WithTimeout(t.Context(), soon())
			defer cancel()
			if m := members[id]; m != nil {
				_ = m.Close(ctx) // it continues in the background
				delete(members, id)
			} else if m, err := groups[id].Join(ctx, id, []byte(id)); err == nil {
				members[id] = m
			}
			return nil
		},
		func() func() {
			m := zktest.Match{From: zktest.Label(label()), Op: ops[random.IntN(len(ops))], Skip: random.IntN(3)}
			return srv.Intercept(m, actions[random.IntN(len(actions))]()).Remove
		},
		func() func() { srv.Cut(zktest.Label(label())); return nil },
		func() func() { srv.Expire(srv.SessionOf(label())); return nil },
		func() func() { srv.Restart(); return nil },
		func() func() { srv.Freeze(); return srv.Thaw },
		func() func() {
			who := zktest.Label(label())
			srv.Stall(who, zktest.Direction(random.IntN(3)))
			return func() { srv.Heal(who) }
		},
		func() func() { srv.Reap(); return nil },
		func() func() { _ = srv.Delete(one()); return nil }, // unless it is not empty
		func() func() { _ = srv.Set(one(), fmt.Append(nil, random.IntN(9))); return nil },
		func() func() { srv.LoseWatch(zktest.Label("w"), path); return nil },
		func() func() { srv.SendEvent(zktest.Label("w"), zktest.NodeChildrenChanged, path); return nil },
		func() func() { srv.SendEvent(zktest.Label("w"), zktest.NodeDeleted, one()); return nil },
	}
	for range 300 {
		step := steps[0]
		if random.IntN(2) == 0 {
			step = steps[random.IntN(len(steps))]
		}
		undo := step()
		time.Sleep(soon() / 4)
		if undo != nil {
			undo()
		}
	}
	time.Sleep(6 * bubble.Timeout)
	requireTrue(t, srv, told.All())
	require.NoError(t, told.Err())
	require.Greater(t, len(told.All()), 50)
	last := told.Last()
	require.True(t, last.Current)
	require.Len(t, last.Members, len(members))
	require.ElementsMatch(t, srv.Children(path), ids(last))
	v, err := groups["w"].Members(t.Context())
	require.NoError(t, err)
	require.Equal(t, czxids(last), czxids(v))
	for _, m := range v.Members {
		require.Equal(t, m.ID, string(m.Data))
		require.Equal(t, members[m.ID].State().Czxid, m.Czxid)
	}
}
