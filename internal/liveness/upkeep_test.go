package liveness

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// upkept has a timeout of 8 s and was given at 0. Its latest sync was sent at 4 and answered at once, so that it is
// proven for the contact at 0, and the one at 4 is ripe at 6. Nothing has been heard since.
func upkept() *Upkeep {
	u := New(Terms{})
	u.Connected(at(0), at(0), 8*time.Second)
	u.Answered(at(4), at(4), Leader)
	u.lastSync = at(4)
	return &u
}

// What is due at a moment, and when to query again.
func TestUpkeep_Step_SaysWhatIsDue(t *testing.T) {
	none, eleventh := Conn{}, (8 * time.Second / 11).Seconds()
	up := Conn{Up: true}
	retained := func(u *Upkeep) { u.retained = 1 }
	both := func(f, g func(*Upkeep)) func(*Upkeep) { return func(u *Upkeep) { f(u); g(u) } }
	syncing := both(retained, func(u *Upkeep) { u.syncing = true })
	warned := func(u *Upkeep) { u.AddWarning(3*time.Second, func() {}) }
	proven := func(u *Upkeep) { u.Answered(at(6), at(6), Leader) } // for the contact at 4
	for _, tt := range []struct {
		name   string
		given  func(*Upkeep)
		now    float64
		held   bool
		line   Conn
		sync   bool
		drop   bool
		warned bool
		silent float64
		next   float64
	}{
		{name: "idle: only silence is waited for", now: 5, line: up, silent: 12, next: 12},
		{name: "idle: the time of silence is no step of its own", now: 13, line: up, silent: 12, next: 12},
		{name: "a part of a reply breaks the silence", now: 5, line: Conn{Up: true, Arrived: at(7)}, silent: 15, next: 15},
		{
			name: "a part that came before the newest answer does not", now: 5, line: Conn{Up: true, Arrived: at(3)}, silent: 12,
			next: 12,
		},
		{name: "held: the deadline", now: 5, held: true, line: none, silent: 12, next: 8},
		{name: "held: the deadline that has moved", given: proven, now: 7, held: true, line: none, silent: 14, next: 12},
		{name: "a warning ahead of the deadline", given: warned, now: 4.5, line: none, silent: 12, next: 5},
		{name: "a warning that is due", given: warned, now: 5, line: none, warned: true, silent: 12, next: 12},
		{name: "a warning and a hold", given: warned, now: 6, held: true, line: none, warned: true, silent: 12, next: 8},
		{name: "retained: a sync every T/11", given: retained, now: 4.5, line: up, silent: 12, next: 4 + eleventh},
		{name: "retained: the sync is due", given: retained, now: 5, line: up, sync: true, silent: 12, next: 7},
		{name: "retained, without a connection", given: retained, now: 5, line: none, silent: 12, next: 12},
		{
			name:  "retained: a contact is ripe before the next sync is due",
			given: both(retained, func(u *Upkeep) { u.lastSync = at(5.5) }), now: 5.5, line: up, silent: 12, next: 6,
		},
		{name: "retained: one is ripe, but the proof lasts", given: both(retained, func(u *Upkeep) {
			proven(u)
			u.lastSync = at(7)
		}), now: 7, line: up, silent: 14, next: 7 + eleventh},
		{name: "hurried", given: both(retained, (*Upkeep).HurrySync), now: 4, line: up, sync: true, silent: 12, next: 6},
		{name: "a sync is being sent", given: syncing, now: 6, line: up, silent: 12, next: 12},
		{
			name: "a sync is without an answer", given: syncing, now: 6, line: Conn{Up: true, OldestSync: at(5)}, silent: 12,
			next: 7,
		},
		{name: "for T/4", given: syncing, now: 7, line: Conn{Up: true, OldestSync: at(5)}, drop: true, silent: 12, next: 12},
		{
			name: "but a part of a reply came", given: syncing, now: 7, line: Conn{Up: true, OldestSync: at(5), Arrived: at(6)},
			silent: 14, next: 8,
		},
		{
			name: "not retained any more", given: func(u *Upkeep) { u.syncing = true }, now: 7,
			line: Conn{Up: true, OldestSync: at(5)}, silent: 12, next: 12,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			u := upkept()
			if tt.given != nil {
				tt.given(u)
			}
			step := u.Step(at(tt.now), tt.held, tt.line)
			require.Equal(t, tt.sync, step.Sync, "sync")
			require.Equal(t, tt.drop, step.Drop, "drop")
			require.Equal(t, tt.warned, len(step.Warn) > 0, "warned")
			require.Equal(t, tt.silent, step.Silent.Sub(zero).Seconds(), "silent")
			require.Equal(t, tt.next, step.Next.Sub(zero).Seconds(), "next")
		})
	}
}

// While a sync is in flight, no other is due, even if the clock says so.
func TestUpkeep_Sync_IsDueAgainWhenItIsDone(t *testing.T) {
	u, up := upkept(), Conn{Up: true}
	u.retained = 1
	require.True(t, u.Step(at(5), true, up).Sync)
	require.False(t, u.Step(at(6.5), true, up).Sync)
	u.SyncDone()
	require.True(t, u.Step(at(6.5), true, up).Sync)
}

// The first sync is not urgent if the proof lasts: for a lag, in which a contact made now is proven, and an eighth of
// the timeout.
func TestUpkeep_Retain_FirstSyncHasTime(t *testing.T) {
	for _, tt := range []struct{ now, last float64 }{{4.9, 4.9}, {5, 4}, {7, 4}} {
		u := upkept()
		require.True(t, u.BeginRetention(at(tt.now)))
		require.Equal(t, at(tt.last).Add(8*time.Second/11), u.SyncDue(), "retained at %v", tt.now)
		require.False(t, u.BeginRetention(at(tt.now)), "it is already")
		u.EndRetention()
		u.EndRetention()
		require.True(t, u.BeginRetention(at(tt.now)))
	}
}

func TestUpkeep_ClaimSync_OnlyIfTheProofEndsSoon(t *testing.T) {
	u := upkept()
	require.False(t, u.ClaimSync(at(4.9)))
	require.Equal(t, at(4), u.lastSync)
	require.True(t, u.ClaimSync(at(5)))
	require.Equal(t, at(5), u.lastSync, "it counts as a sync")
}

func TestUpkeep_Warnings_AreDueOnce(t *testing.T) {
	u := upkept()
	require.Equal(t, at(8), u.NextDue())
	early, late := u.AddWarning(3*time.Second, func() {}), u.AddWarning(time.Second, func() {})
	require.Equal(t, at(5), u.NextDue())
	require.Equal(t, at(7), u.WarningDue(late))
	require.Len(t, u.Step(at(5), false, Conn{}).Warn, 1)
	require.Equal(t, at(7), u.NextDue())
	u.Forget(early) // it is no longer there
	u.Forget(late)
	require.Empty(t, u.Step(at(8), false, Conn{}).Warn)
}

// For a grant the proof must last for another lag and a 16th of the timeout; see
// TestProof_LongLag_LimitsWhatAGrantNeeds.
func TestProof_Proven_LastsLongEnough(t *testing.T) {
	u := upkept()
	require.True(t, u.EnoughForGrant(at(5.49)))
	require.False(t, u.EnoughForGrant(at(5.5)))
	require.Equal(t, 125*time.Millisecond, u.Pause())
}

// A server may grant the least timeout when it resumes the session, and its answer shows what it did.
func TestProof_Resuming_CountsTheLeastGrant(t *testing.T) {
	for least, until := range map[time.Duration]float64{0: 8, 3 * time.Second: 4, 20 * time.Second: 8} {
		u := New(Terms{LeastTimeout: least})
		u.Connected(at(0), at(0), 8*time.Second)
		u.Resuming(at(1))
		require.Equal(t, until, u.ValidUntil().Sub(zero).Seconds(), "%v", least)
		u.Connected(at(1), at(2), 8*time.Second)
		require.Equal(t, at(8), u.ValidUntil())
	}
}
