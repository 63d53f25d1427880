package discovery_test

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
	"github.com/zkrecipes/zkrecipes/recipes/discovery"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// instants returns, from the server's history, the czxids of the nodes of a service after each transaction, in order.
func instants(srv *zktest.Server, folder string) map[int64][]int64 {
	lists := map[int64][]int64{0: {}}
	there := map[string]int64{}
	for _, txn := range srv.History() {
		for _, c := range txn.Changes {
			switch {
			case !strings.HasPrefix(c.Path, folder+"/"):
				continue
			case c.Kind == zktest.ChangeCreate:
				there[c.Path] = txn.Zxid
			case c.Kind == zktest.ChangeDelete:
				delete(there, c.Path)
			}
		}
		list := []int64{}
		for _, czxid := range there {
			list = append(list, czxid)
		}
		slices.Sort(list)
		lists[txn.Zxid] = list
	}
	return lists
}

// TestRandom runs storms of faults on instances that come, change and go, and on a client that follows them. Each view
// must be one instant of the server's history, and the last one the state after the storm.
func TestRandom(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, srv *zktest.Server) { storm(t, srv, rand.New(rand.NewPCG(seed, 0))) })
		})
	}
}

func storm(t *testing.T, srv *zktest.Server, random *rand.Rand) {
	t.Helper()
	codec := []discovery.Codec{
		discovery.Curator(), discovery.Spring(), discovery.Dubbo(), discovery.Finagle(),
	}[random.IntN(4)]
	const clients = 3
	ds := map[string]*discovery.Discovery{}
	labels := []string{"w", "0", "1", "2"}
	for _, l := range labels {
		ds[l] = open(t, bubble.Dial(t, srv, l), discovery.WithCodec(codec))
	}
	told := watch(t, ds["w"], "orders")
	here := map[string]*discovery.Registration{}
	label := func() zktest.Who { return zktest.Label(labels[random.IntN(len(labels))]) }
	soon := func() time.Duration { return time.Duration(random.Int64N(int64(bubble.Timeout))) }
	folder, err := codec.Folder("orders")
	require.NoError(t, err)
	folder = base + "/" + folder
	port := 0
	steps := []func() (undo func()){
		func() func() { // an instance comes, changes or goes
			l := fmt.Sprint(random.IntN(clients))
			ctx, cancel := context.WithTimeout(t.Context(), soon())
			defer cancel()
			port++
			r := here[l]
			switch {
			case r == nil:
				if r, err := ds[l].Register(ctx,
					discovery.Instance{Service: "orders", Address: "host" + l, Port: port}); err == nil {
					here[l] = r
				}
			case random.IntN(2) == 0:
				i := r.Instance()
				i.Disabled = !i.Disabled
				_ = r.Update(ctx, i) // Curator's format may not support it, and faults are expected
			default:
				_ = r.Close(ctx) // it continues in the background
				delete(here, l)
			}
			return nil
		},
		func() func() {
			m := zktest.Match{
				From: label(),
				Op:   []zktest.Op{zktest.OpAny, zktest.OpMulti, zktest.OpGetData, zktest.OpSetData}[random.IntN(4)],
				Skip: random.IntN(3),
			}
			action := []zktest.Action{
				zktest.DropRequest(), zktest.DropReply(), zktest.Ignore(), zktest.HoldReply(soon()),
			}[random.IntN(4)]
			return srv.Intercept(m, action).Remove
		},
		func() func() { srv.Cut(label()); return nil },
		func() func() { srv.Expire(srv.SessionOf(labels[random.IntN(len(labels))])); return nil },
		func() func() { srv.Restart(); return nil },
		func() func() { srv.Freeze(); return srv.Thaw },
		func() func() {
			who := label()
			srv.Stall(who, zktest.Direction(random.IntN(3)))
			return func() { srv.Heal(who) }
		},
		func() func() { srv.Reap(); return nil },
		func() func() { srv.LoseWatch(zktest.Label("w"), folder); return nil },
	}
	for range 150 {
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
	requireTrue(t, instants(srv, folder), told.all())
	last := told.last()
	told.mu.Lock()
	require.NoError(t, told.err)
	told.mu.Unlock()
	require.True(t, last.Current)
	require.Len(t, last.Entries, len(here))
	require.Len(t, srv.Children(folder), len(here))
	for _, e := range last.Entries {
		require.NoError(t, e.Err)
		r := here[strings.TrimPrefix(e.Address, "host")]
		require.Equal(t, r.Path(), e.Path)
		require.Equal(t, r.State().Czxid, e.Czxid)
		require.Equal(t, r.Instance().Port, e.Port)
		require.Equal(t, r.Instance().Disabled, e.Disabled)
	}
}

// requireTrue requires that each view is the state of the server at one instant, and that no view repeats the previous
// one.
func requireTrue(t *testing.T, truth map[int64][]int64, views []discovery.View) {
	t.Helper()
	require.Greater(t, len(views), 20)
	for i, v := range views {
		want, known := truth[v.Zxid]
		require.True(t, known, "view %d: no transaction %d", i, v.Zxid)
		got := []int64{}
		for _, e := range v.Entries {
			got = append(got, e.Czxid)
		}
		require.Equal(t, want, got, "view %d", i)
		if i > 0 {
			before := views[i-1]
			require.False(t, v.Current == before.Current && fmt.Sprint(v.Entries) == fmt.Sprint(before.Entries),
				"view %d is told twice", i)
		}
	}
}
