package cache

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func (s state) String() string {
	var words []string
	for i, word := range []string{"stale", "unwatched", "asked", "again", "odd"} {
		if s&(1<<i) != 0 {
			words = append(words, word)
		}
	}
	return strings.Join(words, " ")
}

// Each case is what happens to one part, and what is known of it afterwards.
func TestPlan_OnePart(t *testing.T) {
	const since = 7
	p := part{&node{}, data}
	var sent *rewatch
	step := map[string]func(*plan){
		"event":         func(pl *plan) { pl.markStale(p, 1) },
		"later":         func(pl *plan) { pl.markStale(p, 0) },
		"markUnwatched": func(pl *plan) { pl.markUnwatched(p, since, 1) },
		"read":          func(pl *plan) { pl.read() },
		"rewatch":       func(pl *plan) { sent = pl.rewatch(func(part) bool { return true }) },
		"answered":      func(pl *plan) { pl.answered(p, 0) },
		"retry":         func(pl *plan) { pl.retry(p) },
		"rewatched":     func(pl *plan) { pl.rewatched(sent, clean) },
		"notRewatched":  func(pl *plan) { pl.rewatched(sent, unwatched) },
		"behind":        func(pl *plan) { pl.rewatched(sent, stale) },
		"gone":          func(pl *plan) { pl.clear(p) },
		"read all":      func(pl *plan) { pl.readAll() },
	}
	for _, tt := range []struct {
		name, steps, want     string
		reads, unwatchedParts int
	}{
		{"clean", "", "", 0, 0},
		{"an event", "event", "stale odd", 1, 0},
		{"two events are one reading", "event, event", "stale odd", 1, 0},
		{"a later event does not put it into a later round", "event, later", "stale odd", 1, 0},
		{"being read", "event, read", "stale asked odd", 0, 0},
		{"read", "event, read, answered", "", 0, 0},
		{"an event while it is read", "event, read, later", "stale asked again odd", 0, 0},
		{"the answer after the event is of the next round", "event, read, later, answered", "stale", 1, 0},
		{"not answered", "event, read, retry", "stale odd", 1, 0},
		{"not answered, and stale meanwhile", "event, read, later, retry", "stale odd", 1, 0},
		{"not answered, but gone", "event, read, gone, retry", "", 0, 0},
		{"without a watch", "markUnwatched", "unwatched odd", 0, 1},
		{"without a watch, twice", "markUnwatched, markUnwatched", "unwatched odd", 0, 1},
		{"to be read rather than watched", "markUnwatched, event", "stale odd", 1, 1},
		{"to be read is not to be watched", "event, markUnwatched", "stale odd", 1, 0},
		{"being watched", "markUnwatched, rewatch", "unwatched asked odd", 0, 0},
		{"watched", "markUnwatched, rewatch, rewatched", "", 0, 0},
		{"it had changed: same round", "markUnwatched, rewatch, later, rewatched", "stale odd", 1, 0},
		{"it has changed, and the watch was not set", "markUnwatched, rewatch, later, notRewatched", "stale odd", 1, 0},
		{"the watch was not set", "markUnwatched, rewatch, notRewatched", "unwatched odd", 0, 1},
		{"a server that is behind", "markUnwatched, rewatch, behind", "stale odd", 1, 0},
		{"gone while it is being watched", "markUnwatched, rewatch, gone, rewatched", "", 0, 0},
		{"gone, and there again while it is being watched", "markUnwatched, rewatch, gone, event, rewatched", "stale odd", 1, 0},
		{"gone, and there again while the watch was not set", "markUnwatched, rewatch, gone, event, notRewatched", "stale odd", 1, 0},
		{"the server cannot", "markUnwatched, read all", "stale odd", 1, 0},
		{"the server cannot, it is known", "read all, markUnwatched", "stale odd", 1, 0},
		{"the server cannot, and the request is on its way", "markUnwatched, rewatch, read all", "unwatched asked odd", 0, 0},
		{"what is gone is not read", "event, gone, read", "", 0, 0},
		{"what is gone is not watched", "markUnwatched, gone, rewatch", "", 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			*p.state() = 0
			pl := plan{rewatching: map[*rewatch]struct{}{}}
			for what := range strings.SplitSeq(tt.steps, ", ") {
				if what != "" {
					step[what](&pl)
				}
			}
			require.Equal(t, tt.want, p.state().String())
			require.Len(t, pl.reads, tt.reads)
			require.Len(t, pl.unwatchedParts, tt.unwatchedParts)
			want := [2]int{}
			if s := *p.state(); s != 0 {
				want[s.parity()]++
			}
			require.Equal(t, want, pl.dirty)
			require.Equal(t, want[0]+want[1], pl.pending())
		})
	}
}

// Both parts of a node are being watched, by two requests. The answer to one does not affect the other.
func TestPlan_Rewatched_ConcernsThePartsOfTheRequest(t *testing.T) {
	pl, n, one := plan{rewatching: map[*rewatch]struct{}{}}, &node{}, func(part) bool { return false }
	pl.markUnwatched(part{n, data}, 3, 1)
	pl.markUnwatched(part{n, list}, 2, 1)
	first, second := pl.rewatch(one), pl.rewatch(one)
	require.Nil(t, pl.rewatch(one))
	pl.rewatched(first, clean)
	require.Equal(t, "", n.parts[data].String())
	require.Equal(t, "unwatched asked odd", n.parts[list].String())
	require.Equal(t, int64(2), second.since)
}

// The next connection queries what has changed since the oldest missing watch.
func TestPlan_Restart_ReturnsSinceWhenWatchesAreMissing(t *testing.T) {
	for _, tt := range []struct {
		name            string
		unwatched, sent int64 // 0 if there is none
		want            int64
	}{
		{"all watches were set", 0, 0, 10},
		{"some wait", 5, 0, 5},
		{"some are asked for", 0, 4, 4},
		{"both", 5, 6, 5},
		{"a later one", 12, 11, 10},
	} {
		pl := plan{rewatching: map[*rewatch]struct{}{}}
		if tt.sent > 0 {
			pl.markUnwatched(part{&node{}, data}, tt.sent, 0)
			require.Equal(t, tt.sent, pl.rewatch(func(part) bool { return true }).since)
		}
		if tt.unwatched > 0 {
			pl.markUnwatched(part{&node{}, data}, tt.unwatched+1, 0)
			pl.markUnwatched(part{&node{}, data}, tt.unwatched, 0)
			pl.markUnwatched(part{&node{}, data}, tt.unwatched+1, 0)
		}
		require.Equal(t, tt.want, pl.restart(10), tt.name)
		require.Zero(t, pl.pending(), tt.name)
	}
}

func TestSupport(t *testing.T) {
	var s support
	require.False(t, s.noteSuccess(), "nobody doubted it")
	require.False(t, s.hungUp(3))
	require.False(t, s.hungUp(3), "the same connection")
	require.False(t, s.hungUp(4))
	require.False(t, s.noteSuccess())
	require.False(t, s.hungUp(5), "the row is over")
	require.False(t, s.hungUp(6))
	require.True(t, s.hungUp(8))
	s.lacking = true
	var tries []int
	for i := range 30 {
		if s.recheck(); !s.lacking {
			tries = append(tries, i)
			s.lacking = true // it is lacking again
		}
	}
	require.Equal(t, []int{0, 2, 6, 14}, tries)
	require.True(t, s.noteSuccess())
	require.Equal(t, support{}, s)
}

// model is a server with parts that change, a connection that may be lost, and a cache that consists only of a plan and
// rounds. The parts have no data; the transaction that last changed a part represents it.
type model struct {
	script   func(n int) int // makes the next choice
	now      int             // counts steps
	lossless bool

	zxid    int64
	history [][]change // by part
	watched []bool
	lacks   bool // it cannot set watches without a read
	inbox   []asking
	outbox  []news

	plan   plan
	rounds rounds
	parts  []part
	has    []int64 // by part
	newest int64
	heard  int
	epoch  int
	sought int // a verification must find all that the server had before this step; 0 if there is none
}

type change struct {
	at   int
	zxid int64
}

type asking struct {
	epoch, at int
	read      part
	rewatch   *rewatch // nil for a read
}

type news struct {
	asking
	changed int   // a part; -1 for an answer
	zxid    int64 // for an answer
	value   int64 // for a read
	sibling int64 // for a read of data: of the list
	err     error
}

var errBusy, errCannot = errors.New("busy"), errors.New("cannot")

func newModel(script func(n int) int) *model {
	m := &model{script: script, now: 1, zxid: 1, newest: 1, heard: 1}
	m.lossless, m.lacks = script(2) == 0, script(4) == 0
	for range 1 + script(4) {
		n := &node{}
		m.parts = append(m.parts, part{n, data}, part{n, list})
	}
	m.history, m.watched, m.has = make([][]change, len(m.parts)), make([]bool, len(m.parts)), make([]int64, len(m.parts))
	m.connect()
	return m
}

func (m *model) index(p part) int {
	for i, other := range m.parts {
		if other == p {
			return i
		}
	}
	panic("no such part")
}

// value returns what the server had before a step.
func (m *model) value(i, before int) (zxid int64) {
	for _, c := range m.history[i] {
		if c.at < before {
			zxid = c.zxid
		}
	}
	return zxid
}

func (m *model) change(i int) {
	m.zxid++
	m.history[i] = append(m.history[i], change{m.now, m.zxid})
	m.fire(i)
}

func (m *model) fire(i int) {
	if m.watched[i] {
		m.watched[i] = false
		m.outbox = append(m.outbox, news{changed: i})
	}
}

// serve handles the first request.
func (m *model) serve() {
	if len(m.inbox) == 0 {
		return
	}
	answer := news{asking: m.inbox[0], changed: -1, zxid: m.zxid}
	m.inbox = m.inbox[1:]
	switch {
	case m.script(8) == 0:
		answer.err, answer.zxid = errBusy, 0
	case answer.rewatch == nil:
		i := m.index(answer.read)
		answer.value, m.watched[i] = m.value(i, m.now+1), true
		if answer.read.of == data {
			answer.sibling = m.value(i+1, m.now+1)
		}
	case m.lacks:
		answer.err = errCannot
	default:
		for _, p := range answer.rewatch.parts {
			i := m.index(p)
			m.watched[i] = true
			if m.value(i, m.now+1) > answer.rewatch.since {
				m.fire(i)
			}
		}
	}
	m.outbox = append(m.outbox, answer)
}

// connect opens a new connection. What the server had sent on the old one has been heard.
func (m *model) connect() {
	for len(m.outbox) > 0 {
		m.hear()
	}
	m.inbox = nil
	clear(m.watched)
	m.epoch++
	m.rounds.restart()
	since := m.plan.restart(m.newest)
	for _, p := range m.parts {
		was := *p.state()
		*p.state() = 0
		switch {
		case was&(stale|again) != 0, m.has[m.index(p)] == 0 && p.of == data:
			m.plan.markStale(p, m.rounds.next())
		case m.has[m.index(p)] > 0:
			m.plan.markUnwatched(p, since, m.rounds.next())
		}
	}
}

func (m *model) send() {
	if p, ok := m.plan.read(); ok {
		m.inbox = append(m.inbox, asking{epoch: m.epoch, at: m.now, read: p})
	} else if r := m.plan.rewatch(func(part) bool { return m.script(3) > 0 }); r != nil {
		m.inbox = append(m.inbox, asking{epoch: m.epoch, at: m.now, rewatch: r})
	}
}

// hear handles the first news.
func (m *model) hear() {
	if len(m.outbox) == 0 {
		return
	}
	n := m.outbox[0]
	m.outbox = m.outbox[1:]
	switch {
	case n.changed >= 0:
		m.plan.markStale(m.parts[n.changed], m.rounds.next())
		return
	case n.zxid > 0:
		m.newest, m.heard = n.zxid, max(m.heard, n.at)
	}
	switch {
	case n.rewatch == nil && n.err != nil:
		m.plan.retry(n.read)
	case n.rewatch == nil:
		in, i := m.plan.answered(n.read, m.rounds.next()), m.index(n.read)
		m.has[i] = max(1, n.value)
		if n.read.of == data && (m.has[i+1] == 0 || m.script(3) == 0) { // it is new, and has no children
			m.has[i+1] = max(1, n.sibling)
			m.plan.markUnwatched(m.parts[i+1], n.zxid, in)
		}
	case n.err != nil:
		if errors.Is(n.err, errCannot) {
			m.plan.readAll()
		}
		how := unwatched
		if m.plan.support.lacking {
			how = stale
		}
		m.plan.rewatched(n.rewatch, how)
	case n.rewatch.moved:
		m.plan.rewatched(n.rewatch, unwatched)
	default:
		m.plan.rewatched(n.rewatch, clean)
	}
}

func (m *model) verify() {
	if m.rounds.isVerifying() {
		return
	}
	since := m.rounds.verifiedZxid
	m.rounds.verify(m.newest)
	m.sought = m.heard
	m.plan.distrustInFlight(since)
	for _, p := range m.parts {
		if *p.state()&(stale|asked) == 0 && m.has[m.index(p)] > 0 {
			m.plan.markUnwatched(p, since, m.rounds.next())
		}
	}
}

// check compares what the cache claims with what the server had.
func (m *model) check() error {
	dirty := [2]int{}
	for _, p := range m.parts {
		if s := *p.state(); s != 0 {
			dirty[s.parity()]++
		}
	}
	if dirty != m.plan.dirty {
		return fmt.Errorf("%v parts are dirty, counted %v", dirty, m.plan.dirty)
	}
	asOf := m.rounds.advance(m.plan.dirty, zero.Add(time.Duration(m.heard)))
	before := 0
	if !asOf.IsZero() && m.lossless {
		before = int(asOf.Sub(zero))
	}
	if m.sought > 0 && !m.rounds.isVerifying() {
		before, m.sought = max(before, m.sought), 0
	}
	for i := range m.parts {
		if want := m.value(i, before); m.has[i] < want {
			return fmt.Errorf("round %d: part %d is of transaction %d, was %d at the time", m.rounds.ended, i, m.has[i], want)
		}
	}
	return nil
}

var zero = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

func (m *model) run(steps int) error {
	for range steps {
		m.now++
		switch m.script(13) {
		case 0, 1, 2:
			m.change(m.script(len(m.parts)))
		case 3, 4:
			m.serve()
		case 5, 6:
			m.hear()
		case 7, 8, 9:
			m.send()
		case 10:
			m.verify()
		case 11:
			if m.script(3) == 0 {
				m.connect()
				m.send()
			}
		default:
			if !m.lossless {
				m.watched[m.script(len(m.parts))] = false // without an event
			}
		}
		if err := m.check(); err != nil {
			return fmt.Errorf("step %d: %w", m.now, err)
		}
	}
	return m.quiet()
}

// quiet checks that the cache catches up with everything once nothing changes any more.
func (m *model) quiet() error {
	for verified := false; ; {
		for range 200 {
			m.now++
			m.send()
			m.serve()
			m.hear()
			if err := m.check(); err != nil {
				return fmt.Errorf("in quiet: %w", err)
			}
		}
		if verified {
			break
		}
		m.verify()
		verified = true
	}
	if m.plan.pending() > 0 || m.rounds.isVerifying() || len(m.plan.rewatching) > 0 {
		return fmt.Errorf("pending: %d parts, %d requests, verifying %v",
			m.plan.pending(), len(m.plan.rewatching), m.rounds.isVerifying())
	}
	for i := range m.parts {
		switch want := max(1, m.value(i, m.now)); {
		case m.has[i] != want:
			return fmt.Errorf("part %d: has %d, want %d", i, m.has[i], want)
		case !m.watched[i]:
			return fmt.Errorf("part %d has no watch", i)
		}
	}
	return nil
}

func FuzzPlan_AgainstAModelOfAServer_MissesNothing(f *testing.F) {
	for seed := range uint64(2000) {
		f.Add(seed, uint16(seed))
	}
	f.Fuzz(func(t *testing.T, seed uint64, steps uint16) {
		script := rand.New(rand.NewPCG(seed, 1)).IntN
		require.NoError(t, newModel(script).run(int(steps%500)))
	})
}
