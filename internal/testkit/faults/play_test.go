package faults_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/fence"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/zktest"
	"github.com/zkrecipes/zkrecipes/zktest/check"
)

// play is one random schedule: clients acquire and release in a loop, a fence guards their resource, and a storm
// injects faults.
type play struct {
	t       *testing.T
	srv     *zktest.Server
	start   time.Time
	length  time.Duration
	timeout time.Duration
	random  *rand.Rand // for the storm; each actor has its own
	recipe  *recipe
	dial    func(label string) conn.DialFunc
	opts    []conn.Option // of the clients
	rec     check.Recorder
	set     check.Set
	actors  []*actor
	wg      sync.WaitGroup

	calm  chan struct{}   // closed when the storm is over
	ctx   context.Context // ends when the play has failed
	abort context.CancelFunc

	mu    sync.Mutex
	holds map[string]*check.Op // those held now, by path of the contender
	taken map[string]bool      // paths of contenders that an operator has deleted
}

// newPlay prepares a schedule of three to six clients.
func newPlay(t *testing.T, r *recipe, random *rand.Rand) *play {
	t.Helper()
	p := &play{
		t: t, random: random, length: stormLength, start: time.Now(), recipe: r,
		timeout: []time.Duration{4 * time.Second, 10 * time.Second, 20 * time.Second, 30 * time.Second}[random.IntN(4)],
		calm:    make(chan struct{}), holds: map[string]*check.Op{}, taken: map[string]bool{},
		srv: zktest.Run(t, zktest.InMemory(), zktest.WithTickTime(tick), zktest.WithHistory(200),
			zktest.WithContainerCheck(time.Duration(1+random.IntN(60))*time.Second)),
	}
	p.dial = func(label string) conn.DialFunc { return p.srv.DialAs(label) }
	p.ctx, p.abort = context.WithCancel(t.Context())
	p.rec.Now = func() int64 { return int64(time.Since(p.start)) }
	if r.exclusive() {
		gate := fence.New(fence.NewMemory())
		admit := func(token zkrecipes.Token) error { return gate.Admit(context.Background(), "set", token) }
		p.set.OnRead, p.set.OnAdd = admit, admit
	}
	for i := range 3 + random.IntN(4) {
		what := r
		if i%2 == 1 {
			what = r.rival
		}
		p.actors = append(p.actors, newActor(p, fmt.Sprintf("%c", 'a'+i), what, rand.New(rand.NewPCG(random.Uint64(), 0))))
	}
	return p
}

// storm starts the actors and injects faults, one after the other.
func (p *play) storm(faults []fault) {
	for _, a := range p.actors {
		p.wg.Go(a.run)
	}
	storm := &storm{
		play: p, end: p.start.Add(p.length), pause: 2 * p.timeout,
		lasts: func() time.Duration { return p.within(3 * p.timeout) },
	}
	storm.run(faults)
}

// within draws a time shorter than longest, for the storm.
func (p *play) within(longest time.Duration) time.Duration {
	return time.Duration(p.random.Int64N(int64(longest)))
}

// heal ends all faults. Faults with a limited duration have ended already.
func (p *play) heal() {
	p.srv.Accept(zktest.Everyone)
	p.srv.Heal(zktest.Everyone)
	p.srv.Thaw()
	close(p.calm)
}

// serveAll checks U3: within three timeouts every waiter is served, and then served one more time.
func (p *play) serveAll() {
	served := make(chan struct{})
	go func() {
		p.wg.Wait()
		close(served)
	}()
	select {
	case <-served:
	case <-time.After(3 * p.timeout):
		p.t.Errorf("some clients are not served within three timeouts after the storm: %v wait among the nodes %v",
			p.waiting(), p.tree())
		p.abort()
		<-served
	}
}

// waiting lists the actors that are not done.
func (p *play) waiting() (list []string) {
	for _, a := range p.actors {
		if !a.done.Load() {
			list = append(list, a.label)
		}
	}
	return list
}

func (p *play) tree() (list []string) {
	for _, n := range p.srv.Tree(path) {
		list = append(list, fmt.Sprintf("%s of %#x", n.Path, n.Stat.EphemeralOwner))
	}
	return list
}

// requireNothingLeft checks U4 (leftovers) and U5 (watches), and closes all clients: those of the actors, and others.
// The bubble checks for leftover goroutines.
func (p *play) requireNothingLeft(others ...*conn.Client) {
	time.Sleep(3 * p.timeout)
	synctest.Wait()
	var list []string
	for _, n := range p.srv.Tree(path) {
		list = append(list, n.Path)
	}
	require.NoError(p.t, check.Leftovers(path, list, "locks", "leases"), "while the clients live")
	total, paths := p.srv.Watches()
	require.LessOrEqual(p.t, total, 4*len(p.actors), "watches, on %d paths", paths)
	for _, a := range p.actors {
		require.NoError(p.t, a.client.Close())
	}
	for _, c := range others {
		require.NoError(p.t, c.Close())
	}
	time.Sleep(p.timeout + 2*tick) // lets sessions expire whose end the server did not receive
	synctest.Wait()
	require.Empty(p.t, p.srv.Sessions())
}

// judge checks U1 (exclusion and order) and U2 (the resource). The actors check U6, that no call outlives its context.
func (p *play) judge() {
	p.requireNothingLeft()
	holds, err := p.rec.Holds()
	require.NoError(p.t, err)
	require.Greater(p.t, len(holds), 10, "something must have happened")
	limit := p.recipe.limit
	if p.recipe.read {
		holds, limit = check.ReadWrite(holds)
	}
	lost := 0
	for _, h := range holds {
		if h.Lost {
			lost++
		}
	}
	p.t.Logf("%d clients, timeout %v: %d holds, %d lost; %d updates, %d refused",
		len(p.actors), p.timeout, len(holds), lost, len(p.set.Updates()), p.set.Refused())
	require.NoError(p.t, check.Exclusion(holds, limit))
	require.NoError(p.t, check.Order(holds, limit))
	require.Empty(p.t, check.LostUpdates(p.set.Updates()))
}

// granted records a grant, which is lost at once if an operator has already deleted the contender.
func (p *play) granted(op *check.Op, h *zkrecipes.Hold) {
	p.mu.Lock()
	defer p.mu.Unlock()
	op.GrantedHold(h)
	if p.taken[h.Path()] {
		op.Lost()
		return
	}
	p.holds[h.Path()] = op
}

// ended records the end of a hold.
func (p *play) ended(op *check.Op, h *zkrecipes.Hold, lost bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.holds, h.Path())
	if lost {
		op.Lost()
	} else {
		op.Released()
	}
}

// take records that an operator is about to delete contenders. Their holders cannot know in time, because no deadline
// covers a deletion, so the fence protects the resource.
func (p *play) take(paths ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, path := range paths {
		p.taken[path] = true
		if op := p.holds[path]; op != nil {
			op.Lost()
		}
	}
}

// actor is one client and its work.
type actor struct {
	*play
	label  string
	recipe *recipe
	random *rand.Rand
	// The storm reads holding, because it prefers to hit holders. done means that the actor was served after the storm.
	holding, done atomic.Bool

	client *conn.Client
	handle handle

	mu     sync.Mutex
	cancel context.CancelFunc // of its current call
	reopen bool
}

func newActor(p *play, label string, r *recipe, random *rand.Rand) *actor {
	a := &actor{play: p, label: label, recipe: r, random: random}
	a.open()
	return a
}

// open dials until it has a session, whatever the faults.
func (a *actor) open() {
	for a.ctx.Err() == nil {
		ctx, cancel := context.WithTimeout(a.ctx, a.between(time.Second, a.timeout))
		from := time.Now()
		deadline, _ := ctx.Deadline()
		opts := append([]conn.Option{conn.WithDialer(a.dial(a.label)), conn.WithSessionTimeout(a.timeout), bubble.Silent},
			a.opts...)
		c, err := conn.Dial(ctx, a.srv.Addr(), opts...)
		late := time.Since(deadline)
		cancel()
		// A client that gives up closes what it has started, which may take a second.
		require.LessOrEqual(a.t, late, time.Second, "Dial outlived its context, from %v", from)
		if err == nil {
			a.mu.Lock()
			a.client = c
			a.mu.Unlock()
			a.handle, err = a.recipe.open(c, []byte(a.label))
			require.NoError(a.t, err)
			return
		}
	}
}

func (a *actor) between(shortest, longest time.Duration) time.Duration {
	return shortest + time.Duration(a.random.Int64N(int64(longest-shortest)))
}

// run acquires and releases until the storm is over, and one more time after that.
func (a *actor) run() {
	for !a.isCalm() {
		a.mu.Lock()
		reopen := a.reopen
		a.reopen = false
		a.mu.Unlock()
		if reopen {
			require.NoError(a.t, a.client.Close())
			a.open()
		}
		a.section()
		a.pause(a.between(time.Millisecond, 2*a.timeout))
	}
	defer a.done.Store(true)
	h, err := a.acquire(a.ctx, a.handle.take)
	if errors.Is(err, zkrecipes.ErrClosed) { // at the very end of the storm
		a.open()
		h, err = a.acquire(a.ctx, a.handle.take)
	}
	if a.ctx.Err() != nil {
		return
	}
	require.NoError(a.t, err, a.label)
	require.NoError(a.t, h.Release(a.ctx), a.label)
}

func (a *actor) isCalm() bool {
	select {
	case <-a.calm:
		return true
	default:
		return false
	}
}

// pause waits for d, or until the storm is over.
func (a *actor) pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-a.calm:
	}
}

// acquire acquires and records a hold, whose end the caller records. It checks U6: the call returns no later than the
// instant in which its context ends.
func (a *actor) acquire(ctx context.Context, take acquire) (*zkrecipes.Hold, error) {
	var overdue atomic.Int64 // when ctx ended
	stop := context.AfterFunc(ctx, func() { overdue.Store(int64(time.Since(a.start))) })
	defer stop()
	h, err := take(ctx)
	if at := overdue.Load(); at != 0 {
		require.Equal(a.t, at, int64(time.Since(a.start)), "%s: the call outlived its context: %v", a.label, err)
	}
	if err != nil && ctx.Err() == nil {
		require.True(a.t, errors.Is(err, zkrecipes.ErrClosed) || errors.Is(err, zkrecipes.ErrLocked), "%s: %v", a.label, err)
	}
	if err != nil {
		require.Nil(a.t, h)
		return nil, err
	}
	require.NotNil(a.t, h)
	return h, nil
}

// section is one round: acquire, use the resource, release, in all variants.
func (a *actor) section() {
	ctx, cancel := context.WithCancel(a.ctx)
	defer cancel()
	if a.random.IntN(4) == 0 {
		ctx, cancel = context.WithTimeout(ctx, a.between(time.Millisecond, 3*a.timeout))
		defer cancel()
	}
	a.mu.Lock()
	a.cancel = cancel
	a.mu.Unlock()

	take := a.handle.take
	if a.handle.try != nil && a.random.IntN(5) == 0 {
		take = a.handle.try
	}
	op := a.recipe.call(&a.rec, a.label)
	h, err := a.acquire(ctx, take)
	if err != nil {
		op.Failed()
		return
	}
	a.granted(op, h)
	a.holding.Store(true)
	a.use(h)
	a.holding.Store(false)
	lost := errors.Is(h.Err(), zkrecipes.ErrLost)
	a.ended(op, h, lost)
	a.giveBack(h, lost)
}

// use reads the resource and writes it back later, unless the hold has been lost by then. An actor that does not check
// its hold writes anyway, and the fence must reject the write.
func (a *actor) use(h *zkrecipes.Hold) {
	token := h.Token()
	looks := a.random.IntN(4) > 0
	shares := a.recipe.read || !a.recipe.exclusive()
	version, err := 0, error(nil)
	if !shares {
		version, err = a.set.Read(token)
	}
	longest := a.timeout / 2
	if a.random.IntN(4) == 0 {
		longest = 4 * a.timeout // long enough for the deadline to matter
	}
	timer := time.NewTimer(a.between(time.Millisecond, longest))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-a.calm:
	case <-h.Done():
	}
	if err != nil || looks && h.Err() != nil || shares {
		return
	}
	_ = a.set.Add(a.label, token, version, "x") // the fence may reject it
}

// giveBack releases with a random context, which checks U6 again.
func (a *actor) giveBack(h *zkrecipes.Hold, lost bool) {
	ctx, cancel := a.ctx, context.CancelFunc(func() {})
	if a.random.IntN(3) == 0 {
		ctx, cancel = context.WithTimeout(ctx, a.between(0, a.timeout))
	}
	defer cancel()
	err := h.Release(ctx)
	if deadline, bounded := ctx.Deadline(); bounded {
		require.False(a.t, time.Now().After(deadline), "%s: Release outlived its context", a.label)
	}
	switch {
	case lost:
		require.ErrorIs(a.t, err, zkrecipes.ErrLost)
	case err != nil:
		require.True(a.t, ctx.Err() != nil || errors.Is(err, zkrecipes.ErrLost), "%s: %v", a.label, err)
	}
}
