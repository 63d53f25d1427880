package lifetime_test

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/testkit/trial"

	"github.com/cenkalti/backoff/v4"
	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	kit "github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// The servers grant far less than requested. The bound of one attempt is derived from what they grant, otherwise one
// silent server of three would cost the session.
func TestReconnect_SilentServer_BoundIsThatOfTheGrantedTimeout(t *testing.T) {
	t.Parallel()
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		board := trial.NewSwitchboard(srv.DialAs(trial.Label))
		c := trial.DialTo(t, "10.0.0.1,10.0.0.2,10.0.0.3", conn.WithDialer(board.Dial),
			conn.WithSessionTimeout(5*time.Minute))
		s := trial.Live(t, c)
		require.Equal(t, 40*time.Second, s.Timeout(), "20 ticks are the most")
		for range 2 {
			_, err := c.Create(t.Context(), "/held", nil, zk.FlagEphemeral)
			require.NoError(t, err)
			silentOnce(board, srv)
			srv.Cut(trial.Ours)
			synctest.Wait()
			require.LessOrEqual(t, trial.After(func() { require.NoError(t, s.Sync(t.Context(), "/")) }),
				s.Timeout()/6+time.Second)
			require.NoError(t, s.Err(), "the same session")
			require.NoError(t, c.Delete(t.Context(), "/held", -1))
		}
		srv.Expire(s.ID()) // the next session knows what to expect
		<-s.Done()
		s = trial.Live(t, c)
		srv.Expire(s.ID())
		silentOnce(board, srv)
		require.LessOrEqual(t, trial.After(func() { <-s.Done(); trial.Live(t, c) }), s.Timeout()/6+time.Second)
	})
}

// silentOnce makes the next dial lead to a server that accepts and does not answer.
func silentOnce(board *trial.Switchboard, srv *zktest.Server) {
	board.Connect(func(context.Context, string, string) (net.Conn, error) {
		board.Connect(srv.DialAs(trial.Label))
		return trial.Silent(), nil
	})
}

// A server that hangs up when it is asked to close an old session may not have closed it, so the next one is asked.
func TestOrphan_ServerHangsUp_TheNextIsAsked(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"before it answers", "in the middle of an answer", "after it has resumed the session",
		"after an answer that cannot be read", "after it has resumed the session, and an answer that cannot be read",
		"after it has resumed the session, and an error",
		"after it has resumed the session, and an answer to another request",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			trial.Run(t, func(t *testing.T, srv *zktest.Server) {
				var closing atomic.Int32
				board := trial.NewSwitchboard(srv.DialAs(trial.Label))
				c := trial.DialTo(t, "10.0.0.1,10.0.0.2", conn.WithDialer(board.Dial))
				s := trial.Live(t, c)
				_, err := c.Create(t.Context(), "/e", nil, zk.FlagEphemeral)
				require.NoError(t, err)
				srv.Down()
				<-s.Done()
				board.Connect(func(ctx context.Context, network, address string) (net.Conn, error) {
					raw, err := srv.DialAs(trial.Label)(ctx, network, address)
					if err != nil || c.Status().State != zkrecipes.Connected || closing.Add(1) > 1 {
						return raw, err
					}
					near, far := net.Pipe()
					go func() {
						defer func() { _ = raw.Close() }()
						defer func() { _ = far.Close() }()
						request := make([]byte, 49)
						_, _ = io.ReadFull(far, request)
						switch name {
						case "before it answers":
						case "in the middle of an answer":
							go func() { _, _ = io.Copy(io.Discard, far) }()
							_, _ = far.Write(binary.BigEndian.AppendUint32(nil, 37))
						case "after an answer that cannot be read":
							go func() { _, _ = io.Copy(io.Discard, far) }()
							_, _ = far.Write([]byte{0, 0, 0, 4, 0, 0, 0, 42})
						default:
							go func() { _, _ = io.Copy(io.Discard, far) }()
							_, _ = raw.Write(request)
							answer := make([]byte, 41)
							n, _ := io.ReadFull(raw, answer)
							_, _ = far.Write(answer[:n])
							switch {
							case strings.HasSuffix(name, "cannot be read"):
								_, _ = far.Write([]byte{0, 0, 0, 4, 0, 0, 0, 1})
							case strings.HasSuffix(name, "error"):
								_, _ = far.Write(kit.Frame([]byte{3: 1, 12: 0xff, 0xff, 0xff, 0xfc}))
							case strings.HasSuffix(name, "another request"):
								_, _ = far.Write(kit.Frame([]byte{3: 2, 15: 0}))
							}
						}
					}()
					return near, nil
				})
				srv.Up()
				trial.Live(t, c)
				synctest.Wait()
				require.Equal(t, int32(2), closing.Load(), "one after the other")
				require.False(t, srv.Exists("/e"))
				require.Len(t, srv.Sessions(), 1)
			})
		})
	}
}

// A session whose credentials are rejected is closed on the server that gave it.
func TestSession_CredentialsRefused_LeavesNoneBehind(t *testing.T) {
	t.Parallel()
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		refuse := srv.Intercept(zktest.Match{Op: zktest.OpAuth, Times: -1}, zktest.Fail(zktest.CodeAuthFailed))
		_, err := conn.Dial(t.Context(), srv.Addr(), conn.WithDialer(srv.DialAs(trial.Label)), conn.WithAuth("digest", "u:p"))
		require.ErrorIs(t, err, zkrecipes.ErrAuthFailed)
		require.Empty(t, srv.Sessions())

		refuse.Remove()
		c := trial.Dial(t, srv, conn.WithAuth("digest", "u:p"))
		_, err = c.Create(t.Context(), "/e", nil, zk.FlagEphemeral)
		require.NoError(t, err)
		srv.Intercept(zktest.Match{Op: zktest.OpAuth, Times: 1}, zktest.Fail(zktest.CodeAuthFailed))
		s := trial.Live(t, c)
		srv.Cut(trial.Ours)
		<-s.Done()
		synctest.Wait()
		require.False(t, srv.Exists("/e"), "its nodes go at once")
	})
}

// A policy that returns Stop does not mean that servers are dialed without a pause.
func TestReconnect_BackOffThatSaysStop_IsPaced(t *testing.T) {
	t.Parallel()
	for name, policy := range map[string]func() conn.BackOff{
		"always":   func() conn.BackOff { return &backoff.StopBackOff{} },
		"at times": func() conn.BackOff { return backoff.WithMaxRetries(backoff.NewConstantBackOff(time.Second), 2) },
		"negative": func() conn.BackOff { return backoff.NewConstantBackOff(-time.Second) }, // like Stop
		"nil later": func() func() conn.BackOff { // like Stop
			var calls atomic.Int32
			return func() conn.BackOff {
				if calls.Add(1) > 1 {
					return nil
				}
				return &backoff.StopBackOff{}
			}
		}(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			trial.Run(t, func(t *testing.T, srv *zktest.Server) {
				board := trial.NewSwitchboard(func(context.Context, string, string) (net.Conn, error) { return nil, net.ErrClosed })
				ctx := trial.Within(t, time.Minute)
				_, err := conn.Dial(ctx, srv.Addr(), conn.WithDialer(board.Dial), conn.WithBackOff(policy))
				require.ErrorIs(t, err, trial.ErrTooLong)
				require.LessOrEqual(t, int(board.Dials.Load()), 61)
				require.GreaterOrEqual(t, int(board.Dials.Load()), 12, "and it goes on trying")
			})
		})
	}
}

// A connection without a buffer must not make a call wait for the server beyond its context.
func TestRequests_ConnectionWithoutABuffer_CallsReturnWithTheirContext(t *testing.T) {
	t.Parallel()
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c := trial.DialTo(t, srv.Addr(), conn.WithDialer(trial.Tight(srv)))
		s := trial.Live(t, c)
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			require.LessOrEqual(t, trial.After(func() {
				_, _, err := s.Get(ctx, "/a")
				require.ErrorIs(t, err, context.DeadlineExceeded)
			}), 100*time.Millisecond)
			require.Zero(t, trial.After(func() { s.StartDelete("/a", -1, func(error) {}) }))
			cancel()
		}
		require.LessOrEqual(t, trial.After(func() { require.NoError(t, c.Close()) }), time.Second)
	})
}

// A dialer that breaks its contract gets an error that reports this.
func TestDial_DialerReturnsNothing_IsSaid(t *testing.T) {
	t.Parallel()
	for _, opt := range []conn.Option{trial.EverySecond, conn.WithTLS(&tls.Config{MinVersion: tls.VersionTLS12})} {
		trial.Run(t, func(t *testing.T, srv *zktest.Server) {
			_, err := conn.Dial(trial.Within(t, time.Second), srv.Addr(), opt, conn.WithDialer(
				func(context.Context, string, string) (net.Conn, error) { return nil, nil })) //nolint:nilnil // the case to test
			require.ErrorContains(t, err, "neither a connection nor an error")
		})
	}
}

func TestDial_ServerReachedAfterTheEnd_GetsNoRequest(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		reached := make(chan struct{})
		slow := func(_ context.Context, network, address string) (net.Conn, error) {
			<-reached
			return srv.DialAs(trial.Label)(context.Background(), network, address)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := conn.Dial(ctx, srv.Addr(), conn.WithDialer(slow))
			ended <- err
		}()
		synctest.Wait()
		cancel()
		synctest.Wait()
		connects := trial.Requests(srv, zktest.OpConnect)
		close(reached)
		require.ErrorIs(t, <-ended, context.Canceled)
		synctest.Wait()
		require.Empty(t, connects.All())
		require.Empty(t, srv.Sessions())
	})
}

// A server that ends each new session immediately is named, together with what it does.
func TestDial_ServerExpiresEachNewSession_IsSaid(t *testing.T) {
	t.Parallel()
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		srv.Intercept(zktest.Match{Op: zktest.OpConnect, Times: -1}, zktest.Fail(zktest.CodeSessionExpired))
		_, err := conn.Dial(trial.Within(t, time.Minute), srv.Addr(), conn.WithDialer(srv.DialAs(trial.Label)))
		require.ErrorIs(t, err, trial.ErrTooLong)
		require.NotErrorIs(t, err, zkrecipes.ErrLost)
		require.ErrorContains(t, err, "(connect to "+srv.Addr()+": the server ended the new session immediately)")
	})
}

// A server that ends each session at its first request is named to a call that waits for the next session.
func TestRead_ServerExpiresEachSession_IsSaid(t *testing.T) {
	t.Parallel()
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c := trial.Dial(t, srv, trial.EverySecond)
		srv.Intercept(zktest.Match{Op: zktest.OpGetData, Times: -1}, zktest.Fail(zktest.CodeSessionExpired))
		_, _, err := c.Get(trial.Within(t, 3500*time.Millisecond), "/a")
		require.ErrorIs(t, err, trial.ErrTooLong)
		require.ErrorContains(t, err, "(connection to "+srv.Addr()+": the session has expired)")
	})
}
