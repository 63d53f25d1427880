package client_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	dns "github.com/zkrecipes/zkrecipes/internal/testkit/names"
	"github.com/zkrecipes/zkrecipes/internal/testkit/trial"

	"github.com/cenkalti/backoff/v4"
	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/client"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func TestDial_BadInput_IsRefusedBeforeAnythingIsSent(t *testing.T) {
	board := trial.NewSwitchboard(func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("no server here")
	})
	bad := map[string]conn.Option{
		"least timeout": conn.WithLeastTimeout(0),
		"auth":          conn.WithAuth("", "user:password"),
		"acl":           conn.WithACL(nil),
		"in flight":     conn.WithMaxInFlight(0),
		"acl scheme":    conn.WithACL([]zk.ACL{{Perms: zk.PermAll, ID: "anyone"}}),
		"acl perms":     conn.WithACL(zk.WorldACL(64)),
		"acl function":  conn.WithACLFunc(nil),
		"identity":      conn.WithIdentity(""),
	}
	for name, opt := range bad {
		_, err := conn.Dial(t.Context(), "h1:2181", conn.WithDialer(board.Dial), opt)
		require.Error(t, err, name)
		require.ErrorContains(t, err, "h1:2181", name)
	}
	for _, connect := range []string{"", "h1:0", "h1//x", ","} {
		_, err := conn.Dial(t.Context(), connect, conn.WithDialer(board.Dial))
		require.ErrorContains(t, err, "connect string", connect)
	}
	require.Zero(t, board.Dials.Load())
}

func TestDial_NameThatDoesNotResolve_IsSaid(t *testing.T) {
	dns.Use(t)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		_, err := conn.Dial(ctx, "not..a..name:2181")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "none of the server names resolves")
		require.ErrorContains(t, err, "not..a..name")
	})
}

func TestDial_NoServerAnswers_SaysWhyWhenTheContextEnds(t *testing.T) {
	tests := map[string]struct {
		dial conn.DialFunc
		why  string
	}{
		"refused": {
			func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("connection refused") }, "refused",
		},
		"accepts and is silent": {
			func(context.Context, string, string) (net.Conn, error) { return trial.Silent(), nil }, "10.0.0.1:2181",
		},
		"is not ZooKeeper": {
			func(context.Context, string, string) (net.Conn, error) {
				return trial.Silent([]byte("HTTP/1.1 400 Bad\r\n")...), nil
			},
			"this is not a ZooKeeper server",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				took := trial.After(func() {
					_, err := conn.Dial(trial.Within(t, 5*time.Second), "10.0.0.1", conn.WithDialer(tt.dial))
					require.ErrorIs(t, err, trial.ErrTooLong)
					require.ErrorContains(t, err, tt.why)
				})
				require.Equal(t, 5*time.Second, took, "and nothing is left to wait for")
			})
		})
	}
}

func TestDial_ContextEnded_SendsNothing(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		board := trial.NewSwitchboard(srv.Dial)
		for range 100 {
			_, err := conn.Dial(ctx, srv.Addr(), conn.WithDialer(board.Dial))
			require.ErrorIs(t, err, context.Canceled)
		}
		require.Zero(t, board.Dials.Load())
	})
}

// Dial gives up while the session that a server has already granted is being closed. It used to wait another second for
// the answer.
func TestDial_ContextEnds_WhileASessionIsClosed(t *testing.T) {
	for name, tt := range map[string]struct {
		fault func(srv *zktest.Server)
		is    error
	}{
		"the credentials are not answered": {func(srv *zktest.Server) {
			srv.Intercept(zktest.Match{Op: zktest.OpAuth, Times: -1},
				zktest.After(func(zktest.Request) { srv.Stall(trial.Ours, zktest.Both) }))
		}, trial.ErrTooLong},
		"they are refused, and then nothing is answered": {func(srv *zktest.Server) {
			srv.Intercept(zktest.Match{Op: zktest.OpAuth, Times: -1}, zktest.Fail(zktest.CodeAuthFailed))
			srv.Intercept(zktest.Match{Op: zktest.OpConnect, Skip: 1, Times: -1}, zktest.Ignore())
		}, zkrecipes.ErrAuthFailed},
	} {
		t.Run(name, func(t *testing.T) {
			trial.Run(t, func(t *testing.T, srv *zktest.Server) {
				tt.fault(srv)
				const limit = 100 * time.Millisecond
				took := trial.After(func() {
					_, err := conn.Dial(trial.Within(t, limit), srv.Addr(), conn.WithDialer(srv.DialAs(trial.Label)),
						conn.WithAuth("digest", "user:password"))
					require.ErrorIs(t, err, tt.is)
				})
				require.Equal(t, limit, took)
				time.Sleep(time.Minute)
				require.Empty(t, srv.Sessions())
			})
		})
	}
}

func TestClose_Connected_EndsTheSessionOnTheServer(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c := trial.Dial(t, srv)
		_, err := c.Create(t.Context(), "/e", nil, zk.FlagEphemeral)
		require.NoError(t, err)
		seen := trial.States(t, c)
		require.Zero(t, trial.After(func() { require.NoError(t, c.Close()) }))
		require.False(t, srv.Exists("/e"))
		require.Empty(t, srv.Sessions())
		require.Zero(t, trial.After(func() { require.NoError(t, c.Close()) }), "a second Close does nothing")
		synctest.Wait()
		require.Equal(t, []zkrecipes.State{zkrecipes.Connected, zkrecipes.Closed}, seen.Values())
	})
}

func TestClose_Afterwards_EverythingIsErrClosed(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c := trial.Dial(t, srv)
		s := trial.Live(t, c)
		sub, err := c.Sub("/sub")
		require.NoError(t, err)
		require.NoError(t, c.Close())
		for _, ours := range []*conn.Client{c, sub} {
			for op, err := range trial.Everything(t.Context(), ours) {
				require.ErrorIs(t, err, zkrecipes.ErrClosed, op)
			}
			_, err = ours.Sub("/x")
			require.ErrorIs(t, err, zkrecipes.ErrClosed)
			require.Equal(t, zkrecipes.Closed, ours.Status().State)
		}
		for op, err := range trial.EverythingIn(t.Context(), s) {
			require.ErrorIs(t, err, zkrecipes.ErrClosed, op)
		}
		require.ErrorIs(t, s.Err(), zkrecipes.ErrClosed)
		require.ErrorIs(t, s.Prove(t.Context()), zkrecipes.ErrClosed)
		require.False(t, s.Go(func(context.Context) {}))
		_, ok := s.OnLoss(false, func(*zkrecipes.LostError) func() { return nil })
		require.False(t, ok)
		<-s.Done()
		require.False(t, s.ValidUntil().After(time.Now()))
	})
}

func TestClose_WithoutAServer_ReturnsSoonAndLeavesNothing(t *testing.T) {
	faults := map[string]func(*zktest.Server){
		"refused":          func(srv *zktest.Server) { trial.CutOff(srv, trial.Ours) },
		"stalled":          func(srv *zktest.Server) { srv.Stall(trial.Ours, zktest.Both) },
		"requests stalled": func(srv *zktest.Server) { srv.Stall(trial.Ours, zktest.ToServer) },
		"replies stalled":  func(srv *zktest.Server) { srv.Stall(trial.Ours, zktest.FromServer) },
		"frozen":           func(srv *zktest.Server) { srv.Freeze() },
		"down":             func(srv *zktest.Server) { srv.Down() },
	}
	for name, fault := range faults {
		for _, since := range []time.Duration{0, time.Second, 8 * time.Second, 30 * time.Second} {
			t.Run(name+" for "+since.String(), func(t *testing.T) {
				trial.Run(t, func(t *testing.T, srv *zktest.Server) {
					c := trial.Dial(t, srv)
					trial.Live(t, c).Retain()
					fault(srv)
					time.Sleep(since)
					synctest.Wait()
					patience := time.Second // for a server that might answer
					if name == "refused" || name == "down" {
						patience = 0
					}
					require.LessOrEqual(t, trial.After(func() { require.NoError(t, c.Close()) }), patience)
					srv.Thaw()
					srv.Heal(zktest.Everyone)
				})
			})
		}
	}
}

// Close is called at any moment of the first connect, of an outage and of a reconnect.
func TestClose_AtAnyMoment_LeavesNothing(t *testing.T) {
	for ms := range 60 {
		trial.Run(t, func(t *testing.T, srv *zktest.Server) {
			for _, op := range []zktest.Op{zktest.OpConnect, zktest.OpGetData} {
				srv.Intercept(zktest.Match{Op: op, Times: -1}, zktest.HoldReply(3*time.Millisecond))
			}
			moment := time.Duration(ms) * time.Millisecond / 2
			ctx, cancel := context.WithTimeout(t.Context(), moment)
			defer cancel()
			c, err := conn.Dial(ctx, srv.Addr(), conn.WithDialer(srv.DialAs(trial.Label)), conn.WithAuth("digest", "a:b"))
			if err != nil {
				require.ErrorIs(t, err, context.DeadlineExceeded)
				return
			}
			var wg sync.WaitGroup
			wg.Go(func() { _, _, _ = c.Get(t.Context(), "/a") }) // the result does not matter
			go func() {
				time.Sleep(3 * time.Millisecond)
				srv.Cut(trial.Ours)
			}()
			<-ctx.Done()
			require.NoError(t, c.Close())
			wg.Wait()
			time.Sleep(10 * time.Millisecond)
			require.LessOrEqual(t, len(srv.Sessions()), 1)
		})
	}
}

func TestClose_Concurrent_AllWait(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c := trial.Dial(t, srv)
		s := trial.Live(t, c)
		running := true
		s.Go(func(ctx context.Context) {
			<-ctx.Done()
			time.Sleep(time.Second)
			running = false
		})
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				require.NoError(t, c.Close())
				require.False(t, running, "Close waits for what the session has started")
			})
		}
		wg.Wait()
	})
}

func TestSub_Paths_AreBelowItsPrefixInBothDirections(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		trial.Grow(t, srv, "/root", "/root/app", "/root/app/team")
		c := trial.DialTo(t, srv.Addr()+"/root", conn.WithDialer(srv.Dial))
		app, err := c.Sub("/app")
		require.NoError(t, err)
		team, err := app.Sub("/team")
		require.NoError(t, err)
		same, err := team.Sub("/")
		require.NoError(t, err)
		require.True(t, trial.Inner(c).Same(trial.Inner(team)))
		for sub, prefix := range map[*conn.Client]string{
			c: "/root", app: "/root/app", team: "/root/app/team", same: "/root/app/team",
		} {
			require.Equal(t, prefix+"/n", trial.Inner(sub).Abs("/n"))
			require.Equal(t, prefix, trial.Inner(sub).Abs("/"))
			path, err := sub.Create(t.Context(), "/n-", []byte(prefix), zk.FlagSequence)
			require.NoError(t, err)
			require.True(t, strings.HasPrefix(path, "/n-"), path)
			require.True(t, srv.Exists(prefix+path))
			data, _, err := sub.Get(t.Context(), path)
			require.NoError(t, err)
			require.Equal(t, prefix, string(data))
			names, err := sub.Children(t.Context(), "/")
			require.NoError(t, err)
			require.Contains(t, names, path[1:])
			_, _, err = sub.Get(t.Context(), "/missing")
			require.EqualError(t, err, "get /missing: "+zk.ErrNoNode.Error())
			require.NoError(t, sub.Delete(t.Context(), path, 0))
			require.False(t, srv.Exists(prefix+path))

			exists, _, err := trial.Live(t, sub).Absolute().Exists(t.Context(), prefix)
			require.NoError(t, err)
			require.True(t, exists)
		}
		for _, bad := range []string{"", "app", "/app/", "//", "/a/../b"} {
			_, err := c.Sub(bad)
			require.Error(t, err, bad)
		}
	})
}

func TestSub_Close_ClosesOnlyThat(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c := trial.Dial(t, srv)
		sub, err := c.Sub("/app")
		require.NoError(t, err)
		require.NoError(t, sub.Close())
		require.NoError(t, sub.Close())
		for op, err := range trial.Everything(t.Context(), sub) {
			require.ErrorIs(t, err, zkrecipes.ErrClosed, op)
		}
		_, err = sub.Sub("/x")
		require.ErrorIs(t, err, zkrecipes.ErrClosed)
		require.Equal(t, zkrecipes.Connected, c.Status().State)
		require.NoError(t, c.Sync(t.Context(), "/"))
	})
}

func TestIdentity_Default_IsHostAndProcess(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		require.Regexp(t, `^.+/[0-9]+$`, trial.Dial(t, srv).Identity())
		require.Equal(t, "me", trial.Dial(t, srv, conn.WithIdentity("me")).Identity())
	})
}

func TestACL_Default_IsThatOfTheClient(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		mine := zk.DigestACL(zk.PermAll, "user", "password")
		c := trial.Dial(t, srv, conn.WithAuth("digest", "user:password"), conn.WithACL(mine))
		_, err := c.Create(t.Context(), "/mine", nil, 0)
		require.NoError(t, err)
		_, err = c.Create(t.Context(), "/open", nil, 0, zk.WorldACL(zk.PermAll)...)
		require.NoError(t, err)
		_, err = c.Multi(t.Context(), zkrecipes.OpCreate("/multi", nil, 0))
		require.NoError(t, err)
		require.NoError(t, trial.Live(t, c).CreateContainer(t.Context(), "/container"))
		for path, scheme := range map[string]string{
			"/mine": "digest", "/open": "world", "/multi": "digest", "/container": "digest",
		} {
			n, ok := srv.Node(path)
			require.True(t, ok, path)
			require.Equal(t, scheme, n.ACL[0].Scheme, path)
		}
		other := trial.Dial(t, srv)
		_, _, err = other.Get(t.Context(), "/mine")
		require.ErrorIs(t, err, zk.ErrNoAuth)
	})
}

// A server is reached just as the session ends, while its holds are still being notified.
func TestClose_WhileADialSucceeds_DialsInVain(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		board := trial.NewSwitchboard(srv.DialAs(trial.Label))
		c := trial.DialTo(t, srv.Addr(), conn.WithDialer(board.Dial))
		closing := make(chan struct{})
		board.Connect(func(ctx context.Context, network, address string) (net.Conn, error) {
			<-closing
			return srv.DialAs(trial.Label)(ctx, network, address)
		})
		_, ok := trial.Live(t, c).OnLoss(false, func(*zkrecipes.LostError) func() {
			close(closing)
			synctest.Wait()
			return nil
		})
		require.True(t, ok)
		srv.Cut(trial.Ours)
		time.Sleep(time.Second) // until it dials
		require.NoError(t, c.Close())
	})
}

// The old session has ended, and all callers of Session wait for the next one.
func TestClose_BetweenSessions_WakesWhoWaitsForTheNext(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c := trial.Dial(t, srv, conn.WithBackOff(func() conn.BackOff { return backoff.NewConstantBackOff(time.Second) }))
		for range 2 { // the second in a row is not an accident: a pause follows
			s := trial.Live(t, c)
			srv.Expire(s.ID())
			<-s.Done()
		}
		time.Sleep(100 * time.Millisecond)
		ctx := trial.Within(t, time.Hour)
		got := make(chan error, 1)
		go func() { _, _, err := c.Get(ctx, "/a"); got <- err }()
		synctest.Wait()
		require.NoError(t, c.Close())
		closed := time.Now()
		require.ErrorIs(t, <-got, zkrecipes.ErrClosed)
		require.Zero(t, time.Since(closed))
	})
}

func TestCreate_TheChrootItself_ReturnsTheRoot(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c := trial.DialTo(t, srv.Addr()+"/chroot", conn.WithDialer(srv.DialAs(trial.Label)))
		created, err := c.Create(t.Context(), "/", nil, 0)
		require.NoError(t, err)
		require.Equal(t, "/", created)
	})
}

// slowToWrite is a connection whose Write takes its time, even if it is closed in the meantime.
type slowToWrite struct {
	net.Conn
	slow *atomic.Bool
}

func (c slowToWrite) Write(b []byte) (int, error) {
	if c.slow.Load() {
		time.Sleep(1500 * time.Millisecond)
	}
	return c.Conn.Write(b)
}

// Close waits for everything that the client has started, including a write.
func TestClose_DuringAWrite_WaitsForIt(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		var slow atomic.Bool
		c := trial.DialTo(t, srv.Addr(),
			conn.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
				raw, err := srv.DialAs(trial.Label)(ctx, network, address)
				return slowToWrite{raw, &slow}, err
			}))
		s := trial.Live(t, c)
		slow.Store(true)
		require.True(t, s.StartDelete("/a", -1, func(error) {}))
		synctest.Wait() // it is being written
		require.Equal(t, 1500*time.Millisecond, trial.After(func() { require.NoError(t, c.Close()) }))
	})
}

// A client knows the latest of its earlier sessions: a client that loses one after another for a year does not remember
// more.
func TestWasOurs_TheNewest(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c := trial.Dial(t, srv)
		var ids []int64
		for range 70 {
			s := trial.Live(t, c)
			require.False(t, (*client.Client)(c).WasOurs(s.ID()), "the present one")
			ids = append(ids, s.ID())
			srv.Expire(s.ID())
			<-s.Done()
		}
		trial.Live(t, c)
		for i, id := range ids {
			require.Equal(t, i >= 70-64, (*client.Client)(c).WasOurs(id), i)
		}
	})
}
