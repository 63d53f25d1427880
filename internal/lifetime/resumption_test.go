package lifetime_test

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/testkit/trial"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// grantsLess makes the server grant ms to every resumed session, like a server whose maximum was lowered at a restart.
func grantsLess(ms uint32) trial.Pipe {
	return trial.Pipe{OnWrite: func(b []byte) {
		if len(b) == 49 && binary.BigEndian.Uint32(b) == 45 && binary.BigEndian.Uint64(b[20:]) != 0 {
			binary.BigEndian.PutUint32(b[16:], ms)
		}
	}}
}

// resumeInVain cuts the connection of an old session. The server resumes the session, and its answer never arrives. It
// returns once the client has requested that, after the end of the session.
func resumeInVain(srv *zktest.Server, s *session.Session) (asked time.Time) {
	time.Sleep(30 * time.Second)
	connects := trial.Requests(srv, zktest.OpConnect)
	srv.Intercept(zktest.Match{Op: zktest.OpConnect}, zktest.HoldReply(time.Hour))
	srv.Intercept(zktest.Match{Op: zktest.OpConnect, Times: -1}, zktest.DropRequest())
	srv.Cut(trial.Ours)
	<-s.Done()
	return connects.All()[0].At
}

// A session of 20 s is resumed by a server that grants 4 s, and that answer never arrives. The server applies the 4 s.
func TestLease_ResumedWithAShorterTimeoutAndNoAnswer_EndsBeforeTheSession(t *testing.T) {
	tests := map[string]struct {
		opts []conn.Option
		left time.Duration // after the connect request
	}{
		"what the server grants": {[]conn.Option{conn.WithLeastTimeout(4 * time.Second)}, 4000 * time.Millisecond},
		"less":                   {[]conn.Option{conn.WithLeastTimeout(2 * time.Second)}, 2000 * time.Millisecond},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			trial.Run(t, func(t *testing.T, srv *zktest.Server) {
				opts := slices.Concat(tt.opts,
					[]conn.Option{conn.WithSessionTimeout(20 * time.Second), trial.Through(srv, grantsLess(4000))})
				c := trial.Dial(t, srv, opts...)
				_, err := c.Create(t.Context(), "/held", nil, zk.FlagEphemeral)
				require.NoError(t, err)
				s := trial.Live(t, c)
				defer s.Retain()()
				losses := trial.OnLoss(t, s, false)
				asked := resumeInVain(srv, s)
				require.Len(t, losses.All(), 1)
				require.Equal(t, asked.Add(tt.left-tt.left/20), losses.All()[0].At)
				time.Sleep(time.Minute)
				require.True(t, losses.All()[0].At.Before(expiry(t, srv, s.ID())), "before the server ends the session")
			})
		})
	}
}

// A follower requests the leader to resume the session, and loses the leader before the answer arrives. Then it closes
// the connection in an orderly way, and the leader applies what the follower grants. An end without an answer therefore
// leaves the doubt, like a reset.
func TestLease_ResumptionThatEndsWithoutAnAnswer_IsNotTakenBack(t *testing.T) {
	for name, end := range map[string]error{"in order": io.EOF, "by a reset": syscall.ECONNRESET} {
		t.Run(name, func(t *testing.T) {
			trial.Run(t, func(t *testing.T, srv *zktest.Server) {
				c := trial.Dial(t, srv, conn.WithLeastTimeout(4*time.Second), conn.WithSessionTimeout(20*time.Second),
					conn.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
						raw, err := srv.DialAs(trial.Label)(ctx, network, address)
						if err != nil {
							return nil, err
						}
						return trial.Ending{Conn: &trial.Pipe{Conn: raw, OnWrite: grantsLess(4000).OnWrite}, End: end}, nil
					}))
				s := trial.Live(t, c)
				defer s.Retain()()
				losses := trial.OnLoss(t, s, false)
				time.Sleep(30*time.Second + time.Millisecond) // between two syncs
				connects := trial.Requests(srv, zktest.OpConnect)
				srv.Intercept(zktest.Match{Op: zktest.OpConnect}, zktest.DropReply())
				srv.Intercept(zktest.Match{Op: zktest.OpConnect, Times: -1}, zktest.DropRequest())
				srv.Cut(trial.Ours)
				<-s.Done()
				require.Len(t, losses.All(), 1)
				require.Equal(t, connects.All()[0].At.Add(3800*time.Millisecond), losses.All()[0].At)
				time.Sleep(time.Minute)
				require.True(t, losses.All()[0].At.Before(expiry(t, srv, s.ID())), "before the server ends the session")
			})
		})
	}
}

// A server that has just started, or a proxy in front of one, takes long to answer.
func TestLease_ResumptionThatIsAnsweredLate_CostsNothing(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		s := trial.Live(t, trial.Dial(t, srv, conn.WithSessionTimeout(20*time.Second)))
		defer s.Retain()()
		losses := trial.OnLoss(t, s, false)
		time.Sleep(30*time.Second + time.Millisecond) // between two syncs
		until := s.ValidUntil()
		srv.Intercept(zktest.Match{Op: zktest.OpConnect}, zktest.HoldReply(3*time.Second))
		srv.Cut(trial.Ours)
		time.Sleep(2 * time.Second)
		require.Equal(t, until, s.ValidUntil())
		time.Sleep(time.Minute)
		require.Empty(t, losses.All())
	})
}

// The next answer shows what is granted, and then the old proof counts again.
func TestLease_ResumedAfterOneWithoutAnAnswer_CountsAsBefore(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c := trial.Dial(t, srv, conn.WithConnectTimeout(500*time.Millisecond), conn.WithLeastTimeout(time.Second))
		s := trial.Live(t, c)
		defer s.Retain()()
		losses := trial.OnLoss(t, s, false)
		time.Sleep(30 * time.Second)
		before := s.ValidUntil()
		srv.Intercept(zktest.Match{Op: zktest.OpConnect}, zktest.HoldReply(time.Hour))
		srv.Cut(trial.Ours)
		time.Sleep(100 * time.Millisecond)
		require.True(t, s.ValidUntil().Before(before), "what it was granted is not known")
		for c.Status().State != zkrecipes.Connected {
			time.Sleep(time.Millisecond)
		}
		require.False(t, s.ValidUntil().Before(before))
		require.Empty(t, losses.All())
		time.Sleep(time.Minute)
		require.NoError(t, s.Err())
	})
}

// A session created with 10 s is resumed by a server that grants no less than 60 s.
func TestLease_ResumedWithAMuchLongerTimeout_IsProvenOrEnds(t *testing.T) {
	longer := func(srv *zktest.Server) conn.Option {
		var id atomic.Uint64
		return trial.Through(srv, trial.ConnectReplies(func(n int32, frame []byte) {
			if session := binary.BigEndian.Uint64(frame[12:]); n == 1 {
				id.Store(session)
			} else if session == id.Load() {
				binary.BigEndian.PutUint32(frame[8:], 60_000)
			}
		}))
	}
	t.Run("tick unknown", func(t *testing.T) {
		trial.Run(t, func(t *testing.T, srv *zktest.Server) {
			c := trial.Dial(t, srv, longer(srv))
			s := trial.Live(t, c)
			srv.Cut(trial.Ours)
			<-s.Done()
			var why *zkrecipes.LostError
			require.ErrorAs(t, s.Err(), &why)
			require.Equal(t, zkrecipes.LossDeadline, why.Reason)
			require.ErrorContains(t, why, "10s was resumed with 1m0s")
			next := trial.Live(t, c)
			require.NotEqual(t, s.ID(), next.ID())
			require.NoError(t, next.Prove(trial.Within(t, trial.Timeout)))
			require.Eventually(t, func() bool { return len(srv.Sessions()) == 1 }, trial.Timeout, time.Second,
				"the old one is closed")
		})
	})
	t.Run("tick known", func(t *testing.T) {
		trial.Run(t, func(t *testing.T, srv *zktest.Server) {
			c := trial.Dial(t, srv, longer(srv), conn.WithTickTime(2*time.Second))
			s := trial.Live(t, c)
			srv.Cut(trial.Ours)
			time.Sleep(time.Second)
			require.NoError(t, s.Prove(trial.Within(t, trial.Timeout)))
			defer s.Retain()()
			losses := trial.OnLoss(t, s, false)
			time.Sleep(10 * time.Minute)
			require.Empty(t, losses.All())
			srv.Stall(trial.Ours, zktest.Both)
			time.Sleep(trial.Timeout / 2)
			// A quarter of the least timeout decides, not of the newest.
			require.ErrorContains(t, c.Status().LastError, "no answer to a sync for 2.5s")
		})
	})
}
