package session_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"math/big"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	kit "github.com/zkrecipes/zkrecipes/internal/bubble"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Replies to waiting requests move the zxid on before the watches are set again. Every watch fires all the same.
func TestReconnect_ManyWatchesAndWaitingWrites_NoWatchIsLost(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		const watches = 3000
		s := live(t, dial(t, srv))
		path := func(i int) string { return fmt.Sprintf("/%s-%d", strings.Repeat("x", 90), i) }
		var set []*session.Watch
		for i := range watches {
			_, err := srv.Create(path(i), nil, zktest.Persistent)
			require.NoError(t, err)
			_, _, w, err := s.GetW(t.Context(), path(i))
			require.NoError(t, err)
			set = append(set, w)
		}
		for range 3 {
			srv.Refuse(ours)
			srv.Cut(ours)
			synctest.Wait()
			for i := range watches {
				require.NoError(t, srv.Set(path(i), nil))
			}
			var wg sync.WaitGroup
			for i := range 16 {
				wg.Go(func() { _, _ = s.Create(t.Context(), fmt.Sprintf("/w-%d-", i), nil, zk.FlagSequence) })
			}
			synctest.Wait()
			srv.Accept(ours)
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

// A server that accepts a connection and sends nothing, or half an answer, delays a reconnect by the connect timeout alone.
func TestReconnect_ServerThatNeverAnswers_DelaysTheNextByTheConnectTimeout(t *testing.T) {
	for name, greeting := range map[string][]byte{"nothing": nil, "four bytes": {0, 0, 0, 37}, "half an answer": {0, 0, 0, 37, 0, 0, 0, 0, 0, 0}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, srv *zktest.Server) {
				const bound = 1500 * time.Millisecond
				first := func(b *switchboard) conn.DialFunc { // to a tarpit the first time
					return func(context.Context, string, string) (net.Conn, error) {
						b.connect(srv.DialAs(label))
						return silent(greeting...), nil
					}
				}
				board := newSwitchboard(nil)
				board.connect(first(board))
				var c *conn.Client
				require.Equal(t, bound, after(func() {
					c = dialTo(t, "10.0.0.1,10.0.0.2", conn.WithDialer(board.dial), conn.WithConnectTimeout(bound))
				}))
				s := live(t, c)
				time.Sleep(time.Minute)
				board.connect(first(board))
				srv.Cut(ours)
				synctest.Wait()
				require.Equal(t, conn.Suspended, c.Status().State)
				require.Equal(t, bound, after(func() { require.NoError(t, s.Sync(t.Context(), "/")) }))
				require.NoError(t, s.Err(), "same session")

				board.connect(func(context.Context, string, string) (net.Conn, error) { return silent(greeting...), nil })
				srv.Cut(ours)
				<-s.Done() // local end, for want of answers
				require.LessOrEqual(t, after(func() { require.NoError(t, c.Close()) }), time.Second)
			})
		})
	}
}

// A server with wiped data hangs up on every attempt to resume the session. So the session ends here.
func TestReconnect_ServerWiped_ANewSessionIsOpened(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		board := newSwitchboard(srv.DialAs(label))
		c := dialTo(t, srv.Addr(), conn.WithDialer(board.dial))
		s := live(t, c)
		for range 10 {
			_, err := c.Create(t.Context(), "/n-", nil, zk.FlagSequence)
			require.NoError(t, err)
		}
		time.Sleep(time.Second) // ids of sessions come from the time
		require.NoError(t, s.Sync(t.Context(), "/"))
		heard := time.Now()
		wiped := zktest.Run(t, zktest.InMemory())
		board.connect(wiped.DialAs(label))
		srv.Down()
		<-s.Done()
		require.Equal(t, timeout, time.Since(heard))
		var lost *zkrecipes.LostError
		require.ErrorAs(t, s.Err(), &lost)
		require.Equal(t, zkrecipes.LossDeadline, lost.Reason)
		_, err := c.Create(t.Context(), "/n", nil, 0)
		require.NoError(t, err)
		require.LessOrEqual(t, time.Since(heard), timeout+5*time.Second)
		require.True(t, wiped.Exists("/n"))
		require.Less(t, int(board.dials.Load()), 40, "paced")
	})
}

// Without a server the session ends by the clock of the client.
func TestReconnect_NoServer_SessionEndsATimeoutAfterTheNewestAnswer(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := dial(t, srv)
		seen := states(t, c)
		s := live(t, c)
		time.Sleep(time.Minute)
		require.NoError(t, s.Sync(t.Context(), "/"))
		heard := time.Now()
		srv.Down()
		<-s.Done()
		require.Equal(t, timeout, time.Since(heard))
		synctest.Wait()
		require.Equal(t, []conn.State{conn.Connected, conn.Suspended, conn.Lost}, seen.values())
		srv.Up()
		require.NotEqual(t, s.ID(), live(t, c).ID())
	})
}

// Credentials go out on every connection, before any request. If the connection is cut meanwhile, the next one sends them.
func TestAuth_IsSentOnEveryConnection(t *testing.T) {
	for name, fault := range map[string]zktest.Action{"served": zktest.Proceed(), "cut before": zktest.DropRequest(), "cut after": zktest.DropReply()} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, srv *zktest.Server) {
				c := dial(t, srv, conn.WithAuth("digest", "u:p"), conn.WithAuth("digest", "v:q"), conn.WithACL(zk.DigestACL(zk.PermAll, "v", "q")))
				s := live(t, c)
				_, err := c.Create(t.Context(), "/mine", nil, 0)
				require.NoError(t, err)
				auths := requests(srv, zktest.OpAuth)
				for round := range 5 {
					rule := srv.Intercept(zktest.Match{Op: zktest.OpAuth, Skip: round % 2}, fault)
					srv.Cut(ours)
					_, _, err = c.Get(t.Context(), "/mine")
					require.NoError(t, err)
					require.Equal(t, 1, rule.Hits())
				}
				require.GreaterOrEqual(t, len(auths.all()), 10)
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
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		board := newSwitchboard(srv.DialAs(label))
		c := dialTo(t, srv.Addr(), conn.WithDialer(board.dial), conn.WithAuth("digest", "u:p"))
		s := live(t, c)
		refuse := srv.Intercept(zktest.Match{Op: zktest.OpAuth, Times: -1}, zktest.Fail(zktest.CodeAuthFailed))
		before := board.dials.Load()
		srv.Cut(ours)
		<-s.Done()
		var lost *zkrecipes.LostError
		require.ErrorAs(t, s.Err(), &lost)
		require.Equal(t, zkrecipes.LossRefused, lost.Reason)
		require.ErrorIs(t, lost, conn.ErrAuthFailed)
		_, _, err := c.Get(t.Context(), "/a")
		require.ErrorIs(t, err, conn.ErrAuthFailed)
		time.Sleep(time.Minute)
		require.Less(t, int(board.dials.Load()-before), 140, "paced; each refusal is one dial, and one to close the session")
		require.LessOrEqual(t, len(srv.Sessions()), 1, "none stays behind")
		refuse.Remove()
		time.Sleep(10 * time.Second)
		require.NoError(t, c.Sync(t.Context(), "/"), "credentials may be accepted again")
	})
}

// An expiry with many watches is one change of state.
func TestStates_ManyWatchesAtAnExpiry_NoneIsLost(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := dial(t, srv)
		seen := states(t, c)
		for range 3 {
			s := live(t, c)
			for i := range 100 {
				_, _, _, err := s.ExistsW(t.Context(), fmt.Sprintf("/missing-%d", i))
				require.NoError(t, err)
			}
			srv.Expire(s.ID())
			<-s.Done()
			live(t, c)
		}
		synctest.Wait()
		var lost int
		for _, s := range seen.values() {
			if s == conn.Lost {
				lost++
			}
		}
		require.Equal(t, 3, lost)
		require.Equal(t, conn.Connected, c.Status().State)
	})
}

// brittle is a connection whose writes fail on demand, while reading goes on.
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
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		var broken atomic.Bool
		c := dialTo(t, srv.Addr(), conn.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			broken.Store(false)
			raw, err := srv.DialAs(label)(ctx, network, address)
			return brittle{raw, &broken}, err
		}))
		s := live(t, c)
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
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		var dialed log[string]
		c := dialTo(t, "zk1,zk2:2182", conn.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			dialed.add(address)
			return srv.DialAs(label)(ctx, network, address)
		}))
		for range 5 {
			srv.Cut(ours)
			time.Sleep(3 * time.Second)
			require.Equal(t, conn.Connected, c.Status().State)
		}
		list := dialed.values()
		require.Len(t, list, 6)
		slices.Sort(list)
		require.Equal(t, []string{"zk1:2181", "zk2:2182"}, slices.Compact(list))
	})
}

// The first attempt after a connection was lost starts without a pause.
func TestReconnect_ConnectionCut_IsBackAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := dial(t, srv)
		time.Sleep(3 * time.Second)
		srv.Cut(ours)
		synctest.Wait()
		require.Equal(t, conn.Connected, c.Status().State)
		require.Zero(t, after(func() { require.NoError(t, c.Sync(t.Context(), "/")) }))
	})
}

func TestReconnect_ServersDown_IsPaced(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		board := newSwitchboard(srv.DialAs(label))
		c := dialTo(t, "10.0.0.1,10.0.0.2,10.0.0.3", conn.WithDialer(board.dial))
		srv.Down()
		time.Sleep(10 * time.Minute)
		require.Less(t, int(board.dials.Load()), 3*600*2)
		require.NotEqual(t, conn.Connected, c.Status().State)
		srv.Up()
		require.LessOrEqual(t, after(func() { live(t, c) }), 5*time.Second)
	})
}

func TestReconnect_ServerThatHangsUp_IsPaced(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		board := newSwitchboard(srv.DialAs(label))
		c := dialTo(t, srv.Addr(), conn.WithDialer(board.dial))
		srv.Intercept(zktest.Match{Op: zktest.OpConnect, Times: -1}, zktest.DropRequest())
		srv.Cut(ours)
		before := board.dials.Load()
		time.Sleep(time.Minute)
		require.Less(t, int(board.dials.Load()-before), 90)
		require.NotEqual(t, conn.Connected, c.Status().State)
	})
}

// A session that ended here for want of answers is closed on a server that comes back and has given it a full timeout.
func TestOrphan_SessionKeptByTheServer_IsClosed(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := dial(t, srv)
		s := live(t, c)
		_, err := c.Create(t.Context(), "/e", nil, zk.FlagEphemeral)
		require.NoError(t, err)
		srv.Down()
		<-s.Done()
		srv.Up()
		require.True(t, srv.Exists("/e"), "the server has forgotten how long it was gone")
		live(t, c)
		synctest.Wait()
		require.False(t, srv.Exists("/e"))
		require.Len(t, srv.Sessions(), 1)
	})
}

func TestOrphan_ServerThatNeverAnswers_DoesNotDelayClose(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		board := newSwitchboard(srv.DialAs(label))
		c := dialTo(t, srv.Addr(), conn.WithDialer(board.dial), conn.WithConnectTimeout(time.Hour))
		s := live(t, c)
		srv.Down()
		<-s.Done()
		srv.Up()
		board.connect(func(ctx context.Context, network, address string) (net.Conn, error) {
			board.connect(func(context.Context, string, string) (net.Conn, error) { return silent(), nil })
			return srv.DialAs(label)(ctx, network, address)
		})
		live(t, c)
		synctest.Wait()
		require.LessOrEqual(t, after(func() { require.NoError(t, c.Close()) }), time.Second)
	})
}

func TestTLS(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"zk.example"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	roots := x509.NewCertPool()
	roots.AddCert(cert)

	srv, err := zktest.Start(zktest.InMemory())
	require.NoError(t, err)
	t.Cleanup(srv.Close)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}})
	require.NoError(t, err)
	go func() { _ = srv.Serve(l) }()
	address := l.Addr().String()

	c := dialTo(t, address, conn.WithTLS(&tls.Config{RootCAs: roots}))
	_, err = c.Create(t.Context(), "/a", nil, 0)
	require.NoError(t, err)
	require.True(t, srv.Exists("/a"))

	byName := dialTo(t, "zk.example:2281", conn.WithTLS(&tls.Config{RootCAs: roots}),
		conn.WithDialer(func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, address)
		}))
	require.NoError(t, byName.Sync(t.Context(), "/"), "the name in the connect string is verified")

	// refused dials until the second attempt, when the first has failed, and returns why.
	refused := func(config *tls.Config) error {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		dials := 0
		_, err := conn.Dial(ctx, address, conn.WithTLS(config), conn.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			if dials++; dials > 1 {
				cancel()
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return (&net.Dialer{}).DialContext(ctx, network, address)
		}))
		require.ErrorIs(t, err, context.Canceled)
		return err
	}
	var unknown x509.UnknownAuthorityError
	require.ErrorAs(t, refused(&tls.Config{}), &unknown)
	var wrongName x509.HostnameError
	require.ErrorAs(t, refused(&tls.Config{RootCAs: roots, ServerName: "other.example"}), &wrongName)
}

// What a connection takes goes with it, however long its session lives.
func TestReconnect_ConnectionsThatHaveEnded_TakeNoMemory(t *testing.T) {
	if kit.Race {
		t.Skip("the race detector takes memory of its own")
	}
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := dial(t, srv, conn.WithSessionTimeout(20*time.Minute))
		require.Equal(t, 20*time.Minute, live(t, c).Timeout())
		cut := func(times int) {
			for range times {
				time.Sleep(time.Second + time.Millisecond) // so that no pause is due
				reconnect(srv, c)
			}
		}
		cut(10)
		before := kit.Heap()
		cut(300) // within the time between two pings
		require.Less(t, kit.Heap()-before, int64(200<<10))
	}, zktest.WithTickTime(time.Minute))
}

// Pauses belong to an outage: after a connection that has lasted for a second, the next outage begins with the shortest.
func TestReconnect_AfterAConnectionThatLasted_PausesBeginAnew(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		board := newSwitchboard(srv.DialAs(label))
		var policies atomic.Int32
		c := dial(t, srv, conn.WithDialer(board.dial), conn.WithBackOff(func() conn.BackOff {
			policies.Add(1)
			return backoff.NewConstantBackOff(time.Second)
		}))
		s := live(t, c)
		for _, tt := range []struct {
			lasts  time.Duration
			paused bool
		}{{time.Second + 1, false}, {time.Second, true}, {time.Second + 1, false}, {time.Second, true}} {
			time.Sleep(tt.lasts)
			before := policies.Load()
			srv.Cut(ours)
			synctest.Wait()
			require.Equal(t, tt.paused, c.Status().State != conn.Connected, "after %v", tt.lasts)
			require.Equal(t, tt.paused, policies.Load() > before, "after %v", tt.lasts)
			if tt.paused {
				time.Sleep(time.Second)
				synctest.Wait()
			}
			require.Equal(t, conn.Connected, c.Status().State)
		}
		require.NoError(t, s.Err())
	})
}

// A server that gives the session, and hangs up at once, is not dialed without a pause.
func TestReconnect_ConnectionsThatEndSoon_ArePaced(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		board := newSwitchboard(srv.DialAs(label))
		c := dial(t, srv, conn.WithDialer(board.dial), everySecond)
		go func() {
			for s := range c.States(t.Context()) {
				if s == conn.Connected {
					srv.Cut(ours)
				}
			}
		}()
		time.Sleep(time.Minute - time.Millisecond)
		require.EqualValues(t, 60, board.dials.Load())
	})
}

// A server that accepts a connection and is silent takes the time of an attempt, and then there is a pause as well.
func TestReconnect_ServerThatIsSilent_IsPaced(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		board := newSwitchboard(func(context.Context, string, string) (net.Conn, error) { return silent(), nil })
		_, err := conn.Dial(within(t, time.Minute-time.Millisecond), srv.Addr(), conn.WithDialer(board.dial), everySecond,
			conn.WithConnectTimeout(2*time.Second))
		require.ErrorIs(t, err, errTooLong)
		require.EqualValues(t, 20, board.dials.Load(), "every 3 s")
	})
}

// The pauses by default: they grow to a sixth of the session timeout, and at most to 5 s, more or less a half.
func TestReconnect_DefaultPauses_GrowToASixthOfTheTimeout(t *testing.T) {
	for asked, most := range map[time.Duration]time.Duration{6 * time.Second: time.Second, time.Hour: 5 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			var dials log[string]
			_, err := conn.Dial(within(t, time.Hour), "h1", conn.WithSessionTimeout(asked),
				conn.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
					dials.add(address)
					return refuse(ctx, network, address)
				}))
			require.ErrorIs(t, err, errTooLong)
			var longest time.Duration
			all := dials.all()
			for i := range len(all) - 1 {
				longest = max(longest, all[i+1].at.Sub(all[i].at))
			}
			require.LessOrEqual(t, all[1].at.Sub(all[0].at), 75*time.Millisecond)
			require.LessOrEqual(t, longest, most*3/2)
			require.Greater(t, longest, most*5/4)
		})
	}
}

// A server that falls silent is left after two thirds of the session timeout, also without a hold.
func TestReconnect_ServerFallsSilent_AnotherIsTriedAfterTwoThirds(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := dial(t, srv)
		seen := states(t, c)
		pings := requests(srv, zktest.OpPing)
		time.Sleep(time.Minute)
		srv.Stall(ours, zktest.FromServer)
		heard := c.Status().LastAnswer
		time.Sleep(timeout)
		changes := seen.all()
		require.Equal(t, conn.Suspended, changes[1].what)
		require.Equal(t, timeout*2/3, changes[1].at.Sub(heard))
		srv.Heal(ours)

		require.Greater(t, len(pings.all()), 15)
		for i := range 10 {
			require.Equal(t, timeout/3, pings.all()[i+1].at.Sub(pings.all()[i].at))
		}
	})
}

// A server ends sessions at once: from the second in a row, each costs a pause. A session that has lived for long costs none.
func TestSessions_BriefOnesInARow_CostAPause(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := dial(t, srv, everySecond)
		for i, tt := range []struct{ lives, pause time.Duration }{
			{time.Millisecond, 0},
			{time.Millisecond, time.Second},
			{time.Millisecond, time.Second},
			{timeout / 2, time.Second},
			{timeout * 2, 0},
			{time.Millisecond, 0},
			{time.Millisecond, time.Second},
		} {
			s := live(t, c)
			time.Sleep(tt.lives)
			srv.Expire(s.ID())
			<-s.Done()
			require.Equal(t, tt.pause, after(func() { live(t, c) }), "%d", i)
		}
	})
}

// Session timeouts below a second: a session that has lived for longer than its timeout still counts as brief for a second.
func TestSessions_OfAShortTimeout_AreBriefForASecond(t *testing.T) {
	for lives, pause := range map[time.Duration]time.Duration{time.Second: time.Second, time.Second + 1: 0} {
		bubble(t, func(t *testing.T, srv *zktest.Server) {
			c := dial(t, srv, everySecond, conn.WithSessionTimeout(400*time.Millisecond))
			require.Equal(t, 400*time.Millisecond, live(t, c).Timeout())
			for i := range 3 {
				s := live(t, c)
				time.Sleep(lives)
				srv.Intercept(zktest.Match{Op: zktest.OpExists}, zktest.Fail(zktest.CodeSessionExpired))
				_, _, err := s.Exists(t.Context(), "/a")
				require.ErrorIs(t, err, zkrecipes.ErrLost)
				took := after(func() {
					for next := s; next.ID() == s.ID(); next = live(t, c) {
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
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := dialTo(t, "10.0.0.1,10.0.0.2", conn.WithDialer(srv.DialAs(label)))
		s := live(t, c)
		srv.Stall(ours, zktest.Both)
		<-s.Done()
		time.Sleep(timeout)
		require.Empty(t, srv.Sessions())
		connects := requests(srv, zktest.OpConnect)
		srv.Heal(ours)
		live(t, c)
		time.Sleep(2 * time.Second)
		require.Len(t, connects.all(), 2, "one for the next session")
		reconnect(srv, c)
		synctest.Wait()
		require.Len(t, connects.all(), 3)
	})
}

// A server that has not seen what the client has read must not resume the session, however long other servers refuse.
func TestReconnect_ServersRefuseForLong_TheZxidIsKept(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		var zxids log[uint64]
		var without atomic.Bool
		c := dial(t, srv, conn.WithSessionTimeout(time.Second), through(srv, pipe{
			write: func(b []byte) {
				if len(b) == 48 && binary.BigEndian.Uint32(b) == 44 { // a connect request
					zxids.add(binary.BigEndian.Uint64(b[8:]))
				}
			},
			read: func(frame []byte) {
				if without.Load() && int32(binary.BigEndian.Uint32(frame[4:])) > 0 { // a reply
					clear(frame[8:16])
				}
			},
		}))
		s := live(t, c)
		require.Equal(t, 4*time.Second, s.Timeout())
		_, err := c.Create(t.Context(), "/a", nil, 0)
		require.NoError(t, err)
		without.Store(true)
		require.NoError(t, s.Sync(t.Context(), "/"), "the answer has no zxid")
		without.Store(false)
		before := len(zxids.all())
		refusal := srv.Intercept(zktest.Match{Op: zktest.OpConnect, Times: -1}, zktest.DropRequest())
		srv.Cut(ours)
		time.Sleep(2 * time.Second)
		refusal.Remove()
		require.NoError(t, s.Sync(t.Context(), "/"))
		require.Greater(t, len(zxids.all()), before+3)
		for _, zxid := range zxids.values()[before:] {
			require.NotZero(t, zxid)
		}
	})
}

// Sessions that end soon after they came up cost pauses. Once a session has lasted, the next one begins at once again.
func TestReconnect_AfterASessionThatLasted_CostsNoPause(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := dial(t, srv, everySecond)
		next := func() time.Duration {
			s := live(t, c)
			srv.Expire(s.ID())
			<-s.Done()
			return after(func() { live(t, c) })
		}
		require.Zero(t, next(), "the first brief session may be chance")
		for range 3 {
			require.Equal(t, time.Second, next())
		}
		for range 2 {
			time.Sleep(timeout + time.Second)
			require.Zero(t, next())
		}
		require.Zero(t, next(), "a brief one after one that lasted")
	})
}

// A connection that is idle after the handshake stays, although its first ping goes out later than an attempt to connect may take.
// If the server says nothing from the handshake on, the connection ends after two thirds of the timeout.
func TestConnection_SilentSinceTheHandshake(t *testing.T) {
	for name, silent := range map[string]bool{"no request yet": false, "no answer": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, srv *zktest.Server) {
				c := dial(t, srv)
				start := time.Now()
				l := states(t, c)
				if silent {
					srv.Stall(ours, zktest.FromServer)
				}
				time.Sleep(timeout * 2 / 3)
				synctest.Wait()
				if !silent {
					require.Equal(t, []conn.State{conn.Connected}, l.values())
					return
				}
				changes := l.all()
				require.Len(t, changes, 2)
				require.Equal(t, conn.Suspended, changes[1].what)
				require.Equal(t, timeout*2/3, changes[1].at.Sub(start))
				srv.Heal(ours)
			})
		})
	}
}

// TestLeanOnEvent: whoever goes by an event has a barrier ahead of all that is read on the next connection, unless a server has
// answered since. A server that sheds a request may be as far behind as before.
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
			bubble(t, func(t *testing.T, srv *zktest.Server) {
				s := live(t, dial(t, srv))
				s.LeanOnEvent()
				rule := srv.Intercept(zktest.Match{Op: zktest.OpExists, Times: -1}, c.answer)
				if c.asked {
					ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
					defer cancel()
					_, _, _ = s.Exists(ctx, "/") // the rule says how it ends
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
