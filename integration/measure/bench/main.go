// Package bench compares zkrecipes with Curator, with go-zookeeper's Lock and with the bare operations. All take turns
// on the same real server, which keeps its data in memory. The command prints each result with its target, and fails if
// a target is missed.
//
// A rate is in sections per second. A ratio is the median of the ratios within one round, so other load on the machine
// affects both sides. Client and server are the processor time of one section, in microseconds, which says more than a
// rate if the machine has other work. `make bench` runs the command.
package bench

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime/pprof"
	"slices"
	"strings"
	"time"

	"github.com/zkrecipes/zkrecipes/integration/kit/zkserver"
)

// Run runs the command with its flags.
func Run(args []string) error {
	flags := flag.NewFlagSet("bench", flag.ExitOnError)
	rounds := flags.Int("rounds", 9, "`number` of rounds")
	slice := flags.Duration("slice", 500*time.Millisecond, "`time` that each gets in a round")
	only := flags.String("only", "", "run the rows whose name contains `text`")
	contestants := flags.String("contestants", "",
		"let only those run whose names contain one of these `words`, comma-separated")
	profile := flags.String("cpuprofile", "", "write a profile of this process to `file`")
	_ = flags.Parse(args) // exits on error
	return run(context.Background(), *rounds, *slice, *only, strings.Split(*contestants, ","), *profile)
}

// row is one kind of work with its targets.
type row struct {
	name string
	run  []contestant // the first one is zkrecipes
	want []target
}

// target requires that zkrecipes is at least so many times as fast as another contestant. With atMost, it requires that
// zkrecipes takes at most so many times as long. With a rate, it requires so many sections per second, without an
// opponent.
type target struct {
	against string
	ratio   float64
	atMost  bool
	rate    float64
}

// contestant works for about a slice of time, and returns its sections per second.
type contestant struct {
	name string
	pids []int // of the working processes, if their processor time is shown
	rate func(ctx context.Context, slice time.Duration) (float64, error)
}

var errMissed = errors.New("a target was missed")

func run(ctx context.Context, rounds int, slice time.Duration, only string, contestants []string,
	profile string,
) (err error) {
	// The comparison uses production settings for the server, not those that start fastest.
	server, err := zkserver.Open(zkserver.WithTickTime(2*time.Second),
		zkserver.WithJVM("-Xms256m", "-Xmx512m", "-XX:TieredStopAtLevel=4"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	if profile != "" {
		file, err := os.Create(profile)
		if err != nil {
			return err
		}
		if err := pprof.StartCPUProfile(file); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	fields, stop, err := prepare(ctx, server)
	if err != nil {
		return err
	}
	defer stop()
	if err := fields[0].warmUp(ctx); err != nil {
		return err
	}
	measured, missed := 0, false
	fmt.Printf("%-52s %-24s %8s %8s %8s %8s   %s\n", "", "", "a second", "client", "server", "ratio", "asked for")
	for _, r := range append(fields[0].rows(ctx), contendedRows(ctx, fields)...) {
		if !strings.Contains(r.name, only) {
			continue
		}
		r.run = slices.DeleteFunc(r.run, func(c contestant) bool {
			return !slices.ContainsFunc(contestants, func(word string) bool { return strings.Contains(c.name, word) })
		})
		ok, err := r.measure(ctx, rounds, slice, server.PID())
		if err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
		measured++
		missed = missed || !ok
	}
	switch {
	case measured == 0:
		return fmt.Errorf("no row's name contains %q", only)
	case missed:
		return errMissed
	}
	return nil
}

// measure makes the contestants take turns, and prints their rates and the ratios.
func (r *row) measure(ctx context.Context, rounds int, slice time.Duration, server int) (ok bool, err error) {
	rates, costs := make([][]float64, len(r.run)), make([]cost, len(r.run))
	for round := -1; round < rounds; round++ { // the first round warms up
		for i := range r.run {
			i = (i + round + 1) % len(r.run) // no contestant is always first
			before, start := cost{client: zkserver.CPU(r.run[i].pids...), server: zkserver.CPU(server)}, time.Now()
			rate, err := r.run[i].rate(ctx, slice)
			if err != nil {
				return false, fmt.Errorf("%s: %w", r.run[i].name, err)
			}
			if round >= 0 {
				rates[i] = append(rates[i], rate)
				costs[i].client += zkserver.CPU(r.run[i].pids...) - before.client
				costs[i].server += zkserver.CPU(server) - before.server
				costs[i].sections += rate * time.Since(start).Seconds()
			}
		}
	}
	ok = true
	for i, c := range r.run {
		name := ""
		if i == 0 {
			name = r.name
		}
		fmt.Printf("%-52s %-24s %8.0f", name, c.name, median(rates[i]))
		if len(c.pids) == 0 {
			fmt.Printf(" %8s %8s", "", "")
		} else {
			fmt.Printf(" %8.0f %8.0f", costs[i].each(costs[i].client), costs[i].each(costs[i].server))
		}
		if i == 0 {
			ok = r.judgeRate(median(rates[0]))
		} else {
			ratios := make([]float64, rounds)
			for round := range ratios {
				ratios[round] = rates[0][round] / rates[i][round]
			}
			ok = r.judge(c.name, ratios) && ok
		}
		fmt.Println()
	}
	return ok, nil
}

func (r *row) judgeRate(rate float64) (ok bool) {
	for _, t := range r.want {
		if t.rate > 0 {
			fmt.Printf(" %8s   ≥ %.0f  %s", "", t.rate, verdict(rate >= t.rate))
			return rate >= t.rate
		}
	}
	return true
}

func verdict(ok bool) string {
	if ok {
		return "ok"
	}
	return "MISSED"
}

func (r *row) judge(against string, ratios []float64) (ok bool) {
	at := slices.IndexFunc(r.want, func(t target) bool { return t.against == against })
	if at >= 0 && r.want[at].atMost {
		for i := range ratios {
			ratios[i] = 1 / ratios[i]
		}
	}
	ratio := median(ratios)
	fmt.Printf(" %8.2f", ratio)
	if at < 0 {
		return true
	}
	t := r.want[at]
	sign := "≥"
	if ok = ratio >= t.ratio; t.atMost {
		sign, ok = "≤", ratio <= t.ratio
	}
	fmt.Printf("   %s %.2f  %s", sign, t.ratio, verdict(ok))
	return ok
}

// cost is processor time of all threads, in user and kernel mode.
type cost struct {
	client, server time.Duration
	sections       float64
}

// each returns the cost of one section in microseconds, for a part of the cost.
func (c cost) each(part time.Duration) float64 { return float64(part.Microseconds()) / c.sections }

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
