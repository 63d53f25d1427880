package bench

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/zkrecipes/zkrecipes/recipes/value"
)

// counters are the rows of one counter under many clients, compared with the two ways Curator has. A
// DistributedAtomicLong retries until it is not overtaken. With PromotedToLock it tries once, then takes a lock.
func (f *field) counters(ctx context.Context) (rows []row) {
	for _, n := range []int{1, 2, 8, 64} {
		ratio := map[int]float64{1: 1.5, 2: 1, 8: 1.1, 64: 1}[n]
		promoted := f.curator.contestant("promoted", f.number, n)
		promoted.name = "Curator, PromotedToLock"
		rows = append(rows, row{fmt.Sprintf("Counter.Add on one counter, %d client(s)", n), []contestant{
			{"zkrecipes", []int{os.Getpid()}, func(_ context.Context, slice time.Duration) (float64, error) {
				return f.add(ctx, n, slice)
			}},
			f.curator.contestant("counter", f.number, n),
			promoted,
		}, []target{{against: "Curator", ratio: ratio}, {against: promoted.name, ratio: ratio}}})
	}
	return rows
}

// add makes n clients add to one counter.
func (f *field) add(ctx context.Context, n int, slice time.Duration) (rate float64, err error) {
	if err := f.dial(ctx, n); err != nil {
		return 0, err
	}
	sections := make([]section, n)
	for i := range sections {
		c := must(value.NewCounter(f.ours[i], "/bench/ours/counter", value.AtomicLong()))
		defer func() { _ = c.Close(ctx) }() // otherwise the marker goes with the session
		sections[i] = func(int) error {
			ctx, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			_, err := c.Add(ctx, 1)
			return err
		}
	}
	return repeat(slice, sections)
}
