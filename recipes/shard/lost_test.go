package shard_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/fence"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/shard"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// lock returns the path of the hold of a shard.
func (f *fleet) lock(name string) string {
	f.Helper()
	own := path + "/own/" + name
	require.Len(f, f.srv.Children(own), 1)
	return own + "/" + f.srv.Children(own)[0]
}

// Holds that are lost soon are not failures of the function. They used to share its pause, which grew up to 30 s, so
// the shard waited although nothing was wrong any more.
func TestLost_SoonAgainAndAgain(t *testing.T) {
	inFleet(t, 1, func(f *fleet) {
		a := f.prepare("a", shard.WithGiveUp(1))
		var well atomic.Bool
		a.serve = func(ctx context.Context, s *shard.Shard) error {
			if !well.Load() {
				require.NoError(f, f.srv.Delete(s.Path()))
			}
			<-ctx.Done()
			return context.Cause(ctx)
		}
		a.run(shard.List(f.shards...))
		f.pass(time.Minute)
		require.InDelta(f, 120, f.started(), 60, "it does not spin")
		well.Store(true)
		f.requireServed(bubble.Timeout/10, map[string]int{"a": 1})
		require.NotContains(f, f.said("a"), "refuses")
	})
}

// A hold that lasted ends the series of holds that were lost soon. The next pause is the first one again.
func TestLost_LongHoldBeginsAnew(t *testing.T) {
	inFleet(t, 1, func(f *fleet) {
		a := f.prepare("a")
		var lost, again time.Time
		calls := 0
		a.serve = func(ctx context.Context, s *shard.Shard) error {
			switch calls++; calls {
			case 10: // after nine that were lost soon
				f.pass(2 * time.Second)
			case 11:
				lost = time.Now()
			case 12:
				again = time.Now()
				<-ctx.Done()
				return nil
			}
			require.NoError(f, f.srv.Delete(s.Path()))
			<-ctx.Done()
			return nil
		}
		a.run(shard.List(f.shards...))
		f.pass(time.Minute)
		require.Less(f, again.Sub(lost), 80*time.Millisecond, "50 ms, a random half more or less")
		require.Positive(f, again.Sub(lost))
	})
}

// A fence may report a loss to a function before the server does. That is not a failure of the function, and the next
// hold does not wait for it. Each such loss used to count, and lengthened the pause.
func TestLost_FunctionKnowsFirst(t *testing.T) {
	for name, says := range map[string]struct {
		err    error
		giveUp int
	}{"error, the last one": {fence.ErrStale, 1}, "error": {fence.ErrStale, 3}, "nothing": {nil, 1}} {
		t.Run(name, func(t *testing.T) {
			inFleet(t, 1, func(f *fleet) {
				a := f.prepare("a", shard.WithGiveUp(says.giveUp))
				refused := make(chan struct{})
				a.serve = func(ctx context.Context, _ *shard.Shard) error {
					select {
					case <-refused:
						return says.err
					case <-ctx.Done():
						return nil
					}
				}
				a.run(shard.List(f.shards...))
				f.requireServed(2*settle, map[string]int{"a": 1})
				for range 8 {
					f.pass(2 * time.Second) // this hold is not lost soon
					f.srv.Stall(zktest.Label("a"), zktest.FromServer)
					require.NoError(f, f.srv.Delete(f.lock("s000")))
					refused <- struct{}{}
					f.pass(10 * time.Millisecond)
					f.srv.Heal(zktest.Label("a"))
					f.requireServed(100*time.Millisecond, map[string]int{"a": 1})
				}
				if says.giveUp > 1 { // a true failure, the first one
					refused <- struct{}{}
					synctest.Wait()
					f.requireServed(200*time.Millisecond, map[string]int{"a": 1})
				}
				require.NotContains(f, f.said("a"), "refuses")
			})
		})
	}
}

// A function that has run for a minute has succeeded, even if its hold is then lost. Its next failure used to be
// followed by the long pause of earlier ones.
func TestLost_AfterLong(t *testing.T) {
	inFleet(t, 1, func(f *fleet) {
		a := f.prepare("a", shard.WithGiveUp(100))
		calls := 0
		a.serve = func(ctx context.Context, _ *shard.Shard) error {
			if calls++; calls != 10 && calls != 12 {
				return errors.New("no disk")
			}
			<-ctx.Done()
			return nil
		}
		a.run(shard.List(f.shards...))
		f.await(5*time.Minute, f.isServed, f.planned)
		f.pass(time.Minute)
		require.NoError(f, f.srv.Delete(f.lock("s000")))
		f.requireServed(time.Second, map[string]int{"a": 1})
		require.Equal(f, 12, f.started())
	})
}

// said returns what a member announces about itself.
func (f *fleet) said(id string) string {
	n, _ := f.srv.Node(path + "/members/" + id)
	return string(n.Data)
}
