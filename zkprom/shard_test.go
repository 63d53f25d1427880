package zkprom_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/recipes/shard"
	"github.com/zkrecipes/zkrecipes/zkprom"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func TestCollector_Shards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := zkprom.New()
		require.NoError(t, err)
		require.NotContains(t, scrape(t, c), `zkrecipes_shards_owned{name="parts"}`)
		tell := func(name string, from, to shard.State, lasted time.Duration) {
			c.ShardTracer().Change(shard.Change{
				Name: "parts", Path: "/parts", Member: "a", Shard: name, From: from, To: to, At: time.Now(), Lasted: lasted,
			})
		}
		requireShards := func(owned, waiting, longest string) {
			t.Helper()
			got := scrape(t, c)
			require.Equal(t, []string{owned, waiting, longest}, []string{
				got[`zkrecipes_shards_owned{name="parts"}`], got[`zkrecipes_shards_waiting{name="parts"}`],
				got[`zkrecipes_shard_longest_wait_seconds{name="parts"}`],
			})
		}
		tell("p0", "none", "waiting", 0)
		time.Sleep(3 * time.Second)
		tell("p1", "none", "waiting", 0)
		requireShards("0", "2", "3")
		tell("p0", "waiting", "owned", 3*time.Second)
		time.Sleep(time.Second)
		requireShards("1", "1", "1")
		tell("p1", "waiting", "owned", time.Second)
		requireShards("2", "0", "0")
		tell("p1", "owned", "waiting", time.Minute)
		requireShards("1", "1", "0")
		tell("p1", "waiting", "none", 0)
		tell("p0", "owned", "none", time.Minute)
		requireShards("0", "0", "0")
		c.ShardTracer().Plan(shard.Plan{Name: "parts", Path: "/parts", Shards: 2, Members: 1, Moves: 2})
		got := scrape(t, c)
		require.Equal(t, "2", got[`zkrecipes_shard_moves_total{name="parts"}`])
		require.Equal(t, "2", got[`zkrecipes_shard_wait_seconds_count{name="parts"}`])
		require.Equal(t, "4", got[`zkrecipes_shard_wait_seconds_sum{name="parts"}`])
		problems, err := testutil.CollectAndLint(c)
		require.NoError(t, err)
		require.Empty(t, problems)
	})
}

func TestCollector_ManyShards_AreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := zkprom.New(zkprom.WithMaxNames(2), zkprom.WithPaths())
		require.NoError(t, err)
		for i := range 5 {
			c.ShardTracer().Change(shard.Change{
				Name: fmt.Sprint("n", i), Path: "/p", Member: "a", Shard: "s" + fmt.Sprint(i),
				From: "waiting", To: "owned",
			})
		}
		got := scrape(t, c)
		require.Equal(t, "1", got[`zkrecipes_shards_owned{name="n1",path="/p"}`])
		require.Equal(t, "3", got[`zkrecipes_shards_owned{name="(other)",path="(other)"}`])
	})
}

// The shards of two subs of a client have the same paths, members and names.
func TestCollector_ShardsOfTwoSubs_AllCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory())
		client, c := dial(t, srv, "a")
		stop := map[string]context.CancelFunc{}
		for _, prefix := range []string{"/blue", "/green"} {
			sub, err := client.Sub(prefix)
			require.NoError(t, err)
			all, err := shard.New(sub, "/parts", shard.WithID("a"), shard.WithTracer(c.ShardTracer()))
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			stop[prefix] = cancel
			go func() { _ = all.Run(ctx, shard.List("p0"), obey) }()
		}
		requireOwned := func(want string) {
			t.Helper()
			require.Equal(t, want, scrape(t, c)[`zkrecipes_shards_owned{name=""}`])
		}
		time.Sleep(timeout)
		requireOwned("2")
		stop["/blue"]()
		time.Sleep(timeout)
		requireOwned("1")
		stop["/green"]()
		time.Sleep(timeout)
		requireOwned("0")
	})
}
