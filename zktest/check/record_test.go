package check_test

import (
	"bytes"
	"encoding/json"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/zktest/check"
)

func TestRecorder_OneOfEachOutcome(t *testing.T) {
	var rec check.Recorder
	released, lost, failed, held := rec.Call("a", 2), rec.CallRead("b"), rec.Call("c", 1), rec.Call("d", 1) // 1 to 4
	released.Granted(100)                                                                                   // 5
	lost.Granted(101)                                                                                       // 6
	held.Granted(102)                                                                                       // 7
	failed.Failed()                                                                                         // 8
	released.Released()                                                                                     // 9
	lost.Released()                                                                                         // 10: lost
	lost.Lost()                                                                                             // 11

	holds, err := rec.Holds()
	require.NoError(t, err)
	assert.Equal(t, []check.Hold{
		{Client: "a", Op: 1, Weight: 2, Token: 100, Called: 1, From: 5, To: 9},
		{Client: "b", Op: 2, Weight: 1, Read: true, Token: 101, Called: 2, From: 6, To: 10, Lost: true},
		{Client: "d", Op: 4, Weight: 1, Token: 102, Called: 4, From: 7, To: check.StillHeld},
	}, holds)
}

// hold is a hold that a test ends.
type hold struct {
	token zkrecipes.Token
	err   error
}

func (h *hold) Token() zkrecipes.Token { return h.token }
func (h *hold) Err() error             { return h.err }

// TestRecorder_HolderNotesItsLossLate_IsNoOverlap: on a busy machine, the goroutine that waits for the end of a hold
// may run after the next holder was granted.
func TestRecorder_HolderNotesItsLossLate_IsNoOverlap(t *testing.T) {
	for name, end := range map[string]struct {
		err  error
		lost bool
	}{
		"lost":     {&zkrecipes.LostError{Reason: zkrecipes.LossDeadline}, true},
		"released": {zkrecipes.ErrReleased, false},
	} {
		t.Run(name, func(t *testing.T) {
			var rec check.Recorder
			first, second := rec.Call("a", 1), rec.Call("b", 1) // 1, 2
			one := &hold{token: 100}
			first.GrantedHold(one) // 3
			one.err = end.err
			second.GrantedHold(&hold{token: 101}) // 4: the end of the first; 5: the grant
			first.Lost()                          // 6

			holds, err := rec.Holds()
			require.NoError(t, err)
			assert.Equal(t, []check.Hold{
				{Client: "a", Op: 1, Weight: 1, Token: 100, Called: 1, From: 3, To: 4, Lost: true},
				{Client: "b", Op: 2, Weight: 1, Token: 101, Called: 2, From: 5, To: check.StillHeld},
			}, holds)
			require.NoError(t, check.Exclusion(holds, 1))
			require.Equal(t, end.lost, rec.Events()[3].Kind == check.Lost)
		})
	}
}

func TestRecorder_HoldThatIsHeld_Overlaps(t *testing.T) {
	var rec check.Recorder
	first, second := rec.Call("a", 1), rec.Call("b", 1)
	one := &hold{token: 100}
	first.GrantedHold(one)
	second.GrantedHold(&hold{token: 101})
	one.err = &zkrecipes.LostError{Reason: zkrecipes.LossDeadline}
	first.Lost()
	holds, err := rec.Holds()
	require.NoError(t, err)
	require.ErrorContains(t, check.Exclusion(holds, 1), "exclusion violated")
}

func TestRecorder_HistoriesOfProcessesJoin(t *testing.T) {
	now := int64(0)
	clock := func() int64 { now += 10; return now } // read by all processes
	var log bytes.Buffer
	process := func(name string) *check.Recorder {
		enc := json.NewEncoder(&log)
		return &check.Recorder{Now: clock, Emit: func(e check.Event) { assert.NoError(t, enc.Encode(e), name) }}
	}
	one, other := process("one"), process("other")
	a, b := one.Call("one", 1), other.Call("other", 1) // both are number 1 of their client
	a.Granted(7)
	b.Granted(8)
	a.Released()
	// The process of b is killed without recording an end.

	var events []check.Event
	for dec := json.NewDecoder(&log); dec.More(); {
		var e check.Event
		require.NoError(t, dec.Decode(&e))
		events = append(events, e)
	}
	holds, err := check.Holds(events)
	require.NoError(t, err)
	assert.Equal(t, []check.Hold{
		{Client: "one", Op: 1, Weight: 1, Token: 7, Called: 10, From: 30, To: 50},
		{Client: "other", Op: 1, Weight: 1, Token: 8, Called: 20, From: 40, To: check.StillHeld},
	}, holds)
	require.ErrorContains(t, check.Exclusion(holds, 1), "one#1 (lock of weight 1, token 7, held 30 to 50) "+
		"and then other#1 (lock of weight 1, token 8, held 40 to ...): weight 2 held at 40 by 2 operations, limit 1")
}

func TestRecorder_StampsOrderConcurrentCallers(t *testing.T) {
	var (
		rec  check.Recorder
		wg   sync.WaitGroup
		mu   sync.Mutex
		next zkrecipes.Token
	)
	for c := range 8 {
		wg.Go(func() {
			for range 200 {
				op := rec.Call(string(rune('a'+c)), 1)
				mu.Lock()
				next++
				op.Granted(next)
				op.Released()
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	holds, err := rec.Holds()
	require.NoError(t, err)
	assert.Len(t, holds, 1600)
	assert.NoError(t, check.Exclusion(holds, 1), "sync.Mutex excludes")
	stamps := make(map[int64]bool)
	for _, e := range rec.Events() {
		assert.False(t, stamps[e.At], "stamp %d twice", e.At)
		stamps[e.At] = true
	}
}

func TestHolds_RefusesWhatCannotBe(t *testing.T) {
	called := check.Event{Kind: check.Called, Client: "a", Op: 1, At: 5, Weight: 1}
	granted := check.Event{Kind: check.Granted, Client: "a", Op: 1, At: 6}
	for name, events := range map[string][]check.Event{
		"called twice":               {called, called},
		"must be at least 1":         {{Kind: check.Called, Client: "a", Op: 1}},
		"not waiting for an answer":  {granted},
		"granted at 6: not waiting":  {called, granted, granted},
		"granted at 4: not waiting":  {called, {Kind: check.Granted, Client: "a", Op: 1, At: 4}},
		"failed at 7: not waiting":   {called, granted, {Kind: check.Failed, Client: "a", Op: 1, At: 7}},
		"released at 7: not held":    {called, {Kind: check.Released, Client: "a", Op: 1, At: 7}},
		"lost at 5: not held":        {called, granted, {Kind: check.Lost, Client: "a", Op: 1, At: 5}},
		`a#1: unknown kind "banana"`: {{Kind: "banana", Client: "a", Op: 1}},
	} {
		_, err := check.Holds(events)
		assert.ErrorContains(t, err, name)
	}
}
