package shards

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/integration/kit/zkserver"
)

// cost starts many members with many shards, and counts what they use while nothing happens. The members share a
// process. The server counts all requests, including those that prove sessions.
func cost(ctx context.Context, server *zkserver.Server) error {
	tally := newTally(names(costShards))
	t := newOurs(server, tally, "/cost", 0)
	defer t.close()
	before, received, began := memory(), 0, time.Now()
	if n, err := server.Figures(); err == nil {
		received = n["zk_packets_received"]
	}
	all := make([]string, costMembers)
	for i := range all {
		all[i] = fmt.Sprintf("m%02d", i)
		if err := t.join(ctx, all[i]); err != nil {
			return err
		}
	}
	at, err := tally.settled(all)
	if err != nil {
		return err
	}
	now, err := server.Figures()
	if err != nil {
		return err
	}
	fmt.Printf("cost of %d shards on %d members\n\n", costShards, costMembers)
	fmt.Printf("* from the first start until all shards are served: %v, with %d shards stopped meanwhile\n",
		short(at.Sub(began)), tally.counted().stopped)
	fmt.Printf("* requests until then: %.1f for each shard\n",
		float64(now["zk_packets_received"]-received)/float64(costShards))
	fmt.Printf("* watches: %d. Nodes: %d\n", now["zk_watch_count"], now["zk_znode_count"])
	if err := planSize(ctx, server); err != nil {
		return err
	}
	fmt.Printf("* memory of all members: %.1f MB of heap and stacks, %.1f KB for each shard; %d goroutines\n",
		float64(memory()-before)/1e6,
		float64(memory()-before)/1e3/float64(costShards), runtime.NumGoroutine())
	time.Sleep(3 * timeout) // until they take turns checking their nodes
	now, err = server.Figures()
	if err != nil {
		return err
	}
	quiet := time.Now()
	time.Sleep(6 * timeout)
	later, err := server.Figures()
	if err != nil {
		return err
	}
	perSecond := float64(later["zk_packets_received"]-now["zk_packets_received"]) / time.Since(quiet).Seconds()
	fmt.Printf("* requests in quiet: %.0f a second, %.1f for each member, %.3f for each shard\n", perSecond,
		perSecond/float64(costMembers), perSecond/float64(costShards))
	for _, step := range []struct {
		name string
		do   func() error
		left []string
	}{
		{"one member leaves", func() error { return t.leave(ctx, all[0]) }, all[1:]},
		{"it joins again", func() error { return t.join(ctx, all[0]) }, all},
		{"the leader leaves", func() error { return t.leave(ctx, all[1]) }, append(all[:1:1], all[2:]...)},
	} {
		tally.reset()
		began := time.Now()
		if err := step.do(); err != nil {
			return err
		}
		at, err := tally.settled(step.left)
		if err != nil {
			return err
		}
		fmt.Printf("* %s: all shards are served after %v, %d were stopped\n", step.name, short(at.Sub(began)),
			tally.counted().stopped)
	}
	fmt.Println()
	return nil
}

func planSize(ctx context.Context, server *zkserver.Server) error {
	client, err := conn.Dial(ctx, server.Addr())
	if err != nil {
		return err
	}
	defer client.Close()
	data, _, err := client.Get(ctx, "/cost/plan")
	if err == nil {
		fmt.Printf("* plan: %.0f KB, with names of %d bytes\n", float64(len(data))/1e3, len(names(1)[0]))
	}
	return err
}

// memory returns the bytes of live objects and of stacks.
func memory() int64 {
	runtime.GC()
	runtime.GC() // objects with finalizers are freed by the second one
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
