package hold

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// proven is a contender that is proven until a given time.
type proven struct{ until time.Time }

func (p proven) Path() string                                   { return "/app/lock/x" }
func (p proven) Token() zkrecipes.Token                         { return 7 }
func (p proven) ValidUntil() time.Time                          { return p.until }
func (p proven) Check(context.Context) error                    { return nil }
func (p proven) Revoked() <-chan struct{}                       { return nil }
func (p proven) Release(context.Context) error                  { return nil }
func (p proven) Lapse(time.Time)                                {}
func (p proven) OnExpiring(time.Duration, func()) (stop func()) { return func() {} }

func (p proven) Txn(context.Context, ...zkrecipes.Op) ([]zkrecipes.OpResult, error) { return nil, nil }

// TestBoth_LooksAtTheClock: no timer ends the hold here. The first query does, whichever method it calls.
func TestBoth_LooksAtTheClock(t *testing.T) {
	type key struct{}
	for name, ask := range map[string]func(ctx context.Context){
		"Err":   func(ctx context.Context) { require.Error(t, ctx.Err()) },
		"Done":  func(ctx context.Context) { <-ctx.Done() },
		"Cause": func(ctx context.Context) { require.Error(t, context.Cause(ctx)) },
		"Value": func(ctx context.Context) { require.Error(t, context.WithValue(ctx, key{}, 1).Err()) },
		"child": func(ctx context.Context) {
			child, stop := context.WithCancel(ctx)
			defer stop()
			require.Error(t, child.Err())
		},
	} {
		for where, combine := range map[string]func(t *testing.T, held context.Context) context.Context{
			"first": func(t *testing.T, held context.Context) context.Context {
				ctx, _ := Both(held, t.Context())
				return ctx
			},
			"second": func(t *testing.T, held context.Context) context.Context {
				ctx, _ := Both(t.Context(), held)
				return ctx
			},
			"nested": func(t *testing.T, held context.Context) context.Context {
				inner, _ := Both(held, t.Context())
				ctx, _ := Both(t.Context(), inner)
				return ctx
			},
		} {
			t.Run(name+", "+where, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					h, _ := zkrecipes.NewHold(t.Context(), proven{time.Now().Add(time.Second)})
					ctx := combine(t, h.Context())
					require.NoError(t, ctx.Err())
					time.Sleep(time.Second)
					ask(ctx)
					var lost *zkrecipes.LostError
					require.ErrorAs(t, context.Cause(ctx), &lost)
					require.Equal(t, zkrecipes.LossDeadline, lost.Reason)
				})
			})
		}
	}
}

// TestBoth_Value_LooksAtTheClock: a channel that was obtained before is closed by whatever is queried next.
func TestBoth_Value_LooksAtTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := zkrecipes.NewHold(t.Context(), proven{time.Now().Add(time.Second)})
		ctx, _ := Both(t.Context(), h.Context())
		done := ctx.Done()
		time.Sleep(time.Second)
		require.Nil(t, ctx.Value("key"))
		<-done
	})
}

// A function may return an error like that of a context although its own has not ended. It is not called again.
func TestRun_FunctionReturnsACancellation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		calls := 0
		err := Run(ctx, func(ctx context.Context) (*zkrecipes.Hold, error) {
			h, _ := zkrecipes.NewHold(ctx, proven{time.Now().Add(time.Minute)})
			return h, nil
		}, func(context.Context, *zkrecipes.Hold) error {
			calls++
			return context.Canceled
		})
		require.Equal(t, context.Canceled, err)
		require.Equal(t, 1, calls)
	})
}

// TestBoth_EndsWithTheFirstToEnd: it takes the cause of that one, and the values only of first.
func TestBoth_EndsWithTheFirstToEnd(t *testing.T) {
	type key struct{}
	why := errors.New("why")
	for _, which := range []int{0, 1} {
		first, endFirst := context.WithCancelCause(context.WithValue(t.Context(), key{}, "first"))
		second, endSecond := context.WithCancelCause(context.WithValue(t.Context(), key{}, "second"))
		ends := []context.CancelCauseFunc{endFirst, endSecond}
		ctx, end := Both(first, second)
		require.Equal(t, "first", ctx.Value(key{}))
		ends[which](why)
		<-ctx.Done()
		ends[1-which](errors.New("later"))
		require.Equal(t, why, context.Cause(ctx))
		require.Equal(t, context.Canceled, ctx.Err())
		end(nil)

		ctx, _ = Both(first, second)
		require.Error(t, ctx.Err(), "ended before")
	}
}

// asked counts how often a context is asked whether it has ended.
type asked struct {
	context.Context
	times atomic.Int64
}

func (a *asked) Err() error {
	a.times.Add(1)
	return a.Context.Err()
}

// TestBoth_Nested_AsksTheInnermostAFewTimes: LockAll nests one such context per lock. If each asked the next one more
// often, a call on the context of 16 lost locks would take a minute.
func TestBoth_Nested_AsksTheInnermostAFewTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, lose := context.WithCancel(t.Context())
		innermost := &asked{Context: first}
		layers := []context.Context{innermost}
		for range 10 {
			outer, end := Both(t.Context(), layers[len(layers)-1])
			defer end(nil)
			layers = append(layers, outer)
		}
		ctx := layers[10]
		innermost.times.Store(0)
		lose()
		require.ErrorIs(t, ctx.Err(), context.Canceled)
		synctest.Wait()
		require.ErrorIs(t, context.Cause(ctx), context.Canceled)
		require.Less(t, innermost.times.Load(), int64(10))
	})
}

// TestBoth_EndWakesTheWaiter: the waiter blocks on Done before either ends, and does not query again.
func TestBoth_EndWakesTheWaiter(t *testing.T) {
	for _, which := range []int{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			first, endFirst := context.WithCancel(t.Context())
			second, endSecond := context.WithCancel(t.Context())
			ctx, end := Both(first, second)
			defer end(nil)
			done := ctx.Done()
			[]context.CancelFunc{endFirst, endSecond}[which]()
			<-done
			endFirst()
			endSecond()
		})
	}
}

// Work that ends with its context returns the loss itself. The error used to contain it twice, on two lines of the log.
func TestDo_SaysALossOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, lose := zkrecipes.NewHold(t.Context(), proven{time.Now().Add(time.Minute)})
		err := Under(t.Context(), h, func(ctx context.Context, _ *zkrecipes.Hold) error {
			lose(&zkrecipes.LostError{Path: h.Path(), Reason: zkrecipes.LossDeadline})
			<-ctx.Done()
			return fmt.Errorf("work: %w", context.Cause(ctx))
		})
		require.ErrorIs(t, err, zkrecipes.ErrLost)
		require.EqualError(t, err, "work: /app/lock/x: lost (deadline)")
	})
}

// TestDo_ALossIsNotHiddenBehindACancellation: callers take an error that matches context.Canceled for their own doing.
func TestDo_ALossIsNotHiddenBehindACancellation(t *testing.T) {
	failed := errors.New("disk full")
	for name, returns := range map[string]struct {
		body func(ctx context.Context) error
		want string
	}{
		"as it is": {context.Context.Err, "/app/lock/x: lost (deadline)"},
		"wrapped": {
			func(ctx context.Context) error { return fmt.Errorf("step 37 of 60: %w", ctx.Err()) },
			"step 37 of 60: context canceled: /app/lock/x: lost (deadline)",
		},
		"with its cause": {
			func(ctx context.Context) error { return fmt.Errorf("%w (%w)", ctx.Err(), context.Cause(ctx)) },
			"context canceled (/app/lock/x: lost (deadline)): /app/lock/x: lost (deadline)",
		},
		"nothing":             {func(context.Context) error { return nil }, "/app/lock/x: lost (deadline)"},
		"an error of its own": {func(context.Context) error { return failed }, "disk full\n/app/lock/x: lost (deadline)"},
	} {
		for _, ending := range []string{"lost", "cancelled, then lost", "inside a hold that is lost"} {
			t.Run(name+", "+ending, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				h, lose := zkrecipes.NewHold(ctx, proven{time.Now().Add(time.Minute)})
				if ending == "inside a hold that is lost" {
					ctx = h.Context()
					h, _ = zkrecipes.NewHold(ctx, proven{time.Now().Add(time.Minute)})
				}
				err := Under(ctx, h, func(ctx context.Context, _ *zkrecipes.Hold) error {
					if ending == "cancelled, then lost" {
						cancel()
						defer lose(&zkrecipes.LostError{Path: h.Path(), Reason: zkrecipes.LossDeadline})
						return returns.body(ctx)
					}
					lose(&zkrecipes.LostError{Path: h.Path(), Reason: zkrecipes.LossDeadline})
					<-ctx.Done()
					return returns.body(ctx)
				})
				require.NotErrorIs(t, err, context.Canceled)
				require.Equal(t, name == "an error of its own", errors.Is(err, failed))
				if ending == "lost" {
					require.EqualError(t, err, returns.want)
				}
				if saysEnded := name != "nothing" && name != "an error of its own"; saysEnded ||
					ending != "inside a hold that is lost" {
					require.ErrorIs(t, err, zkrecipes.ErrLost)
				}
			})
		}
	}
}

// TestDo_Cancelled: the caller gets the function's own error about its cancellation.
func TestDo_Cancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	h, _ := zkrecipes.NewHold(ctx, proven{time.Now().Add(time.Minute)})
	stopped := errors.New("stopped")
	err := Under(ctx, h, func(ctx context.Context, _ *zkrecipes.Hold) error {
		cancel()
		return fmt.Errorf("%w: %w", stopped, ctx.Err())
	})
	require.ErrorIs(t, err, stopped)
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, zkrecipes.ErrLost)
}

// TestBoth_EndedByItsOwner: it ends with the given cause, and leaves nothing behind on a context that lives as long as
// the program.
func TestBoth_EndedByItsOwner(t *testing.T) {
	why := errors.New("why")
	process := bubble.Last(t.Context())
	ctx, end := Both(t.Context(), process)
	require.NoError(t, ctx.Err())
	require.Equal(t, 1, process.Waiting())
	end(why)
	require.Equal(t, why, context.Cause(ctx))
	require.Zero(t, process.Waiting())

	h, _ := zkrecipes.NewHold(t.Context(), proven{time.Now().Add(time.Minute)})
	require.NoError(t, Under(process, h, func(context.Context, *zkrecipes.Hold) error { return nil }))
	require.Zero(t, process.Waiting())
}

// TestDo_WithoutAFunction: nothing is acquired.
func TestDo_WithoutAFunction(t *testing.T) {
	acquire := func(context.Context) (*zkrecipes.Hold, error) {
		t.Error("acquired")
		return nil, errors.New("acquired")
	}
	require.ErrorContains(t, Do(t.Context(), acquire, nil), "the function is nil: want one")
}

// A function under a hold did not see the deadline of the caller's context, and got a cancellation when it passed.
func TestDo_CallersDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, h, _ := give(t, bubble.Dial(t, zktest.Run(t, zktest.InMemory()), "a"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := Under(ctx, h, func(inside context.Context, _ *zkrecipes.Hold) error {
			want, _ := ctx.Deadline()
			got, ok := inside.Deadline()
			require.True(t, ok)
			require.Equal(t, want, got)
			<-inside.Done()
			return inside.Err()
		})
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}
