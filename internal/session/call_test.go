package session_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/testkit/trial"

	"github.com/cenkalti/backoff/v4"
	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func TestCalls_DeadContext_SendNothing(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		s := trial.Live(t, trial.Dial(t, srv))
		sent := srv.Intercept(zktest.Match{From: trial.Ours, Times: -1}, zktest.Proceed())
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(trial.ErrTooLong)
		for range 10 {
			for op, err := range trial.EverythingIn(ctx, s) {
				require.ErrorIs(t, err, trial.ErrTooLong, op)
			}
		}
		require.Zero(t, sent.Hits())
	})
}

// The session ends before the server has answered, or has even received the request. Calls return the reason, and
// writes that were sent are in doubt.
func TestCalls_SessionEndsFirst_SayWhy(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c := trial.Dial(t, srv, conn.WithDialer(trial.Tight(srv)))
		s := trial.Live(t, c)
		sent, queued := make(chan error, 1), make(chan error, 1)
		require.True(t, s.StartDelete("/a", -1, func(err error) { sent <- err }))
		synctest.Wait() // it is being written
		require.True(t, s.StartDelete("/a", -1, func(err error) { queued <- err }))
		read, written := make(chan error, 1), make(chan error, 1)
		go func() { _, _, err := s.Get(t.Context(), "/a"); read <- err }()
		go func() { _, err := s.Set(t.Context(), "/a", nil, -1); written <- err }()
		synctest.Wait()
		require.NoError(t, c.Close())
		for call, inDoubt := range map[chan error]bool{sent: true, queued: false, read: false, written: true} {
			err := <-call
			require.ErrorIs(t, err, zkrecipes.ErrClosed)
			require.Equal(t, inDoubt, errors.Is(err, zkrecipes.ErrUnknownOutcome), "%v", err)
		}
	})
}

// While the losses of a session are being reported and there is no connection, its calls fail immediately.
func TestCalls_SessionOver_FailAtOnce(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c := trial.Dial(t, srv)
		s := trial.Live(t, c)
		took := make(chan time.Duration, 1)
		_, ok := s.OnLoss(false, func(*zkrecipes.LostError) func() {
			var err error
			took <- trial.After(func() { err = s.Sync(t.Context(), "/") })
			require.ErrorIs(t, err, zkrecipes.ErrClosed)
			return nil
		})
		require.True(t, ok)
		trial.CutOff(srv, trial.Ours)
		synctest.Wait()
		require.NoError(t, c.Close())
		require.Zero(t, <-took)
	})
}

type incomparable struct {
	error
	_ []int
}

func (e incomparable) Unwrap() error { return e.error }

// The cause of a context may be the error of another call, as with an errgroup. It does not apply to this call.
func TestCalls_CauseOfTheContextIsAnotherError_WriteIsInDoubt(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c := trial.Dial(t, srv)
		s := trial.Live(t, c)
		srv.Intercept(zktest.Match{Op: zktest.OpCreate}, zktest.Fail(zktest.CodeThrottled))
		creation, err := s.StartCreate(t.Context(), "/a", nil, 0, 1, nil)
		require.NoError(t, err)
		_, _, other := s.FinishCreate(t.Context(), creation)
		require.True(t, session.NotExecuted(other))

		ctx, cancel := context.WithCancelCause(t.Context())
		srv.Intercept(zktest.Match{Op: zktest.OpSetData}, zktest.Ignore())
		time.AfterFunc(time.Second, func() { cancel(other) })
		_, err = s.Set(ctx, "/", nil, -1)
		require.ErrorIs(t, err, zkrecipes.ErrUnknownOutcome)
		require.ErrorIs(t, err, other)
		require.False(t, session.NotExecuted(err))

		ctx, cancel = context.WithCancelCause(t.Context())
		cancel(fmt.Errorf("another: %w", &zkrecipes.OpError{Op: "get", Path: "/b", Err: zk.ErrNoNode}))
		for op, err := range trial.Everything(ctx, c) {
			require.ErrorIs(t, err, context.Cause(ctx), op)
			require.ErrorContains(t, err, "get /b: zk: node does not exist", op)
			require.NotErrorIs(t, err, zk.ErrNoNode, op)
		}

		ctx, cancel = context.WithCancelCause(t.Context())
		cancel(incomparable{error: other})
		err = c.Sync(ctx, "/")
		require.NotPanics(t, func() { require.NotErrorIs(t, err, context.Cause(ctx)) }, "== would panic")
	})
}

// A server that sheds load for long gets fewer and fewer requests, and a call continues soon after the server recovers.
func TestCalls_ServerShedsLoad_PausesGrow(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		s := trial.Live(t, trial.Dial(t, srv))
		shed := srv.Intercept(zktest.Match{Op: zktest.OpSetData, Times: -1}, zktest.Fail(zktest.CodeThrottled))
		time.AfterFunc(time.Minute, shed.Remove)
		began := time.Now()
		_, err := s.Set(t.Context(), "/", nil, -1)
		require.NoError(t, err)
		require.LessOrEqual(t, time.Since(began), time.Minute+3*time.Second/2,
			"the longest pause is half longer than a second")
		require.Less(t, shed.Hits(), 90)
	})
}

// A server may answer at once that a request has timed out. Reads used to be repeated every 10 ms then.
func TestCalls_ServerTimesThemOut_PausesGrow(t *testing.T) {
	for _, code := range []zktest.Code{zktest.CodeOperationTimeout, -122} {
		trial.Run(t, func(t *testing.T, srv *zktest.Server) {
			s := trial.Live(t, trial.Dial(t, srv))
			late := srv.Intercept(zktest.Match{Op: zktest.OpGetData, Times: -1}, zktest.Fail(code))
			time.AfterFunc(time.Minute, late.Remove)
			_, _, err := s.Get(t.Context(), "/")
			require.NoError(t, err)
			require.Less(t, late.Hits(), 90)
		})
	}
}

// Each connection is lost while the call waits for its answer. The time to connect is pause enough.
func TestCalls_ConnectionsLost_PausesDoNotGrow(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		s := trial.Live(t,
			trial.Dial(t, srv,
				conn.WithBackOff(func() conn.BackOff { return backoff.NewConstantBackOff(10 * time.Millisecond) })))
		srv.Intercept(zktest.Match{Op: zktest.OpGetData, Times: 10}, zktest.DropRequest())
		began := time.Now()
		_, _, err := s.Get(t.Context(), "/")
		require.NoError(t, err)
		require.LessOrEqual(t, time.Since(began), time.Second)
	})
}

// A context ends before a call is repeated: the error includes why that was necessary.
func TestCalls_ContextEndsBeforeTheyAreRepeated_SayWhatWasInTheWay(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		s := trial.Live(t, trial.Dial(t, srv))
		srv.Intercept(zktest.Match{Op: zktest.OpSetData, Times: -1}, zktest.Fail(zktest.CodeThrottled))
		_, err := s.Set(trial.Within(t, 995*time.Millisecond), "/", nil, -1)
		require.ErrorIs(t, err, trial.ErrTooLong)
		require.ErrorIs(t, err, zkrecipes.CodeThrottled)
		require.NotErrorIs(t, err, zkrecipes.ErrUnknownOutcome)
	})
}
