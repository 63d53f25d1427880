// Package throughput compares the speed of zktest with that of a real server.
package throughput

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/integration/zkserver"
	"github.com/zkrecipes/zkrecipes/zktest"
)

const clients = 8

// A round is long enough to matter and short enough that what else the machine does hits both servers alike.
const (
	rounds = 5
	round  = 600 * time.Millisecond
)

// Whoever replaces a real server by zktest must not wait longer for it. Both are measured in turns; the real server
// keeps its log in memory, where there is a /dev/shm.
func TestZktest_IsNotSlowerThanReal(t *testing.T) {
	if testing.Short() {
		t.Skip("measures for some seconds")
	}
	theirs, own := dial(t, zkserver.Start(t).Addr()), dial(t, zktest.Run(t).Addr())
	measure(t, theirs) // the JVM compiles what it will run
	measure(t, own)
	var realRate, ownRate float64
	for range rounds {
		realRate += measure(t, theirs) / rounds
		ownRate += measure(t, own) / rounds
	}
	t.Logf("create+delete from %d clients: zktest %.0f/s, zookeeper %.0f/s", clients, ownRate, realRate)
	if ownRate < realRate {
		t.Errorf("zktest serves %.0f pairs a second, zookeeper %.0f", ownRate, realRate)
	}
}

func BenchmarkCreateDelete(b *testing.B) {
	for name, addr := range map[string]string{"zktest": zktest.Run(b).Addr(), "zookeeper": zkserver.Start(b).Addr()} {
		conns := dial(b, addr)
		b.Run(fmt.Sprintf("server=%s/clients=%d", name, clients), func(b *testing.B) {
			var taken atomic.Int64
			work(b, conns, func(int) bool { return taken.Add(1) <= int64(b.N) })
		})
	}
}

func dial(tb testing.TB, addr string) []*zk.Conn {
	tb.Helper()
	conns := make([]*zk.Conn, clients)
	for i := range conns {
		c, _, err := zk.Connect([]string{addr}, 10*time.Second, zk.WithLogInfo(false))
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(c.Close)
		if _, err := c.Sync("/"); err != nil {
			tb.Fatal(err)
		}
		conns[i] = c
	}
	return conns
}

// measure returns how many nodes all clients together create and delete in a second.
func measure(tb testing.TB, conns []*zk.Conn) float64 {
	tb.Helper()
	start := time.Now()
	pairs := work(tb, conns, func(int) bool { return time.Since(start) < round })
	return float64(pairs) / time.Since(start).Seconds()
}

// work lets every client create and delete a node of its own as long as more wants.
func work(tb testing.TB, conns []*zk.Conn, more func(done int) bool) (pairs int) {
	tb.Helper()
	var all sync.WaitGroup
	done := make([]int, len(conns))
	for i, c := range conns {
		all.Go(func() {
			path := fmt.Sprintf("/pair-%d", i)
			for ; more(done[i]); done[i]++ {
				if _, err := c.Create(path, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll)); err != nil {
					tb.Error(err)
					return
				}
				if err := c.Delete(path, -1); err != nil {
					tb.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	for _, n := range done {
		pairs += n
	}
	return pairs
}
