package lifetime_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/testkit/trial"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// A reconnect is slow in each step of its handshake, and the session is ended from outside at any moment.
func TestSession_EndsAtAnyMomentOfAReconnect(t *testing.T) {
	for _, how := range []string{"close", "expire", "forge0", "forgeother", "badauth"} {
		for ms := range 40 {
			for _, dialDelay := range []time.Duration{0, 5 * time.Millisecond} {
				trial.Run(t, func(t *testing.T, srv *zktest.Server) {
					var dials atomic.Int32
					var slow atomic.Bool
					srv.Intercept(zktest.Match{Op: zktest.OpConnect, Times: -1}, zktest.HoldReply(4*time.Millisecond))
					var nth atomic.Int32
					read := func(frame []byte) {
						if len(frame) >= 40 && binary.BigEndian.Uint32(frame[4:]) == 0 && binary.BigEndian.Uint32(frame[20:]) == 16 {
							if nth.Add(1) == 2 {
								switch how {
								case "forge0":
									clear(frame[12:20])
								case "forgeother":
									frame[19]++
								}
							}
						}
						if how == "badauth" && len(frame) == 20 && int32(binary.BigEndian.Uint32(frame[4:])) == -4 && nth.Load() >= 2 {
							binary.BigEndian.PutUint32(frame[16:], uint32(0xffffff8d))
						}
					}
					dialer := func(ctx context.Context, network, address string) (net.Conn, error) {
						dials.Add(1)
						if slow.Load() && dialDelay > 0 {
							time.Sleep(dialDelay) // whatever ctx says
						}
						raw, err := srv.DialAs(trial.Label)(ctx, network, address)
						if err != nil {
							return nil, err
						}
						return &trial.Pipe{Conn: raw, OnRead: read}, nil
					}
					c, err := conn.Dial(t.Context(), "10.0.0.1,10.0.0.2", conn.WithSessionTimeout(trial.Timeout),
						conn.WithDialer(dialer),
						conn.WithAuth("digest", "a:b"), conn.WithAuth("digest", "c:d"))
					require.NoError(t, err)
					s := trial.Live(t, c)
					defer s.Retain()()
					slow.Store(true)
					srv.Cut(trial.Ours)
					time.Sleep(time.Duration(ms) * time.Millisecond / 2)
					switch how {
					case "close":
					case "expire":
						srv.Expire(s.ID())
						time.Sleep(30 * time.Second)
						require.Error(t, s.Err())
					default:
						time.Sleep(30 * time.Second)
						require.Error(t, s.Err())
					}
					if how != "close" && how != "badauth" {
						require.NoError(t, c.Sync(trial.Within(t, time.Second), "/"))
					}
					synctest.Wait()
					before := dials.Load()
					took := trial.After(func() { require.NoError(t, c.Close()) })
					require.LessOrEqual(t, took, time.Second, fmt.Sprint(how, ms))
					time.Sleep(time.Hour)
					require.LessOrEqual(t, dials.Load(), before+1)
				})
			}
		}
	}
}

// Close during the handshake of a resumption asked about unused containers before it had authenticated. The handshake
// took the answers for its own and failed, so the session was not closed.
func TestClose_DuringAHandshake_OnlyClosesTheSession(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c, err := conn.Dial(t.Context(), srv.Addr(), conn.WithSessionTimeout(trial.Timeout),
			conn.WithDialer(srv.DialAs(trial.Label)), conn.WithAuth("digest", "a:b"))
		require.NoError(t, err)
		m, err := mutex.New(c, "/locks/a")
		require.NoError(t, err)
		srv.Intercept(zktest.Match{Op: zktest.OpCreate, Path: "lock-", Skip: 1}, zktest.DropReply()) // the first finds no parent
		connects := srv.Intercept(zktest.Match{Op: zktest.OpConnect, Times: -1}, zktest.HoldReply(4*time.Millisecond))
		exists := trial.Requests(srv, zktest.OpExists)
		go func() { _, _ = m.Lock(t.Context()) }()
		for connects.Hits() == 0 {
			time.Sleep(time.Millisecond)
		}
		require.NoError(t, c.Close())
		require.Empty(t, exists.All())
		require.Empty(t, srv.Sessions())
	})
}

// While a loss callback ran for longer than the session timeout, the session's goroutine used to spin.
func TestEnd_ACallbackTakesLong_TheHeartbeatWaits(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		s := trial.Live(t, trial.Dial(t, srv))
		_, ok := s.OnLoss(false, func(*zkrecipes.LostError) func() { time.Sleep(2 * trial.Timeout); return nil })
		require.True(t, ok)
		srv.Expire(s.ID())
		<-s.Done() // virtual time doesn't pass while a goroutine is busy
	})
}
