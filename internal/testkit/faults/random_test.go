package faults_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
)

var (
	seeds = flag.String("seeds", "",
		`seeds of the random schedules, as "from-to" or one; default as many as -hours asks for`)
	verbose = flag.Bool("storm", false, "log every fault of the random schedules")
	hours   = flag.Int("hours", bubble.Rounds(35), "virtual hours of random schedules")
)

// TestMain lets the heap grow, because the tests open thousands of connections with large buffers.
func TestMain(m *testing.M) {
	debug.SetGCPercent(800)
	m.Run()
}

// seedsUpTo returns the first and the last seed that -seeds asks for, or 1 and last.
func seedsUpTo(last uint64) (from, to uint64) {
	from, to = 1, last
	if n, _ := fmt.Sscanf(*seeds, "%d-%d", &from, &to); n == 1 {
		to = from
	}
	return from, to
}

// sayAgain prints how to run a failed schedule again.
func sayAgain(t *testing.T, test string, seed uint64) {
	t.Helper()
	if t.Failed() {
		t.Logf("again: GOMAXPROCS=1 GODEBUG=asyncpreemptoff=1,randautoseed=0 go test ./internal/testkit/faults "+
			"-run '%s' -seeds %d -v", test, seed)
	}
}

// stormLength is short, because it is the calm after the storm that reveals forgotten clients.
const stormLength = 20 * time.Minute

// TestRandom runs random schedules of faults against each recipe in turn.
//
// A failure prints the seed and the command that runs it again. The command repeats the same faults; the order of the
// goroutines still differs, though less so with the printed settings.
func TestRandom(t *testing.T) {
	t.Parallel()
	from, to := seedsUpTo(uint64(max(*hours, 1)) * uint64(time.Hour/stormLength))
	all := slices.Concat(recipes, sharing)
	for seed := from; seed <= to; seed++ {
		r := all[seed%uint64(len(all))]
		t.Run(fmt.Sprintf("%s/%d", r.name, seed), func(t *testing.T) {
			t.Parallel()
			runRandom(t, r, seed)
		})
	}
}

// runRandom plays one schedule: faults for a while, then none, after which every client must be served.
func runRandom(t *testing.T, r *recipe, seed uint64) {
	t.Helper()
	t.Cleanup(func() { sayAgain(t, "TestRandom/"+r.name, seed) })
	synctest.Test(t, func(t *testing.T) {
		p := newPlay(t, r, rand.New(rand.NewPCG(seed, 0)))
		p.storm(everyFault)
		p.heal()
		p.serveAll()
		p.judge()
	})
}
