package bench

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/zkrecipes/zkrecipes/recipes/value"
)

// counters are the rows of one counter under many clients, compared with the two ways Curator has. A
// DistributedAtomicLong retries until it is not overtaken. With PromotedToLock it tries once, then takes a lock.
func (f *field) counters(ctx context.Context) (rows []row) {
	for _, n := range []int{1, 2, 8, 64} {
		ratio := map[int]float64{1: 1.5, 2: 1, 8: 1.1, 64: 1}[n]
		rows = append(rows, row{fmt.Sprintf("Counter.Add on one counter, %d client(s)", n), []contestant{
			f.tallied("zkrecipes", []int{os.Getpid()}, func(slice time.Duration) (done, error) { return f.add(ctx, n, slice) }),
			f.tallied("Curator", []int{f.curator.PID()},
				func(slice time.Duration) (done, error) { return f.curator.work("counter", f.number, n, slice) }),
			f.tallied("Curator, PromotedToLock", []int{f.curator.PID()},
				func(slice time.Duration) (done, error) { return f.curator.work("promoted", f.number, n, slice) }),
		}, []target{{against: "Curator", ratio: ratio}, {against: "Curator, PromotedToLock", ratio: ratio}}})
	}
	return rows
}

// packets is the figure of the requests that a server has received.
const packets = "zk_packets_received"

// tallied is a contestant whose rate is not the whole story. If the slice is a second or more, it also prints the
// requests per addition, the longest wait, and the additions of the unluckiest and the luckiest client; for a shorter
// slice they mean little.
func (f *field) tallied(name string, pids []int, work func(slice time.Duration) (done, error)) contestant {
	warm := false
	return contestant{name, pids, func(_ context.Context, slice time.Duration) (float64, error) {
		before, err := f.server.Figures()
		if err != nil {
			return 0, err
		}
		start := time.Now()
		d, err := work(slice)
		if err != nil {
			return 0, err
		}
		after, err := f.server.Figures()
		if warm && slice >= time.Second {
			fmt.Printf("    %-24s %6.0f a second, %5.1f requests each, longest %4.0f ms, %v to %v of one client\n", name, d.rate,
				float64(after[packets]-before[packets])/(d.rate*time.Since(start).Seconds()), d.worst, d.least, d.most)
		}
		warm = true
		return d.rate, err
	}}
}

// add makes n clients add to one counter.
func (f *field) add(ctx context.Context, n int, slice time.Duration) (done, error) {
	if err := f.dial(ctx, n); err != nil {
		return done{}, err
	}
	worst, counts := make([]time.Duration, n), make([]float64, n)
	sections := make([]section, n)
	for i := range sections {
		c := must(value.NewCounter(f.ours[i], "/bench/ours/counter", value.AtomicLong()))
		defer func() { _ = c.Close(ctx) }() // otherwise the marker goes with the session
		sections[i] = func(int) error {
			ctx, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			began := time.Now()
			_, err := c.Add(ctx, 1)
			worst[i] = max(worst[i], time.Since(began))
			counts[i]++
			return err
		}
	}
	rate, err := repeat(slice, sections)
	return done{rate, float64(slices.Max(worst).Microseconds()) / 1000, slices.Min(counts), slices.Max(counts)}, err
}
