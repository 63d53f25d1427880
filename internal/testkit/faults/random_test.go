package faults_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
)

var (
	seeds = flag.String("seeds", "",
		`seeds of the random schedules, as "from-to" or one; default as many as -hours asks for`)
	verbose = flag.Bool("storm", false, "log every fault of the random schedules")
	hours   = flag.Int("hours", bubble.Rounds(35), "virtual hours of random schedules, besides the two days of TestDay")
)

// TestMain lets the heap grow, because the tests open thousands of connections with large buffers.
func TestMain(m *testing.M) {
	debug.SetGCPercent(800)
	m.Run()
}

// stormLength is short, because it is the calm after the storm that reveals forgotten clients.
const stormLength = 20 * time.Minute

// TestRandom runs random schedules of faults against each recipe in turn.
//
// A failure prints the seed and the command that runs it again. The command repeats the same faults; the order of the
// goroutines still differs, though less so with the printed settings.
func TestRandom(t *testing.T) {
	t.Parallel()
	from, to := uint64(1), uint64(max(*hours, 1))*uint64(time.Hour/stormLength)
	if *seeds != "" {
		if n, _ := fmt.Sscanf(*seeds, "%d-%d", &from, &to); n == 1 {
			to = from
		}
	}
	all := slices.Concat(recipes, sharing)
	for seed := from; seed <= to; seed++ {
		r := all[seed%uint64(len(all))]
		t.Run(fmt.Sprintf("%s/%d", r.name, seed), func(t *testing.T) {
			t.Parallel()
			runRandom(t, r, seed, 0, stormLength, everyFault)
		})
	}
}

// TestDay simulates a day of five clients with random disconnects.
func TestDay(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"mutex", "latch"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runRandom(t, named(name), 1, 5, time.Duration(bubble.Rounds(24))*time.Hour, cutsOnly)
		})
	}
}

// runRandom plays one schedule: faults for a while, then none, after which every client must be served. If clients is
// 0, the seed determines their number.
func runRandom(t *testing.T, r *recipe, seed uint64, clients int, length time.Duration, faults []fault) {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			top, _, _ := strings.Cut(t.Name(), "/")
			t.Logf(
				"again: GOMAXPROCS=1 GODEBUG=asyncpreemptoff=1,randautoseed=0 go test ./internal/testkit/faults -run '%s/%s' -seeds %d -v",
				top, r.name, seed)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		p := newPlay(t, r, rand.New(rand.NewPCG(seed, 0)), clients, length)
		p.storm(faults)
		p.heal()
		p.serveAll()
		p.judge()
	})
}
