package zktest

import (
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkRequests measures clients over the loopback that each wait for one reply before they send the next request.
// With ZKTEST_BENCH_ADDR it runs against the server at that address, which is how zktest is compared with a real one.
func BenchmarkRequests(b *testing.B) {
	data := make([]byte, 100)
	for _, kind := range []struct {
		name string
		ask  func(r *raw, path string) (requests int)
	}{
		{"create+delete", func(r *raw, path string) int {
			r.run(OpCreate, createBody(path+"-", Ephemeral))
			r.run(OpDelete, versionBody(path+"-", -1))
			return 2
		}},
		{"get", func(r *raw, path string) int {
			r.run(OpGetData, watchBody(path, false))
			return 1
		}},
		{"set", func(r *raw, path string) int {
			r.run(OpSetData, setBody(path, data, -1))
			return 1
		}},
		{"multi", func(r *raw, path string) int {
			r.run(OpMulti, multiBody(part{OpCheck, versionBody(path, -1)}, part{OpSetData, setBody(path, data, -1)}))
			return 1
		}},
	} {
		for _, clients := range []int{1, 8, 64} {
			b.Run(fmt.Sprintf("%s/clients=%d", kind.name, clients), func(b *testing.B) { benchmark(b, clients, kind.ask) })
		}
	}
}

func benchmark(b *testing.B, clients int, ask func(r *raw, path string) int) {
	b.Helper()
	addr := os.Getenv("ZKTEST_BENCH_ADDR")
	if addr == "" {
		addr = Run(b).Addr()
	}
	var left, requests atomic.Int64
	left.Store(int64(b.N))
	root := fmt.Sprintf("/bench%d", time.Now().UnixNano())
	raws := make([]*raw, clients)
	for i := range raws {
		raws[i] = attachTCP(b, addr)
	}
	raws[0].make(root, Persistent)
	for i, r := range raws {
		r.make(fmt.Sprintf("%s/%d", root, i), Persistent)
	}
	b.ResetTimer()
	var wg sync.WaitGroup
	for i, r := range raws {
		path := fmt.Sprintf("%s/%d", root, i)
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				requests.Add(int64(ask(r, path)))
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(requests.Load())/b.Elapsed().Seconds(), "requests/s")
}

func attachTCP(tb testing.TB, addr string) *raw {
	tb.Helper()
	r := newRaw(tb, dialTCP(tb, addr))
	require.True(tb, r.connect(0, 10*time.Second, 0, nil))
	return r
}

func dialTCP(tb testing.TB, addr string) net.Conn {
	tb.Helper()
	nc, err := net.Dial("tcp", addr)
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = nc.Close() })
	return nc
}
