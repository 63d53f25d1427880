package lifetime_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
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
	"github.com/zkrecipes/zkrecipes/internal/session"
	kit "github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Replies to waiting requests advance the zxid before the watches are set again. Every watch fires nevertheless.
func TestReconnect_ManyWatchesAndWaitingWrites_NoWatchIsLost(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		const watches = 3000
		s := trial.Live(t, trial.Dial(t, srv))
		path := func(i int) string { return fmt.Sprintf("/%s-%d", strings.Repeat("x", 90), i) }
		var set []*session.Watch
		for i := range watches {
			trial.Create(t, srv, path(i), "")
			_, _, w, err := s.GetW(t.Context(), path(i))
			require.NoError(t, err)
			set = append(set, w)
		}
		for range 3 {
			trial.CutOff(srv, trial.Ours)
			synctest.Wait()
			for i := range watches {
				require.NoError(t, srv.Set(path(i), nil))
			}
			var wg sync.WaitGroup
			for i := range 16 {
				wg.Go(func() { _, _ = s.Create(t.Context(), fmt.Sprintf("/w-%d-", i), nil, zk.FlagSequence) })
			}
			synctest.Wait()
			srv.Accept(trial.Ours)
			time.Sleep(2 * time.Second)
			wg.Wait()
			for i, w := range set {
				require.True(t, w.HasFired(), "the watch on node %d of %d is lost", i, watches)
				_, _, again, err := s.GetW(t.Context(), path(i))
				require.NoError(t, err)
				set[i] = again
			}
		}
		require.NoError(t, s.Err())
	})
}

// A server that accepts a connection and sends nothing, or half an answer, delays a reconnect only by the connect
// timeout.
func TestReconnect_ServerThatNeverAnswers_DelaysTheNextByTheConnectTimeout(t *testing.T) {
	for name, greeting := range map[string][]byte{
		"nothing": nil, "four bytes": {0, 0, 0, 37}, "half an answer": {0, 0, 0, 37, 0, 0, 0, 0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			trial.Run(t, func(t *testing.T, srv *zktest.Server) {
				const bound = 1500 * time.Millisecond
				first := func(b *trial.Switchboard) conn.DialFunc { // to a tarpit the first time
					return func(context.Context, string, string) (net.Conn, error) {
						b.Connect(srv.DialAs(trial.Label))
						return trial.Silent(greeting...), nil
					}
				}
				board := trial.NewSwitchboard(nil)
				board.Connect(first(board))
				var c *conn.Client
				require.Equal(t, bound, trial.After(func() {
					c = trial.DialTo(t, "10.0.0.1,10.0.0.2", conn.WithDialer(board.Dial), conn.WithConnectTimeout(bound))
				}))
				s := trial.Live(t, c)
				time.Sleep(time.Minute)
				board.Connect(first(board))
				srv.Cut(trial.Ours)
				synctest.Wait()
				require.Equal(t, zkrecipes.Suspended, c.Status().State)
				require.Equal(t, bound, trial.After(func() { require.NoError(t, s.Sync(t.Context(), "/")) }))
				require.NoError(t, s.Err(), "same session")

				board.Connect(func(context.Context, string, string) (net.Conn, error) { return trial.Silent(greeting...), nil })
				srv.Cut(trial.Ours)
				// It ends locally, because no answer arrived.
				<-s.Done()
				require.LessOrEqual(t, trial.After(func() { require.NoError(t, c.Close()) }), time.Second)
			})
		})
	}
}

// A server with wiped data hangs up on every attempt to resume the session, so the session ends here.
func TestReconnect_ServerWiped_ANewSessionIsOpened(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		board := trial.NewSwitchboard(srv.DialAs(trial.Label))
		c := trial.DialTo(t, srv.Addr(), conn.WithDialer(board.Dial))
		s := trial.Live(t, c)
		for range 10 {
			_, err := c.Create(t.Context(), "/n-", nil, zk.FlagSequence)
			require.NoError(t, err)
		}
		time.Sleep(time.Second) // session ids are derived from the time
		require.NoError(t, s.Sync(t.Context(), "/"))
		heard := time.Now()
		wiped := zktest.Run(t, zktest.InMemory())
		board.Connect(wiped.DialAs(trial.Label))
		srv.Down()
		<-s.Done()
		require.Equal(t, trial.Timeout, time.Since(heard))
		var lost *zkrecipes.LostError
		require.ErrorAs(t, s.Err(), &lost)
		require.Equal(t, zkrecipes.LossDeadline, lost.Reason)
		_, err := c.Create(t.Context(), "/n", nil, 0)
		require.NoError(t, err)
		require.LessOrEqual(t, time.Since(heard), trial.Timeout+5*time.Second)
		require.True(t, wiped.Exists("/n"))
		require.Less(t, int(board.Dials.Load()), 40, "paced")
	})
}

// Credentials are sent on every connection, before any request. If the connection is cut in the meantime, the next one
// sends them.
func TestAuth_IsSentOnEveryConnection(t *testing.T) {
	for name, fault := range map[string]zktest.Action{
		"served": zktest.Proceed(), "cut before": zktest.DropRequest(), "cut after": zktest.DropReply(),
	} {
		t.Run(name, func(t *testing.T) {
			trial.Run(t, func(t *testing.T, srv *zktest.Server) {
				c := trial.Dial(t, srv, conn.WithAuth("digest", "u:p"), conn.WithAuth("digest", "v:q"),
					conn.WithACL(zk.DigestACL(zk.PermAll, "v", "q")))
				s := trial.Live(t, c)
				_, err := c.Create(t.Context(), "/mine", nil, 0)
				require.NoError(t, err)
				auths := trial.Requests(srv, zktest.OpAuth)
				for round := range 5 {
					rule := srv.Intercept(zktest.Match{Op: zktest.OpAuth, Skip: round % 2}, fault)
					srv.Cut(trial.Ours)
					_, _, err = c.Get(t.Context(), "/mine")
					require.NoError(t, err)
					require.Equal(t, 1, rule.Hits())
				}
				require.GreaterOrEqual(t, len(auths.All()), 10)
				require.NoError(t, s.Err(), "same session")
				srv.Expire(s.ID())
				<-s.Done()
				_, _, err = c.Get(t.Context(), "/mine")
				require.NoError(t, err, "in the next session as well")
			})
		})
	}
}

func TestAuth_RefusedLater_EndsTheSessionAndIsReported(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		board := trial.NewSwitchboard(srv.DialAs(trial.Label))
		c := trial.DialTo(t, srv.Addr(), conn.WithDialer(board.Dial), conn.WithAuth("digest", "u:p"))
		s := trial.Live(t, c)
		refuse := srv.Intercept(zktest.Match{Op: zktest.OpAuth, Times: -1}, zktest.Fail(zktest.CodeAuthFailed))
		before := board.Dials.Load()
		srv.Cut(trial.Ours)
		<-s.Done()
		var lost *zkrecipes.LostError
		require.ErrorAs(t, s.Err(), &lost)
		require.Equal(t, zkrecipes.LossRefused, lost.Reason)
		require.ErrorIs(t, lost, zkrecipes.ErrAuthFailed)
		_, _, err := c.Get(t.Context(), "/a")
		require.ErrorIs(t, err, zkrecipes.ErrAuthFailed)
		time.Sleep(time.Minute)
		require.Less(t, int(board.Dials.Load()-before), 140, "paced; each refusal is one dial, and one to close the session")
		require.LessOrEqual(t, len(srv.Sessions()), 1, "none stays behind")
		refuse.Remove()
		time.Sleep(10 * time.Second)
		require.NoError(t, c.Sync(t.Context(), "/"), "credentials may be accepted again")
	})
}

// brittle is a connection whose writes fail on demand, while reads continue.
type brittle struct {
	net.Conn
	broken *atomic.Bool
}

func (b brittle) Write(p []byte) (int, error) {
	if b.broken.Load() {
		return 0, &net.OpError{Op: "write", Net: "tcp", Err: os.ErrDeadlineExceeded}
	}
	return b.Conn.Write(p)
}

func TestReconnect_WriteFails_IsAConnectionLossLikeAnyOther(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		var broken atomic.Bool
		c := trial.DialTo(t, srv.Addr(),
			conn.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
				broken.Store(false)
				raw, err := srv.DialAs(trial.Label)(ctx, network, address)
				return brittle{raw, &broken}, err
			}))
		s := trial.Live(t, c)
		broken.Store(true)
		_, err := s.Create(t.Context(), "/a", nil, 0)
		require.ErrorIs(t, err, zkrecipes.ErrUnknownOutcome)
		require.ErrorIs(t, err, zk.ErrConnectionClosed)
		broken.Store(true)
		_, _, err = s.Exists(t.Context(), "/a")
		require.NoError(t, err)
		require.NoError(t, s.Err())
	})
}

// Names are resolved at every dial, so servers may move.
func TestReconnect_Names_AreGivenToEveryDial(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		var dialed trial.Log[string]
		c := trial.DialTo(t, "zk1,zk2:2182",
			conn.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
				dialed.Add(address)
				return srv.DialAs(trial.Label)(ctx, network, address)
			}))
		for range 5 {
			srv.Cut(trial.Ours)
			time.Sleep(3 * time.Second)
			require.Equal(t, zkrecipes.Connected, c.Status().State)
		}
		list := dialed.Values()
		require.Len(t, list, 6)
		slices.Sort(list)
		require.Equal(t, []string{"zk1:2181", "zk2:2182"}, slices.Compact(list))
	})
}

func TestReconnect_ServerThatHangsUp_IsPaced(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		board := trial.NewSwitchboard(srv.DialAs(trial.Label))
		c := trial.DialTo(t, srv.Addr(), conn.WithDialer(board.Dial))
		srv.Intercept(zktest.Match{Op: zktest.OpConnect, Times: -1}, zktest.DropRequest())
		srv.Cut(trial.Ours)
		before := board.Dials.Load()
		time.Sleep(time.Minute)
		require.Less(t, int(board.Dials.Load()-before), 90)
		require.NotEqual(t, zkrecipes.Connected, c.Status().State)
	})
}

// A session that ended here because no answer arrived is closed on a server that returns and has granted it a full
// timeout.
func TestOrphan_SessionKeptByTheServer_IsClosed(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c := trial.Dial(t, srv)
		s := trial.Live(t, c)
		_, err := c.Create(t.Context(), "/e", nil, zk.FlagEphemeral)
		require.NoError(t, err)
		srv.Down()
		<-s.Done()
		looked := make(chan struct{})
		srv.Intercept(zktest.Match{Op: zktest.OpConnect, Times: -1}, zktest.DelayUntil(looked))
		srv.Up()
		require.True(t, srv.Exists("/e"), "the server has forgotten how long it was gone")
		close(looked)
		trial.Live(t, c)
		synctest.Wait()
		require.False(t, srv.Exists("/e"))
		require.Len(t, srv.Sessions(), 1)
	})
}

func TestOrphan_ServerThatNeverAnswers_DoesNotDelayClose(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		board := trial.NewSwitchboard(srv.DialAs(trial.Label))
		c := trial.DialTo(t, srv.Addr(), conn.WithDialer(board.Dial), conn.WithConnectTimeout(time.Hour))
		s := trial.Live(t, c)
		srv.Down()
		<-s.Done()
		srv.Up()
		board.Connect(func(ctx context.Context, network, address string) (net.Conn, error) {
			board.Connect(func(context.Context, string, string) (net.Conn, error) { return trial.Silent(), nil })
			return srv.DialAs(trial.Label)(ctx, network, address)
		})
		trial.Live(t, c)
		synctest.Wait()
		require.LessOrEqual(t, trial.After(func() { require.NoError(t, c.Close()) }), time.Second)
	})
}

// Whatever a connection allocates is freed with it, however long its session lives.
func TestReconnect_ConnectionsThatHaveEnded_TakeNoMemory(t *testing.T) {
	if kit.Race {
		t.Skip("the race detector takes memory of its own")
	}
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c := trial.Dial(t, srv, conn.WithSessionTimeout(20*time.Minute))
		require.Equal(t, 20*time.Minute, trial.Live(t, c).Timeout())
		cut := func(times int) {
			for range times {
				time.Sleep(time.Second + time.Millisecond) // so that no pause is due
				trial.Reconnect(srv, c)
			}
		}
		cut(10)
		before := kit.Heap()
		cut(300) // within the interval between two pings
		require.Less(t, kit.Heap()-before, int64(200<<10))
	}, zktest.WithTickTime(time.Minute))
}

// Pauses belong to an outage: after a connection that has lasted for a second, the next outage begins with the shortest
// one.
func TestReconnect_AfterAConnectionThatLasted_PausesBeginAnew(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		board := trial.NewSwitchboard(srv.DialAs(trial.Label))
		var policies atomic.Int32
		c := trial.Dial(t, srv, conn.WithDialer(board.Dial), conn.WithBackOff(func() conn.BackOff {
			policies.Add(1)
			return backoff.NewConstantBackOff(time.Second)
		}))
		s := trial.Live(t, c)
		for _, tt := range []struct {
			lasts  time.Duration
			paused bool
		}{{time.Second + 1, false}, {time.Second, true}, {time.Second + 1, false}, {time.Second, true}} {
			time.Sleep(tt.lasts)
			before := policies.Load()
			srv.Cut(trial.Ours)
			synctest.Wait()
			require.Equal(t, tt.paused, c.Status().State != zkrecipes.Connected, "after %v", tt.lasts)
			require.Equal(t, tt.paused, policies.Load() > before, "after %v", tt.lasts)
			if tt.paused {
				time.Sleep(time.Second)
				synctest.Wait()
			}
			require.Equal(t, zkrecipes.Connected, c.Status().State)
		}
		require.NoError(t, s.Err())
	})
}

// A server that gives the session, and hangs up immediately, is not dialed without a pause.
func TestReconnect_ConnectionsThatEndSoon_ArePaced(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		board := trial.NewSwitchboard(srv.DialAs(trial.Label))
		c := trial.Dial(t, srv, conn.WithDialer(board.Dial), trial.EverySecond)
		go func() {
			for s := range c.States(t.Context()) {
				if s == zkrecipes.Connected {
					srv.Cut(trial.Ours)
				}
			}
		}()
		time.Sleep(time.Minute - time.Millisecond)
		require.EqualValues(t, 60, board.Dials.Load())
	})
}

// A server that accepts a connection and stays silent takes the time of an attempt, followed by a pause.
func TestReconnect_ServerThatIsSilent_IsPaced(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		board := trial.NewSwitchboard(func(context.Context, string, string) (net.Conn, error) { return trial.Silent(), nil })
		_, err := conn.Dial(trial.Within(t, time.Minute-time.Millisecond), srv.Addr(), conn.WithDialer(board.Dial),
			trial.EverySecond,
			conn.WithConnectTimeout(2*time.Second))
		require.ErrorIs(t, err, trial.ErrTooLong)
		require.EqualValues(t, 20, board.Dials.Load(), "every 3 s")
	})
}

// The default pauses grow to a sixth of the session timeout, and at most to 5 s, plus or minus a half.
func TestReconnect_DefaultPauses_GrowToASixthOfTheTimeout(t *testing.T) {
	for asked, most := range map[time.Duration]time.Duration{6 * time.Second: time.Second, time.Hour: 5 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			var dials trial.Log[string]
			_, err := conn.Dial(trial.Within(t, time.Hour), "h1", conn.WithSessionTimeout(asked),
				conn.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
					dials.Add(address)
					return trial.Refuse(ctx, network, address)
				}))
			require.ErrorIs(t, err, trial.ErrTooLong)
			var longest time.Duration
			all := dials.All()
			for i := range len(all) - 1 {
				longest = max(longest, all[i+1].At.Sub(all[i].At))
			}
			require.LessOrEqual(t, all[1].At.Sub(all[0].At), 75*time.Millisecond)
			require.LessOrEqual(t, longest, most*3/2)
			require.Greater(t, longest, most*5/4)
		})
	}
}

// A server that falls silent is left after two thirds of the session timeout, even without a hold.
func TestReconnect_ServerFallsSilent_AnotherIsTriedAfterTwoThirds(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c := trial.Dial(t, srv)
		seen := trial.States(t, c)
		pings := trial.Requests(srv, zktest.OpPing)
		time.Sleep(time.Minute)
		srv.Stall(trial.Ours, zktest.FromServer)
		heard := c.Status().LastAnswer
		time.Sleep(trial.Timeout)
		changes := seen.All()
		require.Equal(t, zkrecipes.Suspended, changes[1].What)
		require.Equal(t, trial.Timeout*2/3, changes[1].At.Sub(heard))
		srv.Heal(trial.Ours)

		require.Greater(t, len(pings.All()), 15)
		for i := range 10 {
			require.Equal(t, trial.Timeout/3, pings.All()[i+1].At.Sub(pings.All()[i].At))
		}
	})
}

// TestReconnect_NewServerFallsSilent: the server grants a timeout so short that two thirds of it pass before the limit of
// the attempt to connect.
func TestReconnect_NewServerFallsSilent(t *testing.T) {
	const granted = 3 * time.Second
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c := trial.Dial(t, srv, conn.WithSessionTimeout(time.Minute))
		seen := trial.States(t, c)
		srv.Stall(trial.Ours, zktest.FromServer)
		heard := c.Status().LastAnswer
		time.Sleep(granted)
		require.Equal(t, zkrecipes.Suspended, seen.All()[1].What)
		require.Equal(t, granted*2/3, seen.All()[1].At.Sub(heard))
	}, zktest.WithSessionTimeouts(time.Second, granted))
}

// A server ends sessions immediately: from the second in a row, each costs a pause. After a session that has lived for
// long there is none.
func TestSessions_BriefOnesInARow_CostAPause(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c := trial.Dial(t, srv, trial.EverySecond)
		for i, tt := range []struct{ lives, pause time.Duration }{
			{time.Millisecond, 0},
			{time.Millisecond, time.Second},
			{time.Millisecond, time.Second},
			{trial.Timeout / 2, time.Second},
			{trial.Timeout * 2, 0},
			{time.Millisecond, 0},
			{time.Millisecond, time.Second},
		} {
			s := trial.Live(t, c)
			time.Sleep(tt.lives)
			srv.Expire(s.ID())
			<-s.Done()
			require.Equal(t, tt.pause, trial.After(func() { trial.Live(t, c) }), "%d", i)
		}
	})
}

// Session timeouts below a second: a session that has lived for longer than its timeout still counts as brief for a
// second.
func TestSessions_OfAShortTimeout_AreBriefForASecond(t *testing.T) {
	for lives, pause := range map[time.Duration]time.Duration{time.Second: time.Second, time.Second + 1: 0} {
		trial.Run(t, func(t *testing.T, srv *zktest.Server) {
			c := trial.Dial(t, srv, trial.EverySecond, conn.WithSessionTimeout(400*time.Millisecond))
			require.Equal(t, 400*time.Millisecond, trial.Live(t, c).Timeout())
			for i := range 3 {
				s := trial.Live(t, c)
				time.Sleep(lives)
				srv.Intercept(zktest.Match{Op: zktest.OpExists}, zktest.Fail(zktest.CodeSessionExpired))
				_, _, err := s.Exists(t.Context(), "/a")
				require.ErrorIs(t, err, zkrecipes.ErrLost)
				took := trial.After(func() {
					for next := s; next.ID() == s.ID(); next = trial.Live(t, c) {
					}
				})
				if i > 0 { // the first brief one costs no pause
					require.Equal(t, pause, took, "after %v", lives)
				}
			}
		}, zktest.WithTickTime(100*time.Millisecond))
	}
}

// A session that the servers have ended as well needs one question, and an old session is closed once.
func TestOrphan_GoneFromTheServers_OneIsAskedOnce(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c := trial.DialTo(t, "10.0.0.1,10.0.0.2", conn.WithDialer(srv.DialAs(trial.Label)))
		s := trial.Live(t, c)
		srv.Stall(trial.Ours, zktest.Both)
		<-s.Done()
		time.Sleep(trial.Timeout)
		require.Empty(t, srv.Sessions())
		connects := trial.Requests(srv, zktest.OpConnect)
		srv.Heal(trial.Ours)
		trial.Live(t, c)
		time.Sleep(2 * time.Second)
		require.Len(t, connects.All(), 2, "one for the next session")
		trial.Reconnect(srv, c)
		synctest.Wait()
		require.Len(t, connects.All(), 3)
	})
}

// A server that has not seen what the client has read must not resume the session, however long other servers refuse.
func TestReconnect_ServersRefuseForLong_TheZxidIsKept(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		var zxids trial.Log[uint64]
		var without atomic.Bool
		c := trial.Dial(t, srv, conn.WithSessionTimeout(time.Second), trial.Through(srv, trial.Pipe{
			OnWrite: func(b []byte) {
				if len(b) == 49 && binary.BigEndian.Uint32(b) == 45 { // a connect request
					zxids.Add(binary.BigEndian.Uint64(b[8:]))
				}
			},
			OnRead: func(frame []byte) {
				if without.Load() && int32(binary.BigEndian.Uint32(frame[4:])) > 0 { // a reply
					clear(frame[8:16])
				}
			},
		}))
		s := trial.Live(t, c)
		require.Equal(t, 4*time.Second, s.Timeout())
		_, err := c.Create(t.Context(), "/a", nil, 0)
		require.NoError(t, err)
		without.Store(true)
		require.NoError(t, s.Sync(t.Context(), "/"), "the answer has no zxid")
		without.Store(false)
		before := len(zxids.All())
		refusal := srv.Intercept(zktest.Match{Op: zktest.OpConnect, Times: -1}, zktest.DropRequest())
		srv.Cut(trial.Ours)
		time.Sleep(2 * time.Second)
		refusal.Remove()
		require.NoError(t, s.Sync(t.Context(), "/"))
		require.Greater(t, len(zxids.All()), before+3)
		for _, zxid := range zxids.Values()[before:] {
			require.NotZero(t, zxid)
		}
	})
}

// A connection that is idle after the handshake stays, although its first ping is sent later than an attempt to connect
// may take. If the server sends nothing from the handshake on, the connection ends after two thirds of the timeout.
func TestConnection_SilentSinceTheHandshake(t *testing.T) {
	for name, silent := range map[string]bool{"no request yet": false, "no answer": true} {
		t.Run(name, func(t *testing.T) {
			trial.Run(t, func(t *testing.T, srv *zktest.Server) {
				c := trial.Dial(t, srv)
				start := time.Now()
				l := trial.States(t, c)
				if silent {
					srv.Stall(trial.Ours, zktest.FromServer)
				}
				time.Sleep(trial.Timeout * 2 / 3)
				synctest.Wait()
				if !silent {
					require.Equal(t, []zkrecipes.State{zkrecipes.Connected}, l.Values())
					return
				}
				changes := l.All()
				require.Len(t, changes, 2)
				require.Equal(t, zkrecipes.Suspended, changes[1].What)
				require.Equal(t, trial.Timeout*2/3, changes[1].At.Sub(start))
				srv.Heal(trial.Ours)
			})
		})
	}
}

// TestLeanOnEvent: a caller that relies on an event has a barrier ahead of everything that is read on the next
// connection, unless a server has answered since. A server that sheds a request may be as far behind as before.
func TestLeanOnEvent(t *testing.T) {
	for name, c := range map[string]struct {
		asked    bool
		answer   zktest.Action
		barriers int
	}{
		"nothing was asked": {false, zktest.Proceed(), 1},
		"answered":          {true, zktest.Proceed(), 0},
		"shed":              {true, zktest.Fail(zktest.CodeThrottled), 1},
	} {
		t.Run(name, func(t *testing.T) {
			trial.Run(t, func(t *testing.T, srv *zktest.Server) {
				s := trial.Live(t, trial.Dial(t, srv))
				s.LeanOnEvent()
				rule := srv.Intercept(zktest.Match{Op: zktest.OpExists, Times: -1}, c.answer)
				if c.asked {
					ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
					defer cancel()
					_, _, _ = s.Exists(ctx, "/") // the rule determines how it ends
					require.NotZero(t, rule.Hits())
				}
				rule.Remove()
				barriers := srv.Intercept(zktest.Match{Op: zktest.OpMulti, Times: -1}, zktest.Proceed())
				srv.Cut(zktest.Everyone)
				time.Sleep(time.Second)
				require.Equal(t, c.barriers, barriers.Hits())
				_, _, err := s.Exists(t.Context(), "/")
				require.NoError(t, err)
			})
		})
	}
}

// TestLeanOnEvent_ReplyTooLarge: its zxid counts although nothing else of it does, so no later server may be behind it.
func TestLeanOnEvent_ReplyTooLarge(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		s := trial.Live(t, trial.Dial(t, srv, conn.WithMaxReplySize(4<<10)))
		_, err := s.Create(t.Context(), "/first", nil, 0)
		require.NoError(t, err)
		_, err = srv.Create("/big", make([]byte, 8<<10), zktest.Persistent)
		require.NoError(t, err)
		big, _ := srv.Node("/big")
		s.LeanOnEvent()
		_, _, err = s.Get(t.Context(), "/big")
		require.ErrorIs(t, err, zkrecipes.ErrTooLarge)
		require.GreaterOrEqual(t, s.Zxid(), big.Stat.Czxid)
	})
}
