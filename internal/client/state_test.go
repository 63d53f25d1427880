package client

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/lifetime"
)

func TestNext_EveryStateAndEvent_IsInTheTable(t *testing.T) {
	table := map[State]map[event]State{
		Connecting: {established: Connected, disconnected: Connecting, ended: Connecting, closed: Closed},
		Connected:  {established: Connected, disconnected: Suspended, ended: Lost, closed: Closed},
		Suspended:  {established: Connected, disconnected: Suspended, ended: Lost, closed: Closed},
		Lost:       {established: Connected, disconnected: Lost, ended: Lost, closed: Closed},
		Closed:     {established: Closed, disconnected: Closed, ended: Closed, closed: Closed},
	}
	for from, row := range table {
		for e, to := range row {
			require.Equal(t, to, next(from, e), "%v, event %d", from, e)
		}
	}
}

func TestState_String_IsOneWord(t *testing.T) {
	for s, want := range map[State]string{
		Connecting: "connecting", Connected: "connected", Suspended: "suspended", Lost: "lost", Closed: "closed", 9: "State(9)",
	} {
		require.Equal(t, want, s.String())
	}
}

func TestStateLog_SlowReader_MissesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newStateLog()
		var got []State
		happened := make(chan struct{})
		go func() {
			for s := range l.all(t.Context()) {
				if got = append(got, s); len(got) == 1 {
					<-happened
				}
			}
		}()
		synctest.Wait()
		want := []State{Connecting}
		for range 1000 {
			for _, e := range []event{established, disconnected, ended} {
				from, to := l.apply(e, lifetime.Report{})
				require.NotEqual(t, from, to)
				want = append(want, to.state)
			}
		}
		from, to := l.apply(ended, lifetime.Report{})
		require.Equal(t, from, to, "no change")
		l.apply(closed, lifetime.Report{})
		close(happened)
		synctest.Wait()
		require.Equal(t, append(want, Closed), got)
	})
}

func TestStateLog_Reader_EndsWithItsContextOrItsLoop(t *testing.T) {
	l := newStateLog()
	for s := range l.all(t.Context()) {
		require.Equal(t, Connecting, s)
		break
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range l.all(ctx) {
		cancel()
	}
	l.apply(closed, lifetime.Report{})
	for s := range l.all(t.Context()) {
		require.Equal(t, Closed, s)
	}
}
