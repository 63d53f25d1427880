// Package throughput compares the speed of zktest with the speed of a real server.
package throughput

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/integration/zkserver"
	"github.com/zkrecipes/zkrecipes/zktest"
)

const clients = 8

// A round is long enough to measure, and short enough that other load on the machine hits both servers alike.
const (
	rounds = 5
	round  = 600 * time.Millisecond
)

// A program that replaces a real server by zktest must not wait longer for it. Both are measured in turns. The real
// server keeps its log in memory where /dev/shm exists.
//
// On a busy machine each process gets a share of the processors, and the real server is one process more. So the test
// counts the processor time of client and server, and the time of a pair that nothing else holds up.
func TestZktest_IsNotSlowerThanReal(t *testing.T) {
	if testing.Short() {
		t.Skip("measures for some seconds")
	}
	server := zkserver.Start(t)
	theirs, own := dial(t, server.Addr()), dial(t, zktest.Run(t).Addr())
	measure(t, theirs) // the JVM compiles the code that it will run
	measure(t, own)
	var realCost, ownCost cost
	for range rounds {
		realCost.add(measure(t, theirs, os.Getpid(), server.PID()))
		ownCost.add(measure(t, own, os.Getpid()))
	}
	t.Logf("create+delete from %d clients: zktest %v, zookeeper %v", clients, &ownCost, &realCost)
	if server.PID() != 0 && ownCost.cpu > 0 {
		if ownCost.each() > realCost.each() {
			t.Errorf("a pair takes %v of processor time with zktest, %v with zookeeper", ownCost.each(), realCost.each())
		}
	} else if ownCost.rate() < realCost.rate() {
		t.Errorf("zktest serves %.0f pairs a second, zookeeper %.0f", ownCost.rate(), realCost.rate())
	}
	if ownCost.quick() > realCost.quick() {
		t.Errorf("of the pairs, the quickest tenth takes up to %v with zktest, %v with zookeeper", ownCost.quick(), realCost.quick())
	}
}

// cost is what pairs have taken: each by the clock, and all together by the clock and in processor time.
type cost struct {
	pairs     []time.Duration
	took, cpu time.Duration
}

func (c *cost) add(more cost) {
	c.pairs, c.took, c.cpu = append(c.pairs, more.pairs...), c.took+more.took, c.cpu+more.cpu
}

func (c *cost) rate() float64 { return float64(len(c.pairs)) / c.took.Seconds() }

func (c *cost) each() time.Duration { return c.cpu / time.Duration(len(c.pairs)) }

// quick is the longest time of the quickest tenth of the pairs.
func (c *cost) quick() time.Duration { return slices.Sorted(slices.Values(c.pairs))[len(c.pairs)/10] }

func (c *cost) String() string {
	return fmt.Sprintf("%.0f/s, %v of processor time, %v at best", c.rate(), c.each(), c.quick())
}

func BenchmarkCreateDelete(b *testing.B) {
	for name, addr := range map[string]string{"zktest": zktest.Run(b).Addr(), "zookeeper": zkserver.Start(b).Addr()} {
		conns := dial(b, addr)
		b.Run(fmt.Sprintf("server=%s/clients=%d", name, clients), func(b *testing.B) {
			var taken atomic.Int64
			work(b, conns, func() bool { return taken.Add(1) <= int64(b.N) })
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

// measure lets all clients create and delete nodes for a round. It counts the processor time of the processes.
func measure(tb testing.TB, conns []*zk.Conn, processes ...int) (c cost) {
	tb.Helper()
	for _, pid := range processes {
		c.cpu -= zkserver.CPU(pid)
	}
	start := time.Now()
	c.pairs = work(tb, conns, func() bool { return time.Since(start) < round })
	c.took = time.Since(start)
	for _, pid := range processes {
		c.cpu += zkserver.CPU(pid)
	}
	return c
}

// work lets every client create and delete a node of its own while more returns true. It returns the time of each pair.
func work(tb testing.TB, conns []*zk.Conn, more func() bool) []time.Duration {
	tb.Helper()
	var all sync.WaitGroup
	pairs := make([][]time.Duration, len(conns))
	for i, c := range conns {
		all.Go(func() {
			path := fmt.Sprintf("/pair-%d", i)
			for more() {
				start := time.Now()
				if _, err := c.Create(path, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll)); err != nil {
					tb.Error(err)
					return
				}
				if err := c.Delete(path, -1); err != nil {
					tb.Error(err)
					return
				}
				pairs[i] = append(pairs[i], time.Since(start))
			}
		})
	}
	all.Wait()
	return slices.Concat(pairs...)
}
