package client

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/lifetime"
)

func TestNext_EveryStateAndEvent_IsInTheTable(t *testing.T) {
	table := map[zkrecipes.State]map[event]zkrecipes.State{
		zkrecipes.Connecting: {
			established: zkrecipes.Connected, disconnected: zkrecipes.Connecting,
			ended: zkrecipes.Connecting, closed: zkrecipes.Closed,
		},
		zkrecipes.Connected: {
			established: zkrecipes.Connected, disconnected: zkrecipes.Suspended, ended: zkrecipes.Lost,
			closed: zkrecipes.Closed,
		},
		zkrecipes.Suspended: {
			established: zkrecipes.Connected, disconnected: zkrecipes.Suspended, ended: zkrecipes.Lost,
			closed: zkrecipes.Closed,
		},
		zkrecipes.Lost: {
			established: zkrecipes.Connected, disconnected: zkrecipes.Lost, ended: zkrecipes.Lost,
			closed: zkrecipes.Closed,
		},
		zkrecipes.Closed: {
			established: zkrecipes.Closed, disconnected: zkrecipes.Closed, ended: zkrecipes.Closed,
			closed: zkrecipes.Closed,
		},
	}
	for from, row := range table {
		for e, to := range row {
			require.Equal(t, to, next(from, e), "%v, event %d", from, e)
		}
	}
}

func TestState_String_IsOneWord(t *testing.T) {
	for s, want := range map[zkrecipes.State]string{
		zkrecipes.Connecting: "connecting", zkrecipes.Connected: "connected", zkrecipes.Suspended: "suspended",
		zkrecipes.Lost: "lost", zkrecipes.Closed: "closed", 9: "State(9)",
	} {
		require.Equal(t, want, s.String())
	}
}

func TestStateLog_SlowReader_MissesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newStateLog()
		var got []zkrecipes.State
		happened := make(chan struct{})
		go func() {
			for s := range l.all(t.Context()) {
				if got = append(got, s); len(got) == 1 {
					<-happened
				}
			}
		}()
		synctest.Wait()
		want := []zkrecipes.State{zkrecipes.Connecting}
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
		require.Equal(t, append(want, zkrecipes.Closed), got)
	})
}

func TestStateLog_Reader_EndsWithItsContextOrItsLoop(t *testing.T) {
	l := newStateLog()
	for s := range l.all(t.Context()) {
		require.Equal(t, zkrecipes.Connecting, s)
		break
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range l.all(ctx) {
		cancel()
	}
	for s := range l.all(ctx) {
		t.Fatalf("%v, after the end", s)
	}
	l.apply(closed, lifetime.Report{})
	for s := range l.all(t.Context()) {
		require.Equal(t, zkrecipes.Closed, s)
	}
}
