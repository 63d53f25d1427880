package faults_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/election"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
	"github.com/zkrecipes/zkrecipes/zktest"
	"github.com/zkrecipes/zkrecipes/zktest/check"
)

var grants = flag.Int("grants", bubble.Rounds(4000), "grants of each kind of crowd in TestHandOver")

// crowd is the queue of a relay.
type crowd struct {
	name           string
	fewest, most   int // clients
	hands, atLeast int // goroutines of one client
	recipes        []*recipe
}

var crowds = []crowd{
	{"sessions", 2, 8, 2, 1, relayed()},
	{"one session", 1, 3, 6, 3, relayed()},
	{"eager", 3, 8, 2, 1, eager()},
}

// relayed lists the recipes with one queue. In a read-write lock, every second hand is a reader.
func relayed() []*recipe {
	list := []*recipe{
		{name: "mutex", open: openMutex()},
		{name: "latch", open: openElection(election.Latch)},
		{name: "selector", open: openElection(election.Selector)},
		{name: "read-write", open: openWrite},
	}
	for _, r := range list {
		r.weight, r.limit, r.rival = 1, 1, r
	}
	list[3].rival = &recipe{name: "read", open: openRead, weight: 1, limit: 1, read: true}
	return list
}

// eager lists the recipes whose waiters may look early. With HandOverAuto, some of a crowd do.
func eager() []*recipe {
	list := []*recipe{
		{name: "mutex", open: openMutex(mutex.WithHandOver(zkrecipes.HandOverEager))},
		{name: "mutex, auto", open: openMutex(mutex.WithHandOver(zkrecipes.HandOverAuto))},
		{name: "latch", open: openElection(election.Latch, election.WithHandOver(zkrecipes.HandOverEager))},
		{name: "selector", open: openElection(election.Selector, election.WithHandOver(zkrecipes.HandOverEager))},
	}
	for _, r := range list {
		r.weight, r.limit, r.rival = 1, 1, r
	}
	return list
}

// relayLength is how long the faults of one relay last, in virtual time.
const relayLength = 20 * time.Second

// TestHandOver makes crowds hand a lock over thousands of times under random faults, and judges each grant by the log
// of the server; relay.judge has the rules. It plays seeds, starting at 1, until it has as many grants as -grants
// requires.
func TestHandOver(t *testing.T) {
	t.Parallel()
	from, to := seedsUpTo(1 << 63)
	for _, c := range crowds {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			all := &tally{overlaps: map[string]excused{}, injected: map[string]int{}}
			for seed := from; seed <= to && all.grants < *grants && !t.Failed(); seed++ {
				r := c.recipes[seed%uint64(len(c.recipes))]
				t.Run(fmt.Sprintf("%s/%d", r.name, seed), func(t *testing.T) { runRelay(t, c, r, seed, all) })
			}
			t.Logf("%s: %v", c.name, all)
		})
	}
}

func runRelay(t *testing.T, c crowd, r *recipe, seed uint64, all *tally) {
	t.Helper()
	t.Cleanup(func() { sayAgain(t, "TestHandOver/"+strings.ReplaceAll(c.name, " ", "_"), seed) })
	synctest.Test(t, func(t *testing.T) {
		run := newRelay(t, c, r, rand.New(rand.NewPCG(seed, 0)))
		run.storm()
		run.heal()
		run.serveAll()
		run.judge(all)
	})
}

// relay is a play with a crowd whose sections are short, so that faults fall between a release and the next grant.
type relay struct {
	*play
	crew     map[*actor][]*rand.Rand // of each hand
	latency  time.Duration           // of each request
	fronts   bool
	operator *conn.Client
	marks    []mark           // by stamp of the recorder, starting at 1
	killed   map[int64]string // sessions that the storm ended, with the fault that did
	deaf     map[string][]span
	lagging  map[string][]span // when the server of a client was behind
	injected map[string]int    // by fault

	unwatched map[string][]time.Duration // when a client lost its watches

	upMu sync.Mutex
	up   map[zkrecipes.Token]time.Duration // when the client of a hold had connected, at the time the hold was made
}

// mark is when an event was recorded, and the last transaction before it.
type mark struct {
	at   time.Duration
	zxid int64
}

func newRelay(t *testing.T, c crowd, r *recipe, random *rand.Rand) *relay {
	t.Helper()
	latency := []time.Duration{0, 100 * time.Microsecond, time.Millisecond}[random.IntN(3)]
	opts := []zktest.Option{
		zktest.InMemory(), zktest.WithTickTime(tick), zktest.WithHistory(1 << 20), zktest.WithContainerCheck(time.Second),
		zktest.WithLatency(latency),
	}
	run := &relay{
		crew: map[*actor][]*rand.Rand{}, killed: map[int64]string{}, deaf: map[string][]span{}, lagging: map[string][]span{},
		injected: map[string]int{}, unwatched: map[string][]time.Duration{},
		up:    map[zkrecipes.Token]time.Duration{},
		marks: make([]mark, 1), latency: latency, fronts: random.IntN(2) == 0,
	}
	if run.fronts {
		opts = append(opts, zktest.WithFronts(3))
	}
	p := &play{
		t: t, random: random, length: relayLength, start: time.Now(), recipe: r, timeout: 4 * time.Second,
		calm: make(chan struct{}),
		srv:  zktest.Run(t, opts...),
	}
	if random.IntN(2) == 0 { // a grant waits for a proof more often
		p.opts = append(p.opts, conn.WithSafetyMargin(0.3))
	}
	run.play = p
	p.ctx, p.abort = context.WithCancel(t.Context())
	p.dial = func(label string) conn.DialFunc { return p.srv.Fronts()[run.frontOf(label)].DialAs(label) }
	p.rec.Emit = func(check.Event) { run.marks = append(run.marks, mark{time.Since(p.start), p.srv.Zxid()}) }
	// The operator has its own front: otherwise a request that waits while the operator deletes would wait for a
	// lagging follower.
	run.operator = bubble.Dial(t, p.srv, "operator", conn.WithSessionTimeout(40*time.Second),
		conn.WithDialer(p.dial("operator")))
	for i := range c.fewest + random.IntN(c.most-c.fewest+1) {
		a := newActor(p, fmt.Sprintf("%c", 'a'+i), r, rand.New(rand.NewPCG(random.Uint64(), 0)))
		p.actors = append(p.actors, a)
		for range c.atLeast + random.IntN(c.hands-c.atLeast+1) {
			run.crew[a] = append(run.crew[a], rand.New(rand.NewPCG(random.Uint64(), 1)))
		}
	}
	return run
}

// frontOf returns the number of the front that a client connects to.
func (r *relay) frontOf(label string) int { return int(label[0]-'a') % len(r.srv.Fronts()) }

// storm starts all actors, and injects faults.
func (r *relay) storm() {
	for _, a := range r.actors {
		r.wg.Go(func() { r.run(a) })
	}
	faults, pause := r.faults()
	(&storm{play: r.play, end: r.start.Add(r.length), pause: pause, lasts: r.lasts}).run(faults)
}

// lasts draws a short time, so that most deletions meet clients that learn of them. Some faults last until sessions
// expire.
func (r *relay) lasts() time.Duration {
	if r.random.IntN(12) == 0 {
		return r.within(2 * r.timeout)
	}
	return r.within(300 * time.Millisecond)
}

// run keeps the hands of a client working until they have been served after the storm. If the client is closed, it
// opens another one.
func (r *relay) run(a *actor) {
	defer a.done.Store(true)
	for {
		var hands sync.WaitGroup
		var closed atomic.Bool
		for i, random := range r.crew[a] {
			h := hand{a, fmt.Sprint(a.label, i), r.recipe, a.handle, random}
			if i%2 == 1 { // the callers of a session may or may not share an object
				h.open(r.recipe)
			}
			if (int(a.label[0])+i)%2 == 1 && r.recipe.rival != r.recipe {
				h.open(r.recipe.rival)
			}
			hands.Go(func() {
				if !r.work(h) {
					closed.Store(true)
				}
			})
		}
		hands.Wait()
		if !closed.Load() || r.ctx.Err() != nil {
			return
		}
		require.NoError(r.t, a.client.Close())
		a.open()
	}
}

// hand is one caller of a client.
type hand struct {
	*actor
	name   string
	recipe *recipe
	handle handle
	random *rand.Rand
}

func (h *hand) open(r *recipe) {
	var err error
	h.recipe = r
	h.handle, err = r.open(h.client, []byte(h.label))
	require.NoError(h.t, err)
}

// work works until the storm is over, and one more time. It returns false if the client is closed.
func (r *relay) work(h hand) bool {
	for !h.isCalm() {
		if err := r.section(h); errors.Is(err, zkrecipes.ErrClosed) {
			return false
		}
		if h.random.IntN(4) == 0 {
			h.pause(time.Duration(h.random.Int64N(int64(2 * time.Millisecond))))
		}
	}
	hold, err := h.acquire(r.ctx, h.handle.take)
	if err != nil {
		return !errors.Is(err, zkrecipes.ErrClosed)
	}
	if err := hold.Release(r.ctx); r.ctx.Err() == nil {
		require.NoError(r.t, err, h.name)
	}
	return true
}

// section is one acquisition and its release. A few callers give up, or do not wait.
func (r *relay) section(h hand) error {
	random := h.random
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	if random.IntN(20) == 0 {
		ctx, cancel = context.WithTimeout(ctx, time.Duration(random.Int64N(int64(20*time.Millisecond))))
		defer cancel()
	}
	if random.IntN(4) == 0 {
		h.mu.Lock()
		h.cancel = cancel
		h.mu.Unlock()
	}
	take := h.handle.take
	if h.handle.try != nil && random.IntN(20) == 0 {
		take = h.handle.try
	}
	op := h.recipe.call(&r.rec, h.name)
	hold, err := h.acquire(ctx, take)
	if err != nil {
		op.Failed()
		return err
	}
	r.noteUp(h, hold)
	op.GrantedHold(hold)
	h.holding.Store(true)
	r.stay(hold, random)
	h.holding.Store(false)
	if errors.Is(hold.Err(), zkrecipes.ErrLost) {
		op.Lost()
	} else {
		op.Released()
	}
	// An error means that the hold was lost, or that ctx has ended, in which case removal continues.
	_ = hold.Release(ctx)
	return nil
}

// noteUp records since when the client has been connected, as of the making of a hold.
func (r *relay) noteUp(h hand, hold *zkrecipes.Hold) {
	h.mu.Lock()
	status := h.client.Status()
	h.mu.Unlock()
	if status.State != zkrecipes.Connected {
		return
	}
	r.upMu.Lock()
	defer r.upMu.Unlock()
	r.up[hold.Token()] = status.Since.Sub(r.start)
}

// stay keeps the hold for a while: no time at all, some round trips, or long.
func (r *relay) stay(h *zkrecipes.Hold, random *rand.Rand) {
	longest := []time.Duration{1, time.Millisecond, 5 * time.Millisecond, 5 * time.Millisecond}[random.IntN(4)]
	if random.IntN(100) == 0 {
		longest = r.timeout / 4
	}
	timer := time.NewTimer(time.Duration(random.Int64N(int64(longest))))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.calm:
	case <-h.Done():
	}
}
