package session_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// An error that does not come from applying the request says nothing of the session: the server may have given it up.
func TestLease_ErrorReplies_ProveNothing(t *testing.T) {
	for _, code := range []zktest.Code{zktest.CodeOperationTimeout, zktest.CodeMarshallingError, zktest.CodeThrottled, zktest.CodeSessionMoved} {
		bubble(t, func(t *testing.T, srv *zktest.Server) {
			s := live(t, dial(t, srv))
			before := s.ValidUntil()
			time.Sleep(timeout * 3 / 4)
			srv.Intercept(zktest.Match{Op: zktest.OpSetData, Times: -1}, zktest.Fail(code))
			for range 2 {
				_, err := s.Set(within(t, time.Second), "/", nil, -1)
				require.Error(t, err)
			}
			require.Equal(t, before, s.ValidUntil(), "%v", code)
		})
	}
}

// Only a write that was applied shows that the server which resumed the session is not one that has been replaced.
func TestLease_Resumed_RefusedWrite_ConfirmsNothing(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := dial(t, srv)
		s := live(t, c)
		before := s.ValidUntil()
		time.Sleep(time.Second)
		reconnect(srv, c)
		require.ErrorIs(t, s.Delete(t.Context(), "/missing", -1), zk.ErrNoNode)
		require.Equal(t, before, s.ValidUntil())
		_, err := s.Create(t.Context(), "/there", nil, 0)
		require.NoError(t, err)
		require.True(t, s.ValidUntil().After(before))
	})
}

// While the losses of a session that is over are being told, its connection may still be up.
func TestSession_Over_SendsNothing(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := dial(t, srv)
		s := live(t, c)
		sent, closed := requests(srv, zktest.OpDelete), requests(srv, zktest.OpCloseSession)
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
		require.Empty(t, sent.all())
		synctest.Wait()
		require.Empty(t, closed.all(), "the server said that it is over")
	})
}

// A connection that is given while the client is closed is not used, and no session is left behind.
func TestClose_DialThatSucceedsAfterwards_LeavesNoSession(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		free := make(chan struct{})
		dials := 0
		c := dial(t, srv, conn.WithDialer(func(_ context.Context, network, address string) (net.Conn, error) {
			if dials++; dials > 1 {
				<-free // it does not care for its context
			}
			return srv.DialAs(label)(context.Background(), network, address)
		}))
		s := live(t, c)
		srv.Expire(s.ID())
		synctest.Wait()
		connects := requests(srv, zktest.OpConnect)
		time.AfterFunc(time.Second, func() { close(free) })
		require.NoError(t, c.Close())
		time.Sleep(time.Minute)
		require.Empty(t, connects.all())
		require.Empty(t, srv.Sessions())
		require.Zero(t, srv.Connections())
	})
}

// Nothing keeps the proof fresh, and the loss is told at the deadline all the same.
func TestOnLoss_NothingRetained_IsToldAtTheDeadline(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		s := live(t, dial(t, srv))
		time.Sleep(5 * time.Second)
		until := s.ValidUntil()
		losses := onLoss(t, s, false)
		time.Sleep(timeout)
		require.Len(t, losses.all(), 1)
		require.Equal(t, until, losses.all()[0].at)
	})
}

// Credentials that were refused once, and taken later, are not what is wrong with the next outage.
func TestSession_CredentialsRefusedOnce_AreForgottenWhenTaken(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := dial(t, srv, conn.WithAuth("digest", "a:b"))
		s := live(t, c)
		srv.Intercept(zktest.Match{Op: zktest.OpAuth}, zktest.Fail(zktest.CodeAuthFailed))
		srv.Cut(ours)
		<-s.Done()
		for {
			next, err := c.Session(within(t, time.Second))
			if err == nil && next.ID() != s.ID() {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
		srv.Expire(live(t, c).ID())
		srv.Refuse(ours)
		time.Sleep(2 * timeout)
		_, _, err := c.Get(within(t, time.Second), "/")
		require.False(t, errors.Is(err, conn.ErrAuthFailed), "%v", err)
		require.ErrorIs(t, err, errTooLong)
		require.ErrorContains(t, err, "connection refused")
	})
}
