package lifetime_test

import (
	"context"
	"errors"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/testkit/trial"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// An error that does not come from applying the request proves nothing about the session: the server may have given it
// up.
func TestLease_ErrorReplies_ProveNothing(t *testing.T) {
	for _, code := range []zktest.Code{
		zktest.CodeOperationTimeout, zktest.CodeMarshallingError, zktest.CodeThrottled, zktest.CodeSessionMoved,
	} {
		trial.Run(t, func(t *testing.T, srv *zktest.Server) {
			s := trial.Live(t, trial.Dial(t, srv))
			before := s.ValidUntil()
			time.Sleep(trial.Timeout * 3 / 4)
			srv.Intercept(zktest.Match{Op: zktest.OpSetData, Times: -1}, zktest.Fail(code))
			for range 2 {
				_, err := s.Set(trial.Within(t, time.Second), "/", nil, -1)
				require.Error(t, err)
			}
			require.Equal(t, before, s.ValidUntil(), "%v", code)
		})
	}
}

// Only a write that was applied shows that the server which resumed the session has not been replaced.
func TestLease_Resumed_RefusedWrite_ConfirmsNothing(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c := trial.Dial(t, srv)
		s := trial.Live(t, c)
		before := s.ValidUntil()
		time.Sleep(time.Second)
		trial.Reconnect(srv, c)
		require.ErrorIs(t, s.Delete(t.Context(), "/missing", -1), zk.ErrNoNode)
		require.Equal(t, before, s.ValidUntil())
		_, err := s.Create(t.Context(), "/there", nil, 0)
		require.NoError(t, err)
		require.True(t, s.ValidUntil().After(before))
	})
}

// While the losses of a session that has ended are being reported, its connection may still be up.
func TestSession_Over_SendsNothing(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c := trial.Dial(t, srv)
		s := trial.Live(t, c)
		sent, closed := trial.Requests(srv, zktest.OpDelete), trial.Requests(srv, zktest.OpCloseSession)
		started, told := false, make(chan struct{})
		_, ok := s.OnLoss(false, func(*zkrecipes.LostError) func() {
			started = s.StartDelete("/a", -1, func(error) {})
			time.Sleep(time.Second)
			close(told)
			return nil
		})
		require.True(t, ok)
		srv.Intercept(zktest.Match{Op: zktest.OpExists}, zktest.Fail(zktest.CodeSessionExpired))
		_, _, err := s.Exists(t.Context(), "/a")
		require.ErrorIs(t, err, zkrecipes.ErrLost)
		<-told
		require.False(t, started)
		require.Empty(t, sent.All())
		synctest.Wait()
		require.Empty(t, closed.All(), "the server said that it is over")
	})
}

// A connection that is opened while the client is being closed is not used, and no session is left behind.
func TestClose_DialThatSucceedsAfterwards_LeavesNoSession(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		free := make(chan struct{})
		dials := 0
		c := trial.Dial(t, srv, conn.WithDialer(func(_ context.Context, network, address string) (net.Conn, error) {
			if dials++; dials > 1 {
				<-free // it ignores its context
			}
			return srv.DialAs(trial.Label)(context.Background(), network, address)
		}))
		s := trial.Live(t, c)
		srv.Expire(s.ID())
		synctest.Wait()
		connects := trial.Requests(srv, zktest.OpConnect)
		time.AfterFunc(time.Second, func() { close(free) })
		require.NoError(t, c.Close())
		time.Sleep(time.Minute)
		require.Empty(t, connects.All())
		require.Empty(t, srv.Sessions())
		require.Zero(t, srv.Connections())
	})
}

// Nothing keeps the proof fresh, but the loss is still reported at the deadline.
func TestOnLoss_NothingRetained_IsToldAtTheDeadline(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		s := trial.Live(t, trial.Dial(t, srv))
		time.Sleep(5 * time.Second)
		until := s.ValidUntil()
		losses := trial.OnLoss(t, s, false)
		time.Sleep(trial.Timeout)
		require.Len(t, losses.All(), 1)
		require.Equal(t, until, losses.All()[0].At)
	})
}

// Credentials that were rejected once, and accepted later, are not to blame for the next outage.
func TestSession_CredentialsRefusedOnce_AreForgottenWhenTaken(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c := trial.Dial(t, srv, conn.WithAuth("digest", "a:b"))
		s := trial.Live(t, c)
		srv.Intercept(zktest.Match{Op: zktest.OpAuth}, zktest.Fail(zktest.CodeAuthFailed))
		srv.Cut(trial.Ours)
		<-s.Done()
		for {
			next, err := c.Session(trial.Within(t, time.Second))
			if err == nil && next.ID() != s.ID() {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
		srv.Expire(trial.Live(t, c).ID())
		srv.Refuse(trial.Ours)
		time.Sleep(2 * trial.Timeout)
		_, _, err := c.Get(trial.Within(t, time.Second), "/")
		require.False(t, errors.Is(err, zkrecipes.ErrAuthFailed), "%v", err)
		require.ErrorIs(t, err, trial.ErrTooLong)
		require.ErrorContains(t, err, syscall.ECONNREFUSED.Error())
	})
}
