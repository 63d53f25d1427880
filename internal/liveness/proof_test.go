package liveness

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// An exchange is a request in a test of the rule: when it was sent and answered, in seconds, and by whom: "follower"
// and "leader" for reads and syncs, "quorum" for writes.
type exchange struct {
	sent, answered float64
	by             string
}

func syncs(from, to float64) (list []exchange) {
	for at := from; at <= to; at++ {
		list = append(list, exchange{at, at + 0.01, "leader"})
	}
	return list
}

func pings(from, to, every float64) (list []exchange) {
	for at := from; at <= to; at += every {
		list = append(list, exchange{at, at + 0.01, "follower"})
	}
	return list
}

var zero = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time { return zero.Add(time.Duration(seconds * float64(time.Second))) }

// With a timeout of 8 s, a lag of 2 s and no margin, the deadline is 8 s after the proven contact.
func TestProof_AnsweredRequests_GiveTheDeadline(t *testing.T) {
	connect := exchange{0, 0.01, "connect"}
	tests := []struct {
		name        string
		lag, margin float64
		exchanges   []exchange
		contact     float64 // the proven one
	}{
		{"fresh session", 2, 0, nil, 0},
		{"margin comes off", 2, 0.4, nil, -0.4},
		{"idle session with pings only stays at the connect", 2, 0, pings(2.7, 60, 2.7), 0},
		{"fresh create proves nothing newer", 2, 0, []exchange{{1, 1.01, "leader"}}, 0},
		{"a create after a ping, half a tick later", 2, 0, []exchange{{1, 1.01, "follower"}, {3.02, 3.03, "leader"}}, 1},
		{
			"the ping was answered within half a tick of the create", 2, 0,
			[]exchange{{1, 1.03, "follower"}, {3.02, 3.03, "leader"}},
			0,
		},
		{"answered exactly half a tick before", 2, 0, []exchange{{1, 1.5, "follower"}, {3.5, 3.6, "leader"}}, 1},
		{"sync every T/8", 2, 0, syncs(1, 10), 7},
		{"sync every T/8, one answer missing", 2, 0, slices.Concat(syncs(1, 6), syncs(8, 10)), 6},
		{"the newest sync is unanswered", 2, 0, syncs(1, 9), 6},
		{"follower answers only, after syncs", 2, 0, slices.Concat(syncs(1, 10), pings(10.1, 30, 0.5)), 7},
		{"a late answer proves its sending, not its arrival", 2, 0, []exchange{{1, 1.01, "follower"}, {2, 60, "leader"}}, 0},
		{
			"frozen and thawed: the answer that waited proves what it would have", 2, 0,
			slices.Concat(syncs(1, 4), []exchange{{5, 500, "leader"}}), 2,
		},
		{
			"frozen and thawed: new exchanges, half a tick later", 2, 0,
			slices.Concat(syncs(1, 4), []exchange{{5, 500, "leader"}, {500, 500.1, "leader"}, {502.2, 502.3, "leader"}}), 500,
		},
		{"resumed: the connect answer alone proves nothing", 2, 0, []exchange{{1, 1.01, "leader"}, {20, 20.1, "connect"}}, 0},
		{"resumed: a write proves that it was sent", 2, 0, []exchange{{20, 20.1, "connect"}, {20.2, 20.3, "quorum"}}, 20},
		{
			"resumed: a write before proves nothing", 2, 0,
			[]exchange{{19, 19.1, "quorum"}, {20, 20.1, "connect"}, {20.2, 20.3, "leader"}},
			0,
		},
		{
			"resumed twice: the write proves the second", 2, 0,
			[]exchange{{20, 20.1, "connect"}, {23, 23.1, "connect"}, {23.2, 23.3, "quorum"}},
			23,
		},
		{
			"resumed: without a write it is a contact like any other", 2, 0,
			[]exchange{{20, 20.1, "connect"}, {22, 22.2, "leader"}, {22.2, 22.3, "leader"}},
			20,
		},
		{
			"resumed: what came before counts no more", 2, 0,
			[]exchange{{19, 19.9, "follower"}, {20, 20.1, "connect"}, {22, 22.1, "quorum"}},
			20,
		},
		{"tick time known", 0.25, 0, syncs(1, 10), 9},
		{"contacts a 64th apart count each", 2, 0, []exchange{{0.125, 0.13, "follower"}, {2.2, 2.3, "leader"}}, 0.125},
		{"closer contacts count as one", 2, 0, []exchange{{0.12, 0.13, "follower"}, {2.2, 2.3, "leader"}}, 0},
		{
			"answers out of order count once", 2, 0,
			[]exchange{{1, 1.01, "leader"}, {5, 5.01, "leader"}, {4, 5.02, "leader"}},
			1,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var p Proof
			require.True(t, p.ValidUntil().IsZero(), "before the first connect answer nothing is proven")
			by := map[string]Witness{"follower": AnyServer, "leader": Leader, "quorum": Quorum}
			for _, e := range append([]exchange{connect}, tt.exchanges...) {
				if e.by == "connect" {
					p.connected(at(e.sent), at(e.answered), 8*time.Second, at(tt.lag).Sub(zero), at(tt.margin).Sub(zero))
				} else {
					p.Answered(at(e.sent), at(e.answered), by[e.by])
				}
			}
			require.Equal(t, tt.contact+8, p.ValidUntil().Sub(zero).Seconds())
		})
	}
}

// In good health a session that is kept fresh always has this much left, whatever the round trip is.
func TestProof_Upkept_LeavesMoreThanHalfTheTimeout(t *testing.T) {
	const timeout = 8 * time.Second
	for _, tt := range []struct {
		name     string
		lag, rtt time.Duration
		requests int // per timeout
		left     float64
	}{
		{"a quarter of the timeout", timeout / 4, 0, 11, 0.586},
		{"a round trip of 10 ms", timeout / 4, 10 * time.Millisecond, 11, 0.585},
		{"as long as it may be", timeout / 4, timeout / 45, 11, 0.564},
		{"longer: the contact is one beat older", timeout / 4, timeout / 40, 11, 0.470},
		{"tick time known, seven to the timeout", timeout / 5, 10 * time.Millisecond, 9, 0.622},
		{"ten to the timeout", timeout * 3 / 20, 10 * time.Millisecond, 12, 0.699},
		{"fifteen to the timeout", timeout / 10, 10 * time.Millisecond, 9, 0.731},
		{"twenty to the timeout", timeout * 3 / 40, 10 * time.Millisecond, 12, 0.782},
	} {
		t.Run(tt.name, func(t *testing.T) {
			u := New(Terms{})
			u.connected(zero, zero, timeout, tt.lag, timeout/20)
			u.BeginRetention(zero)
			now, least, syncs := zero, timeout, 0
			for now.Before(at(800)) {
				if now.After(at(16)) {
					least = min(least, u.ValidUntil().Sub(now.Add(tt.rtt)))
				}
				step := u.Step(now, true, Conn{Up: true})
				require.False(t, step.Drop)
				if step.Sync {
					syncs++
					u.Answered(now, now.Add(tt.rtt), Leader)
					u.SyncDone()
					step = u.Step(now.Add(tt.rtt), true, Conn{Up: true})
				}
				require.True(t, step.Next.After(now))
				now = step.Next
				require.LessOrEqual(t, len(u.unproven), 64+1)
			}
			require.InDelta(t, tt.requests, float64(syncs)/100, 0.3)
			require.InDelta(t, tt.left, least.Seconds()/timeout.Seconds(), 0.001)
		})
	}
}

// An idle session sees only answers of its server, for weeks, and a busy one many per millisecond.
func TestProof_ManyAnswers_TakeLittleMemory(t *testing.T) {
	for name, every := range map[string]float64{"pings": 2.7, "reads": 0.125, "busy": 0.001} {
		t.Run(name, func(t *testing.T) {
			least := 60 // so that the latest is not much older than it could be
			if name == "pings" {
				least = 3
			}
			var p Proof
			p.connected(at(0), at(0), 8*time.Second, 2*time.Second, 0)
			most := 0
			for i := range 100_000 {
				p.Answered(at(float64(i)*every), at(float64(i)*every), AnyServer)
				most = max(most, len(p.unproven))
			}
			require.LessOrEqual(t, most, 64+1)
			require.GreaterOrEqual(t, most, least)
		})
	}
}

// A rule derives a deadline from answered requests. The real one is proof; the others must be found to be wrong.
type rule struct {
	connected func(sent, at time.Time)
	answered  func(sent, at time.Time, by Witness)
	deadline  func() time.Time // without margin
}

func proofRule(timeout, lag time.Duration) rule {
	p := &Proof{}
	return rule{
		func(sent, at time.Time) { p.connected(sent, at, timeout, lag, 0) },
		p.Answered, p.ValidUntil,
	}
}

// simulate plays a session in an ensemble of a leader and followers that record contacts like ZooKeeper, and returns an
// error if the rule ever promised more than the leader would keep were the follower cut off at that moment.
//
// A follower hears the client at some time between sending and answer; it reports whom it has heard at least twice a
// tick, on the connection on which it also forwards what the leader must serve, in order. The leader counts the timeout
// from the arrival of a report, and of a re-attachment.
//
// With six ticks or more per timeout, some attachments go to a leader that has been replaced at some time before: it
// answers everything but writes for a tick and a half, and what it receives counts for nothing. Its replacement counts
// from its own start.
func simulate(seed uint64, r rule, timeout, tick time.Duration) error {
	rng := rand.New(rand.NewPCG(seed, 1))
	upTo := func(d time.Duration) time.Duration { return time.Duration(rng.Int64N(int64(d) + 1)) }

	now := zero
	slow, paced := rng.IntN(2) == 0, rng.IntN(4) == 0 // paced like a client that keeps its proof fresh
	delay := func() time.Duration {
		if slow && rng.IntN(8) == 0 {
			return upTo(timeout / 2)
		}
		return upTo(timeout / 200)
	}
	connect := func() (touched, done time.Time) {
		sent := now
		touched = sent.Add(delay())
		done = touched.Add(delay())
		r.connected(sent, done)
		return touched, done
	}
	var touched time.Time // by the leader, for this session
	check := func(what string) error {
		if limit := touched.Add(timeout); r.deadline().After(limit) {
			return fmt.Errorf("%s at %v: deadline %v, the leader keeps the session until %v", what, now.Sub(zero),
				r.deadline().Sub(zero), limit.Sub(zero))
		}
		return nil
	}

	for i := range 1 + rng.IntN(4) { // attachments
		replaced := i > 0 && timeout >= 6*tick && rng.IntN(3) == 0
		if replaced { // at some time since the last answer
			since := now
			now = now.Add(upTo(timeout))
			touched = since.Add(upTo(now.Sub(since)))
		}
		touchedBy, done := connect()
		if !replaced {
			touched = latest(touched, touchedBy)
		}
		now = done
		if err := check("connect"); err != nil {
			return err
		}
		heard := time.Time{}                                // latest contact that the follower has not reported
		reportAt := now.Add(upTo(tick / 2))                 // next report leaves the follower
		arrival := now                                      // of the latest message from the follower to the leader
		cut := now.Add(upTo(4 * timeout))                   // from then on nothing reaches the leader
		forward := func(from time.Time) (time.Time, bool) { // FIFO
			arrival = latest(arrival, from.Add(delay()))
			return arrival, arrival.Before(cut)
		}
		type report struct{ arrives, contact time.Time }
		var reports []report
		until := func(t time.Time) { // reports that leave by t
			for !reportAt.After(t) {
				if a, ok := forward(reportAt); ok && !heard.IsZero() {
					reports = append(reports, report{a, heard})
				}
				heard = time.Time{}
				reportAt = reportAt.Add(tick/2 - upTo(tick/8))
			}
		}
		land := func(t time.Time) { // reports that have arrived by t
			for len(reports) > 0 && !reports[0].arrives.After(t) {
				touched = latest(touched, reports[0].arrives)
				reports = reports[1:]
			}
		}
		end := cut.Add(upTo(2 * timeout))
		if replaced {
			end = done.Add(tick * 3 / 2)
		}
		for now.Before(end) {
			if gap := upTo(min(end.Sub(done), timeout) / 4); paced {
				now = now.Add(beat(timeout, timeout/4))
			} else {
				now = now.Add(gap)
			}
			sent, by := now, Witness(rng.IntN(3))
			atFollower := sent.Add(delay())
			until(atFollower)
			heard = atFollower
			done := atFollower.Add(delay())
			if replaced {
				if done := atFollower.Add(delay()); by < Quorum && done.Before(end) {
					r.answered(sent, done, by)
					now = done
				}
				if err := check("answer of the old leader"); err != nil {
					return err
				}
				continue
			}
			if by >= Leader {
				served, ok := forward(atFollower)
				if !ok {
					until(done)
					land(done)
					now = done
					continue // never answered
				}
				done = served.Add(delay())
			}
			until(done)
			land(done)
			now = done
			r.answered(sent, done, by)
			if err := check("answer"); err != nil {
				return err
			}
		}
	}
	return nil
}

func FuzzProof_AgainstAModelOfLeaderAndFollowers_IsNeverLate(f *testing.F) {
	for seed := range uint64(300) {
		f.Add(seed, uint8(seed))
	}
	f.Fuzz(func(t *testing.T, seed uint64, ticks uint8) {
		const timeout = 8 * time.Second
		tick := timeout / time.Duration(2+ticks%18) // the server grants two to twenty
		lags := map[string]time.Duration{
			"a quarter of the timeout": timeout / 4,
			"tick time known":          Terms{Tick: tick}.lag(timeout),
		}
		for name, lag := range lags {
			if err := simulate(seed, proofRule(timeout, lag), timeout, tick); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// The model would not be worth much if it accepted rules that are known to be wrong.
func TestProof_ModelOfLeaderAndFollowers_RejectsRulesThatAreLate(t *testing.T) {
	const timeout, tick = 8 * time.Second, 4 * time.Second
	wrong := map[string]func() rule{
		"newest answer of any kind": func() rule {
			var c time.Time
			return rule{
				func(sent, _ time.Time) { c = sent },
				func(sent, _ time.Time, _ Witness) { c = latest(c, sent) },
				func() time.Time { return c.Add(timeout) },
			}
		},
		"newest answer of the leader": func() rule {
			var c time.Time
			return rule{
				func(sent, _ time.Time) { c = sent },
				func(sent, _ time.Time, by Witness) {
					if by >= Leader {
						c = latest(c, sent)
					}
				},
				func() time.Time { return c.Add(timeout) },
			}
		},
		"half of the lag": func() rule { return proofRule(timeout, tick/4) },
		"contacts by their answer": func() rule {
			p := &Proof{}
			return rule{
				func(sent, at time.Time) { p.connected(sent, at, timeout, tick/2, 0) },
				func(sent, at time.Time, by Witness) {
					p.Answered(sent, at, by)
					for i := range p.unproven {
						p.unproven[i].sent = p.unproven[i].answered
					}
				},
				p.ValidUntil,
			}
		},
	}
	for name, build := range wrong {
		t.Run(name, func(t *testing.T) { mustBeLate(t, build, timeout, tick) })
	}
}

// Likewise for rules that are wrong only where a leader that has been replaced continues to answer.
func TestProof_ModelOfReplacedLeaders_RejectsRulesThatAreLate(t *testing.T) {
	const timeout, tick = 8 * time.Second, time.Second
	t.Run("a tick", func(t *testing.T) {
		mustBeLate(t, func() rule { return proofRule(timeout, tick) }, timeout, tick)
	})
	t.Run("connect answers", func(t *testing.T) {
		mustBeLate(t, func() rule {
			p := &Proof{}
			return rule{
				func(sent, at time.Time) {
					p.connected(sent, at, timeout, tick*3/2, 0)
					p.provenSent = sent
				},
				p.Answered, p.ValidUntil,
			}
		}, timeout, tick)
	})
}

func mustBeLate(t *testing.T, build func() rule, timeout, tick time.Duration) {
	t.Helper()
	for seed := range uint64(20_000) {
		if err := simulate(seed, build(), timeout, tick); err != nil {
			t.Log(err)
			return
		}
	}
	t.Error("no history in which this rule is late")
}

// A write that was sent before the session was resumed proves nothing about the server that resumed it.
func TestProof_WriteFromBeforeTheResumption_DoesNotConfirmIt(t *testing.T) {
	var p Proof
	p.connected(at(0), at(0.01), 8*time.Second, 2*time.Second, 0)
	p.connected(at(5), at(5.01), 8*time.Second, 2*time.Second, 0)
	p.Answered(at(4.9), at(5.02), Quorum)
	require.True(t, p.ResumptionUnproven())
	p.Answered(at(5), at(5.03), Quorum)
	require.False(t, p.ResumptionUnproven())
	require.Equal(t, at(13), p.ValidUntil())
}

// A session that is resumed with a longer timeout ends, unless an answer of the leader can prove it for long enough.
func TestProof_ResumedWithALongerTimeout_CanBeProvenOrIsHopeless(t *testing.T) {
	const least = 16 * time.Second
	for lag := range 10 {
		for margin := range 10 {
			var p Proof
			p.connected(at(0), at(0), least, time.Second, 0)
			p.connected(at(1), at(1), 4*least, time.Duration(lag)*time.Second, time.Duration(margin)*time.Second)
			provable := p.freshest() > p.grantNeeds() && p.lag <= least/2
			require.True(t, p.Hopeless() || provable, "lag %d s, margin %d s", lag, margin)
		}
	}
	var p Proof
	p.connected(at(0), at(0), least, 4*time.Second, time.Second)
	require.False(t, p.Hopeless())
}

// How far ahead the deadline must be for a grant, and from when on a session that was resumed with a longer timeout is
// abandoned: when what an eighth of the timeout between two syncs leaves is less than a 16th.
func TestProof_LongLag_LimitsWhatAGrantNeeds(t *testing.T) {
	const least = 16 * time.Second
	s := func(seconds float64) time.Duration { return at(seconds).Sub(zero) }
	for _, tt := range []struct {
		lag, margin, enough float64 // in seconds
		hopeless            bool
	}{
		{1, 0, 2, false},  // lag + 1
		{4, 0, 5, false},  // the same
		{6, 0, 7, false},  // the same
		{7, 0, 7, false},  // 16 - 7 - 2
		{8, 0, 6, false},  // 16 - 8 - 2
		{8, 5, 1, false},  // 16 - 8 - 5 - 2
		{8, 6, 1, true},   // the least that is enough
		{9, 0, 5, true},   // a lag above half
		{2, 11, 1, false}, // 16 - 2 - 11 - 2
		{2, 12, 1, true},
	} {
		var p Proof
		p.connected(at(0), at(0), least, s(tt.lag), s(tt.margin))
		require.Equal(t, s(tt.enough), p.grantNeeds(), "%+v", tt)
		require.False(t, p.Hopeless(), "with the timeout it was made with")
		p.connected(at(1), at(1), 2*least, s(tt.lag), s(tt.margin))
		require.Equal(t, tt.hopeless, p.Hopeless(), "%+v", tt)
	}
}

// Only a longer timeout can make a session hopeless. It does if an answer leaves less than three 16ths of the old
// timeout, or if contacts count only when they are older than half of it.
func TestProof_Hopeless_Limits(t *testing.T) {
	const least = 16 * time.Second
	for _, tt := range []struct {
		timeout, lag, margin time.Duration
		hopeless             bool
	}{
		{least, 9 * time.Second, 0, false},
		{least - 1, 9 * time.Second, 0, false},
		{least + 1, 9 * time.Second, 0, true},
		{2 * least, 4 * time.Second, time.Second, false},
		{2 * least, 8 * time.Second, 5 * time.Second, false},
		{2 * least, 8*time.Second + 1, 0, true},
		{2 * least, 8 * time.Second, 5*time.Second + 1, true},
	} {
		var p Proof
		p.connected(at(0), at(0), least, time.Second, 0)
		p.connected(at(1), at(1), tt.timeout, tt.lag, tt.margin)
		require.Equal(t, tt.hopeless, p.Hopeless(), "timeout %v, lag %v, margin %v", tt.timeout, tt.lag, tt.margin)
	}
}
