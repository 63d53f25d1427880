package shard_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/recipes/shard"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// A strategy that never settles costs at most ten plans a second, even without settling.
func TestWithSettle_NoneAndAStrategyThatNeverRests(t *testing.T) {
	for name, alternative := range map[string]string{"the shard moves": "b", "the shard has no owner now and then": ""} {
		t.Run(name, func(t *testing.T) {
			inFleet(t, 1, func(f *fleet) {
				f.srv.SetWriteLatency(time.Millisecond)
				restless := []shard.Option{shard.WithSettle(0, 0), shard.WithStrategy(func(now shard.Situation) map[string]string {
					if now.Owners[now.Shards[0]] == "a" {
						return map[string]string{now.Shards[0]: alternative}
					}
					return map[string]string{now.Shards[0]: "a"}
				})}
				f.join("a", restless...)
				f.join("b", restless...)
				f.pass(time.Minute)
				require.InDelta(f, 600, len(f.writers()), 50)
			})
		})
	}
}

// A leader that reads the locks does without those that it may not read.
func TestRecall_LockThatCannotBeRead(t *testing.T) {
	inFleet(t, 4, func(f *fleet) {
		a, b := f.join("a"), f.join("b")
		f.requireServed(2*settle, map[string]int{"a": 2, "b": 2})
		f.srv.Intercept(zktest.Match{Path: "/own/s001$", Where: func(r zktest.Request) bool {
			return strings.HasPrefix(r.Op.String(), "getChildren")
		}, Times: -1}, zktest.Fail(zktest.CodeNoAuth))
		before := f.owners()
		f.depose()
		require.NoError(f, f.srv.Delete(path+"/plan"))
		f.pass(3 * settle)
		for _, m := range []*mate{a, b} {
			select {
			case <-m.ended:
				require.NoError(f, m.err)
			default:
			}
		}
		require.Contains(f, f.planned(), "s001")
		for name, id := range f.owners() {
			require.True(f, name == "s001" || before[name] == id, name)
		}
	})
}

// From then on the leader waits only for the members to settle.
func TestReturnGrace_OverWhileItSettles(t *testing.T) {
	inFleet(t, 2, func(f *fleet) {
		m := f.prepare("b")
		require.NoError(f,
			m.client.CreateAll(f.Context(), path+"/plan", []byte(`{"owners":{"a":["s000","s001"]},"away":{"a":10}}`)))
		var calls atomic.Int64
		m.shards, _ = shard.New(m.client, path, shard.WithID("b"), shard.WithSettle(settle, 10*settle),
			shard.WithStrategy(func(now shard.Situation) map[string]string {
				calls.Add(1)
				return shard.Sticky(now)
			}))
		m.run(shard.List(f.shards...))
		f.requireServed(2*settle, map[string]int{"b": 2})
		require.Less(f, calls.Load(), int64(20))
	})
}

// A function that releases its hold is called again under the next one.
func TestRun_FunctionReleases(t *testing.T) {
	inFleet(t, 1, func(f *fleet) {
		a := f.prepare("a")
		calls := 0
		a.serve = func(ctx context.Context, s *shard.Shard) error {
			require.NoError(f, s.Err(), "the hold is live when the function is called")
			if calls++; calls <= 3 {
				require.NoError(f, s.Release(ctx))
				require.Error(f, ctx.Err(), "the context ends with the hold")
			}
			<-ctx.Done()
			return nil
		}
		a.run(shard.List(f.shards...))
		f.requireServed(10*settle, map[string]int{"a": 1})
		f.pass(10 * settle)
		require.Equal(f, 4, calls)
		f.log.mu.Lock()
		defer f.log.mu.Unlock()
		require.NotContains(f, f.log.text.String(), "cannot acquire the lock")
	})
}
