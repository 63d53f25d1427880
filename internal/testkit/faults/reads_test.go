package faults_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/trial"
	"github.com/zkrecipes/zkrecipes/zktest"
)

const work = "/work" // what holders read and write

// look returns what a client reads, within a second.
func (w *world) look(label string) (string, error) {
	ctx, cancel := context.WithTimeout(w.Context(), time.Second)
	defer cancel()
	data, _, err := w.client(label).Get(ctx, work)
	return string(data), err
}

// takeAndRead acquires as take does, and returns what the holder reads first.
func (w *world) takeAndRead(label string) (a *attempt, first func() string) {
	h, err := w.open(w.client(label), []byte(label))
	require.NoError(w, err)
	var seen string
	a = w.acquire(label, w.recipe, func(ctx context.Context) (*zkrecipes.Hold, error) {
		hold, err := h.take(ctx)
		if err == nil {
			seen, err = w.look(label)
		}
		return hold, err
	})
	return a, func() string {
		<-a.returned
		return seen
	}
}

// TestReadsOfAHolder_SeeWhatTheLastHolderWrote: the next holder is connected to a server that lags. What it reads
// during its hold is never older than what the last holder wrote, however the last hold ended, even after the
// connection has moved to another lagging server.
func TestReadsOfAHolder_SeeWhatTheLastHolderWrote(t *testing.T) {
	ends := map[string]func(w *world, a *attempt){
		"released": func(_ *world, a *attempt) { a.release() },
		"lost":     func(w *world, _ *attempt) { w.srv.Expire(w.srv.SessionOf("a")) },
		"deleted": func(w *world, _ *attempt) {
			// If there are several nodes, the client deletes the others by itself.
			for all := w.contendersOf("a"); len(all) > 0; all = w.contendersOf("a") {
				require.NoError(w, w.srv.Delete(all[0]))
			}
		},
	}
	for name, end := range ends {
		for _, waits := range []bool{true, false} {
			t.Run(map[bool]string{true: "waiter/", false: "newcomer/"}[waits]+name, func(t *testing.T) {
				each(t, func(w *world) { w.playReads(end, waits) }, zktest.WithFronts(3))
			})
		}
	}
}

func (w *world) playReads(end func(w *world, a *attempt), waits bool) {
	fronts := w.srv.Fronts()
	b := trial.NewSwitchboard(fronts[0].DialAs("b"))
	w.client("a", conn.WithDialer(fronts[2].DialAs("a")))
	w.client("b", conn.WithDialer(b.Dial))
	_, err := w.srv.Create(work, []byte("old"), zktest.Persistent)
	require.NoError(w, err)
	a := w.rivals("a")
	a.requireGranted(0)
	var next *attempt
	var first func() string
	if waits {
		next, first = w.takeAndRead("b")
		next.requireWaiting()
	}
	fronts[0].Lag()
	fronts[1].Lag()
	_, err = w.client("a").Set(w.Context(), work, []byte("new"), -1)
	require.NoError(w, err)
	end(w, a)
	synctest.Wait()
	stale, err := w.look("b")
	require.NoError(w, err)
	require.Equal(w, "old", stale, "the server of b lags")
	if !waits {
		next, first = w.takeAndRead("b")
	}
	next.requireWaiting()
	w.until(time.Second)
	fronts[0].CatchUp()
	require.Equal(w, "new", first())
	next.requireGrantedAt(time.Second)

	b.Connect(fronts[1].DialAs("b"))
	w.srv.Cut(zktest.Label("b"))
	synctest.Wait()
	_, err = w.look("b")
	require.ErrorIs(w, err, context.DeadlineExceeded, "the other server lags, and is refused")
	b.Connect(fronts[0].DialAs("b"))
	again, err := w.look("b")
	require.NoError(w, err)
	require.Equal(w, "new", again)
	next.requireHeld()
	fronts[1].CatchUp()
	next.release()
}

// TestReadsOfAHolder_GrantedByAnEvent: before 3.9 an event carries no zxid, so a server that has not yet applied what
// the event reported can resume the session. The next connection begins with a barrier, so what the holder reads is as
// new as the event.
func TestReadsOfAHolder_GrantedByAnEvent(t *testing.T) {
	each(t, func(w *world) {
		fronts := w.srv.Fronts()
		b := trial.NewSwitchboard(fronts[0].DialAs("b"))
		w.client("a", conn.WithDialer(fronts[2].DialAs("a")))
		w.client("b", conn.WithDialer(b.Dial))
		_, err := w.srv.Create(work, []byte("old"), zktest.Persistent)
		require.NoError(w, err)
		a := w.rivals("a")
		a.requireGranted(0)
		next := w.take("b")
		next.requireWaiting()
		fronts[1].Lag()
		_, err = w.client("a").Set(w.Context(), work, []byte("new"), -1)
		require.NoError(w, err)
		a.release()
		next.requireGrantedAt(0)
		b.Connect(fronts[1].DialAs("b"))
		w.srv.Cut(zktest.Label("b"))
		const readers = 50 // a single one would, by chance, find the barrier of the heartbeat ahead of it
		seen := make(chan string, readers)
		for range readers {
			go func() {
				data, _, err := w.client("b").Get(w.Context(), work)
				if err != nil {
					w.Error(err)
				}
				seen <- string(data)
			}()
		}
		w.until(3 * time.Second) // reconnected, and not yet lost
		fronts[1].CatchUp()
		for range readers {
			require.Equal(w, "new", <-seen)
		}
		next.release()
	}, zktest.WithFronts(3), zktest.WithRelease(zktest.Release38))
}
