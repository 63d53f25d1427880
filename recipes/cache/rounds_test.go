package cache

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Each word is a step: "+1" makes a part dirty, "-1" makes a part of round 1 clean, "5" handles an answer to a request
// sent at 5, "down" and "up" change the connection, and "verify" starts a verification. After each step, the rounds end
// that can.
func TestRounds_Advance_SaysAsOfWhenAllIsThere(t *testing.T) {
	for _, tt := range []struct {
		name, steps string
		ended       int
		asOf        int // 0 is never
		caughtUp    bool
	}{
		{"nothing is dirty", "1", 2, 1, true},
		{"a part is dirty", "+1 1", 0, 0, false},
		{"it is clean", "+1 1 -1", 2, 1, true},
		{"the time is of the begin", "+1 1 5 +2 -1", 1, 1, true},
		{"the next begins when the last has ended", "+1 1 5 +2 -1 7 -2", 3, 7, true},
		{"what becomes dirty meanwhile is of the next", "+1 1 +2 -1 5 +3 -2", 2, 1, true},
		{"found because of a part of the round", "+1 1 +2 +1 -1 9", 0, 0, false},
		{"two parts", "+1 +1 1 -1 9", 0, 0, false},
		{"the connection goes", "+1 1 -1 down", 2, 1, false},
		{"the connection comes", "+1 1 -1 down up +3 9", 2, 1, false},
		{"all is read again", "+1 1 -1 down up +3 9 -3", 4, 9, true},
		{"a round that a new connection interrupts never ends", "+1 1 up +2 5", 0, 0, false},
		{"the one after it does", "+1 1 up +2 5 -2", 3, 5, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var r rounds
			var dirty [2]int
			heard, asOf := 0, 0
			for step := range strings.FieldsSeq(tt.steps) {
				number := int(step[len(step)-1] - '0')
				switch {
				case step == "down":
					r.interrupt()
					continue
				case step == "up":
					r.restart()
					dirty = [2]int{}
					continue
				case step[0] == '+':
					dirty[number&1]++
					require.LessOrEqual(t, number, r.newest+1)
				case step[0] == '-':
					dirty[number&1]--
				default:
					heard = number
				}
				if heard > 0 {
					if at := r.advance(dirty, zero.Add(time.Duration(heard))); !at.IsZero() {
						asOf = int(at.Sub(zero))
					}
				}
			}
			require.Equal(t, tt.ended, r.ended)
			require.Equal(t, tt.asOf, asOf)
			require.Equal(t, tt.caughtUp, r.caughtUp)
		})
	}
}

// A verification ends with the round that begins after it.
func TestRounds_Verify_EndsWithTheNextRound(t *testing.T) {
	var r rounds
	none, one, other := [2]int{}, [2]int{0, 1}, [2]int{1, 0}
	r.reset(10)
	r.advance(one, zero) // round 1 is active
	r.verify(20)
	require.True(t, r.isVerifying())
	r.advance([2]int{1, 1}, zero)
	r.advance(other, zero) // round 2 is active
	require.True(t, r.isVerifying(), "what it asks for is of round 2")
	require.Equal(t, int64(10), r.verifiedZxid)
	r.advance(none, zero)
	require.False(t, r.isVerifying())
	require.Equal(t, int64(20), r.verifiedZxid)
}

// passes are the rounds according to their definition, with a set of parts for each.
type passes struct {
	active, next map[int]bool // active is nil if no round is active
	began        time.Time
	ended        int
}

func (m *passes) advance(heard time.Time) (asOf time.Time) {
	for range 2 {
		if m.active == nil {
			m.active, m.next, m.began = m.next, map[int]bool{}, heard
		}
		if len(m.active) > 0 {
			break
		}
		asOf, m.active = m.began, nil
		m.ended++
	}
	return asOf
}

func TestRounds_Random_EndAsTheyAreDefined(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var r rounds
		dirty, in := [2]int{}, map[int]parity{} // by part
		m := passes{next: map[int]bool{}}
		parts := []int(nil)
		enter := func(set map[int]bool, of parity) {
			part := len(in)
			set[part], in[part], parts = true, of, append(parts, part)
			dirty[of]++
		}
		for i := range 200 {
			switch what := rng.IntN(10); {
			case what < 3:
				enter(m.next, r.next())
			case what < 4 && len(parts) > 0: // found because of another part
				cause := parts[rng.IntN(len(parts))]
				if m.active[cause] {
					enter(m.active, in[cause])
				} else {
					enter(m.next, in[cause])
				}
			case what < 9 && len(parts) > 0:
				j := rng.IntN(len(parts))
				dirty[in[parts[j]]]--
				delete(m.active, parts[j])
				delete(m.next, parts[j])
				parts = slices.Delete(parts, j, j+1)
			case rng.IntN(10) == 0:
				r.restart()
				m.active, m.next, parts, dirty = nil, map[int]bool{}, nil, [2]int{}
				enter(m.next, r.next())
			}
			heard := zero.Add(time.Duration(i))
			before := r.ended
			asOf := r.advance(dirty, heard)
			require.Equal(t, m.advance(heard), asOf, "seed %d, step %d", seed, i)
			require.Equal(t, asOf.IsZero(), r.ended == before)
			require.Equal(t, len(m.active), dirty[r.newest&1], "seed %d, step %d", seed, i)
		}
		require.Positive(t, m.ended)
	}
}

func TestWaiters_ShareASync(t *testing.T) {
	is := func(w *waiter) bool {
		select {
		case <-w.done:
			return true
		default:
			return false
		}
	}
	var ws waiters
	call := func(round int) *waiter {
		w := &waiter{done: make(chan struct{}), round: round}
		ws.join(w)
		return w
	}
	ready, a, b := call(1), call(0), call(0)
	first := ws.ask()
	require.Equal(t, waiters{a, b}, first)
	c := call(0)
	require.Empty(t, ws.ask(), "a sync is on its way")
	first.retry()
	first = ws.ask()
	require.Equal(t, waiters{a, b, c}, first)
	d, e := call(0), call(0)
	ws.leave(e)
	first.synced(3)
	require.Equal(t, waiters{d}, ws.ask())
	ws.wake(2)
	require.True(t, is(ready))
	require.False(t, is(a))
	ws.wake(3)
	require.True(t, is(a) && is(b) && is(c))
	require.False(t, is(d))
	ws.wakeAll(nil)
	require.True(t, is(d))
	require.False(t, is(e))
}

// TestView_Stopped_IsNotCurrent: the engine has its error a moment before it is down.
func TestView_Stopped_IsNotCurrent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := Tree(bubble.Dial(t, zktest.Run(t, zktest.InMemory()), "a"), "/app")
		require.NoError(t, err)
		require.NoError(t, c.Ready(t.Context()))
		c.mu.Lock()
		defer c.mu.Unlock()
		require.True(t, c.view().Current)
		c.engine.err = ErrTooMuch
		require.False(t, c.view().Current)
	})
}
