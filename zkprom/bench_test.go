package zkprom_test

import (
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
	"github.com/zkrecipes/zkrecipes/zkprom"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// The benchmark measures the cost of the metrics: the median time to acquire and release a lock over the loopback,
// without and with a collector. The two alternate, so that other load on the machine slows both.
func BenchmarkLock(b *testing.B) {
	srv := zktest.Run(b)
	metrics, err := zkprom.New()
	require.NoError(b, err)
	mutexes := [2]*mutex.Mutex{}
	for i, opts := range [2][]conn.Option{nil, {conn.WithTracer(metrics.Tracer())}} {
		client, err := conn.Dial(b.Context(), srv.Addr(), append(opts, conn.WithLogger(slog.New(slog.DiscardHandler)))...)
		require.NoError(b, err)
		b.Cleanup(func() { _ = client.Close() }) // never fails
		mutexes[i], err = mutex.New(client, []string{"/none", "/zkprom"}[i], mutex.WithTracerName("bench"))
		require.NoError(b, err)
	}
	var took [2][]time.Duration
	for round := 0; b.Loop(); round++ {
		for turn := range mutexes {
			i := (round + turn) % 2
			start := time.Now()
			h, err := mutexes[i].Lock(b.Context())
			if err == nil {
				err = h.Release(b.Context())
			}
			if err != nil {
				b.Fatal(err)
			}
			took[i] = append(took[i], time.Since(start))
		}
	}
	slices.Sort(took[0])
	slices.Sort(took[1])
	none, with := float64(took[0][len(took[0])/2]), float64(took[1][len(took[1])/2])
	b.ReportMetric(none, "none-ns")
	b.ReportMetric(with, "zkprom-ns")
	b.ReportMetric(100*(with/none-1), "percent")
}
