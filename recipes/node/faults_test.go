package node_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/node"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// blows are faults at one request of client a.
var blows = func() map[string]func(*zktest.Server) zktest.Action {
	blows := map[string]func(*zktest.Server) zktest.Action{
		"request lost":  func(*zktest.Server) zktest.Action { return zktest.DropRequest() },
		"reply lost":    func(*zktest.Server) zktest.Action { return zktest.DropReply() },
		"late":          func(*zktest.Server) zktest.Action { return zktest.HoldReply(bubble.Timeout / 5) },
		"too late":      func(*zktest.Server) zktest.Action { return zktest.HoldReply(bubble.Timeout) },
		"throttled":     func(*zktest.Server) zktest.Action { return zktest.Fail(zktest.CodeThrottled) },
		"timed out":     func(*zktest.Server) zktest.Action { return zktest.Fail(zktest.CodeOperationTimeout) },
		"session moved": func(*zktest.Server) zktest.Action { return zktest.Fail(zktest.CodeSessionMoved) },
	}
	for when, at := range map[string]func(func(zktest.Request)) zktest.Action{
		"before": zktest.Before, "after": zktest.After,
	} {
		for what, do := range map[string]func(*zktest.Server){
			"expired":     func(srv *zktest.Server) { srv.Expire(srv.SessionOf("a")) },
			"restarted":   func(srv *zktest.Server) { srv.Restart() },
			"cut":         func(srv *zktest.Server) { srv.Cut(zktest.Label("a")) },
			"reaped":      func(srv *zktest.Server) { srv.Reap() },
			"deleted":     func(srv *zktest.Server) { _ = srv.Delete(path) }, // if it exists
			"all deleted": func(srv *zktest.Server) { _ = srv.DeleteAll("/app") },
			"written":     func(srv *zktest.Server) { _ = srv.Set(path, []byte("x")) },
		} {
			blows[what+" "+when] = func(srv *zktest.Server) zktest.Action { return at(func(zktest.Request) { do(srv) }) }
		}
	}
	return blows
}()

// TestEveryStep injects each blow at each request in the life of a node, one per run. Soon afterwards the node must
// exist with its data, and it must be gone after Close.
func TestEveryStep(t *testing.T) {
	t.Parallel()
	for name, blow := range blows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for step := 0; ; step++ {
				hit := false
				inBubble(t, func(t *testing.T, srv *zktest.Server) {
					hit = live(t, srv, zktest.Match{From: zktest.Label("a"), Skip: step}, blow(srv))
				})
				if !hit || t.Failed() {
					t.Logf("%d steps", step)
					require.Greater(t, step, 5)
					break
				}
			}
		})
	}
}

func live(t *testing.T, srv *zktest.Server, m zktest.Match, blow zktest.Action) (hit bool) {
	t.Helper()
	c := bubble.Dial(t, srv, "a")
	rule := srv.Intercept(m, blow)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	n := keepOf(t, c, "1")
	for data := byte('2'); data < '5'; data++ {
		require.NoError(t, n.Ready(ctx))
		require.NoError(t, n.Set(ctx, []byte{data}))
		time.Sleep(2 * time.Second)
	}
	time.Sleep(3 * bubble.Timeout) // background work settles
	requireNode(t, srv, n, "4")
	require.NoError(t, n.Close(ctx))
	time.Sleep(2 * bubble.Timeout)
	synctest.Wait()
	require.False(t, srv.Exists(path))
	return rule.Hits() > 0
}

// TestRandom runs storms of faults during which another client takes the path when it can. After the storm the node
// must exist with the data that was set last.
func TestRandom(t *testing.T) {
	t.Parallel()
	for seed := range uint64(bubble.Rounds(30)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, srv *zktest.Server) { storm(t, srv, rand.New(rand.NewPCG(seed, 0))) })
		})
	}
}

func storm(t *testing.T, srv *zktest.Server, random *rand.Rand) {
	t.Helper()
	a, b := bubble.Dial(t, srv, "a"), bubble.Dial(t, srv, "b")
	n := keepOf(t, a, "0")
	l := follow(t, n)
	soon := func() time.Duration { return time.Duration(random.Int64N(int64(2 * bubble.Timeout))) }
	ops := []zktest.Op{
		zktest.OpAny, zktest.OpMulti, zktest.OpGetData, zktest.OpSetData, zktest.OpConnect,
		zktest.OpCreateContainer, zktest.OpPing,
	}
	actions := []func() zktest.Action{
		zktest.DropRequest, zktest.DropReply, zktest.Ignore, func() zktest.Action { return zktest.HoldReply(soon()) },
		func() zktest.Action { return zktest.Delay(soon()) },
		func() zktest.Action { return zktest.Fail(zktest.CodeThrottled) },
	}
	faults := []func() (undo func()){
		func() func() {
			m := zktest.Match{From: zktest.Label("a"), Op: ops[random.IntN(len(ops))], Skip: random.IntN(3)}
			return srv.Intercept(m, actions[random.IntN(len(actions))]()).Remove
		},
		func() func() { srv.Cut(zktest.Label("a")); return nil },
		func() func() { srv.Expire(srv.SessionOf("a")); return nil },
		func() func() { srv.Restart(); return nil },
		func() func() { srv.Down(); return srv.Up },
		func() func() { srv.Freeze(); return srv.Thaw },
		func() func() {
			srv.Stall(zktest.Label("a"), zktest.Direction(random.IntN(3)))
			return func() { srv.Heal(zktest.Label("a")) }
		},
		func() func() { srv.Reap(); return nil },
		func() func() { _ = srv.Delete(path); return nil }, // if it exists
		func() func() { _ = srv.Set(path, []byte("x")); return nil },
		func() func() { srv.LoseWatch(zktest.Label("a"), path); return nil },
		func() func() { srv.SendEvent(zktest.Label("a"), zktest.NodeDeleted, path); return nil },
		func() func() { // the other client tries
			ctx, cancel := context.WithTimeout(t.Context(), soon())
			defer cancel()
			_, _ = b.Create(ctx, path, []byte("theirs"), zk.FlagEphemeral)
			return func() { srv.Expire(srv.SessionOf("b")) }
		},
	}
	data := 0
	for range 200 {
		undo := faults[random.IntN(len(faults))]()
		ctx, cancel := context.WithTimeout(t.Context(), soon())
		data++
		_ = n.Set(ctx, fmt.Append(nil, data)) // it counts nevertheless
		cancel()
		time.Sleep(soon())
		if undo != nil {
			undo()
		}
	}
	srv.Expire(srv.SessionOf("b"))
	time.Sleep(5 * bubble.Timeout)
	requireNode(t, srv, n, fmt.Sprint(data))
	require.Equal(t, n.State().Czxid, l.Last().Czxid)
	require.NoError(t, n.Close(t.Context()))
	time.Sleep(2 * bubble.Timeout)
	require.False(t, srv.Exists(path))
	require.Equal(t, node.State{Err: n.State().Err, Freshness: zkrecipes.Freshness{AsOf: n.State().AsOf}}, n.State())
}
