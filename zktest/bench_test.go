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

// BenchmarkCreateDelete runs create and delete in turn from eight clients over the loopback. With ZKTEST_BENCH_ADDR it
// runs against the server there, which is how zktest is compared with a real one.
func BenchmarkCreateDelete(b *testing.B) {
	for _, clients := range []int{1, 8} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) { benchmarkCreateDelete(b, clients) })
	}
}

func benchmarkCreateDelete(b *testing.B, clients int) {
	b.Helper()
	addr := os.Getenv("ZKTEST_BENCH_ADDR")
	if addr == "" {
		addr = Run(b).Addr()
	}
	var left atomic.Int64
	left.Store(int64(b.N))
	root := fmt.Sprintf("/bench%d", time.Now().UnixNano())
	raws := make([]*raw, clients)
	for i := range raws {
		raws[i] = attachTCP(b, addr)
	}
	_, code := raws[0].create(root, Persistent)
	require.Equal(b, CodeOK, code)
	b.ResetTimer()
	var wg sync.WaitGroup
	for i, r := range raws {
		path := fmt.Sprintf("%s/%d", root, i)
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				r.run(OpCreate, createBody(path, Ephemeral))
				r.run(OpDelete, versionBody(path, -1))
			}
		})
	}
	wg.Wait()
	b.ReportMetric(2*float64(b.N)/b.Elapsed().Seconds(), "requests/s")
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
