package conn_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/trial"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// The connect string names a server several times. When that one falls silent, the client tries it once before the
// other, so its hold survives.
func TestDial_ServerNamedSeveralTimes_IsOne(t *testing.T) {
	t.Parallel()
	for range 5 { // the order is random
		trial.Run(t, func(t *testing.T, srv *zktest.Server) {
			fronts := srv.Fronts()
			var silent atomic.Bool
			dial := func(ctx context.Context, network, address string) (net.Conn, error) {
				if silent.Load() && address == fronts[0].Addr() {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return srv.DialAs(trial.Label)(ctx, network, address)
			}
			fronts[1].Stop()
			c := trial.DialTo(t, strings.Repeat(fronts[0].Addr()+",", 9)+fronts[1].Addr(), conn.WithDialer(dial))
			hold := lock(t, c)
			require.NoError(t, fronts[1].Start())
			silent.Store(true)
			srv.Cut(trial.Ours)
			time.Sleep(trial.Timeout)
			require.NoError(t, hold.Err())
		}, zktest.WithFronts(3))
	}
}

// directory provides a function for WithServers.
type directory struct {
	mu    sync.Mutex
	list  []string
	err   error
	asked trial.Log[struct{}]
}

func (d *directory) set(err error, list ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.list, d.err = list, err
}

func (d *directory) servers(context.Context) ([]string, error) {
	d.asked.Add(struct{}{})
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.list, d.err
}

// lines is a log of records at Warn and above.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Split(strings.TrimSpace(l.b.String()), "\n")
}

func (l *lines) option() conn.Option {
	return conn.WithLogger(slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelWarn})))
}

// addresses returns the addresses of fronts, as a list of servers.
func addresses(fronts []*zktest.Front) (list []string) {
	for _, f := range fronts {
		list = append(list, f.Addr())
	}
	return list
}

// The three servers of the connect string are replaced one by one. The client finds the new ones, and its lock is held
// throughout.
func TestWithServers_AllServersReplaced_TheHoldLivesOn(t *testing.T) {
	t.Parallel()
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		fronts := srv.Fronts()
		d := &directory{}
		d.set(nil, addresses(fronts[:3])...)
		c := trial.DialTo(t, strings.Join(addresses(fronts[:3]), ","), conn.WithDialer(srv.DialAs(trial.Label)),
			conn.WithServers(d.servers))
		m, err := mutex.New(c, "/lock")
		require.NoError(t, err)
		hold, err := m.Lock(t.Context())
		require.NoError(t, err)
		for i := range 3 {
			d.set(nil, addresses(fronts[i+1:i+4])...)
			fronts[i].Stop()
			time.Sleep(time.Minute)
			require.NoError(t, hold.Err())
		}
		require.Contains(t, addresses(fronts[3:6]), c.Status().Server)
		require.NoError(t, hold.Release(t.Context()))
	}, zktest.WithFronts(7))
}

// Each round in which no server answers calls the function once.
func TestWithServers_EachRound_AsksOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &directory{}
		d.set(nil, "a", "b:1", "b:1")
		var dialed trial.Log[string]
		dial := func(_ context.Context, _, address string) (net.Conn, error) {
			dialed.Add(address)
			return nil, syscall.ECONNREFUSED
		}
		_, err := conn.Dial(trial.Within(t, 10*time.Second+time.Millisecond), "first", conn.WithDialer(dial),
			conn.WithServers(d.servers), trial.EverySecond)
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
		require.Len(t, d.asked.All(), 12, "once by Dial, then at 0 s, 1 s and so on")
		require.Len(t, dialed.All(), 2*11)
		require.Subset(t, []string{"a:2181", "b:1"}, dialed.Values())
	})
}

// If the function returns no usable server, the client keeps the last list and logs that once. Usable servers are used.
func TestWithServers_BadAnswer_TheLastListStays(t *testing.T) {
	t.Parallel()
	away := errors.New("the directory is away")
	for name, c := range map[string]struct {
		err  error
		list []string
		says string
	}{
		"an error": {err: away, list: []string{"elsewhere:2181"}, says: "the directory is away"},
		"empty":    {says: "no servers"},
		"no address": {
			list: []string{"", ":2181", "::1", "[zk]:1", "a b", "zk:0", "zk:x", "zk:99999", "[::1"},
			says: "keeping the previous ones",
		},
		"one of them good": {list: []string{"zk:65536", "127.0.0.2:1"}, says: "some servers cannot be used"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			trial.Run(t, func(t *testing.T, srv *zktest.Server) {
				d, log := &directory{}, &lines{}
				d.set(nil, "127.0.0.2:1")
				client := trial.DialTo(t, srv.Fronts()[0].Addr(), conn.WithDialer(srv.DialAs(trial.Label)),
					conn.WithServers(d.servers), log.option())
				require.Equal(t, "127.0.0.2:1", client.Status().Server)
				d.set(c.err, c.list...)
				for range 3 {
					time.Sleep(time.Minute)
					trial.Reconnect(srv, client)
					require.Equal(t, "127.0.0.2:1", client.Status().Server)
				}
				require.Len(t, log.all(), 1)
				require.Contains(t, log.all()[0], c.says)

				d.set(nil, "127.0.0.3:1")
				time.Sleep(time.Minute)
				trial.Reconnect(srv, client)
				require.Equal(t, "127.0.0.3:1", client.Status().Server)
			}, zktest.WithFronts(3))
		})
	}
}

// A function that does not return costs half of an attempt to connect.
func TestWithServers_NoAnswer_IsNotWaitedFor(t *testing.T) {
	t.Parallel()
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		hang := func(ctx context.Context) ([]string, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		var c *conn.Client
		open := func() { c = trial.Dial(t, srv, conn.WithServers(hang), conn.WithConnectTimeout(time.Second)) }
		require.Equal(t, time.Second, trial.After(open), "once by Dial, once by the first round")
		time.Sleep(time.Minute)
		require.InDelta(t, 0.5, trial.After(func() { trial.Reconnect(srv, c) }).Seconds(), 0.002)
	})
}

// config returns a dynamic configuration that lists the fronts.
func config(version string, fronts ...*zktest.Front) []byte {
	var b strings.Builder
	for i, f := range fronts {
		host, port, _ := net.SplitHostPort(f.Addr())
		fmt.Fprintf(&b, "server.%d=%s:2888:3888:participant;0.0.0.0:%s\n", i+1, host, port)
	}
	return []byte(b.String() + "version=" + version)
}

// tracking connects, below a chroot, to the first three of seven fronts. All addresses other than those of fronts drop
// packets.
func tracking(t *testing.T, srv *zktest.Server, opts ...conn.Option) *conn.Client {
	t.Helper()
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		if !slices.Contains(addresses(srv.Fronts()), address) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return srv.DialAs(trial.Label)(ctx, network, address)
	}
	c := trial.DialTo(t, strings.Join(addresses(srv.Fronts()[:3]), ",")+"/app",
		append(opts, conn.WithDialer(dial), conn.WithEnsembleTracking())...)
	synctest.Wait()
	return c
}

// long is a session timeout for tests with many clients, which then send few pings.
const long = 40 * time.Second

// lock acquires a lock.
func lock(t *testing.T, c *conn.Client) *zkrecipes.Hold {
	t.Helper()
	m, err := mutex.New(c, "/lock")
	require.NoError(t, err)
	hold, err := m.Lock(t.Context())
	require.NoError(t, err)
	return hold
}

// The ensemble is reconfigured one server at a time. The client was given none of the final servers, but follows, and
// its lock is held throughout.
func TestEnsembleTracking_AllServersReplaced_TheHoldLivesOn(t *testing.T) {
	t.Parallel()
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		fronts, log := srv.Fronts(), &lines{}
		c := tracking(t, srv, log.option())
		hold := lock(t, c)
		for i := range 3 {
			require.NoError(t, srv.Set("/zookeeper/config", config(fmt.Sprintf("%x", 1<<32+int64(i)), fronts[i+1:i+4]...)))
			time.Sleep(time.Minute)
			fronts[i].Stop()
			time.Sleep(time.Minute)
			require.NoError(t, hold.Err())
		}
		require.Contains(t, addresses(fronts[3:6]), c.Status().Server)
		require.NoError(t, hold.Release(t.Context()))
		require.NoError(t, c.Close())
		require.Equal(t, []string{""}, log.all())
	}, zktest.WithFronts(7))
}

// A configuration is ignored if its version is smaller than the newest, if it is malformed, or if it has no client
// addresses.
func TestEnsembleTracking_OlderOrMalformed_IsIgnored(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ config, says string }{
		"older":     {"server.1=10.0.0.1:1:2;1\nversion=fff", "ignored an outdated configuration of the ensemble"},
		"malformed": {"server.1=10.0.0.1:1:2;1\nversion=-1", "some servers cannot be used"},
		"static":    {"server.1=10.0.0.1:1:2:participant\nversion=200000000", ""},
		"empty":     {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			trial.Run(t, func(t *testing.T, srv *zktest.Server) {
				log := &lines{}
				client := tracking(t, srv, log.option())
				require.NoError(t, srv.Set("/zookeeper/config", config("100000005", srv.Fronts()[3:6]...)))
				synctest.Wait()
				require.NoError(t, srv.Set("/zookeeper/config", []byte(c.config)))
				synctest.Wait()
				require.Contains(t, strings.Join(log.all(), ""), c.says)
				for _, front := range srv.Fronts()[:3] {
					front.Stop()
				}
				time.Sleep(time.Minute)
				require.Contains(t, addresses(srv.Fronts()[3:6]), client.Status().Server)
			}, zktest.WithFronts(7))
		})
	}
}

// Without permission to read the configuration, the client logs that once and keeps the servers that it was given.
func TestEnsembleTracking_NoPermission_IsLoggedOnce(t *testing.T) {
	t.Parallel()
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		srv.Intercept(zktest.Match{Op: zktest.OpGetData, Times: -1, Where: func(r zktest.Request) bool {
			return r.Path == "/zookeeper/config"
		}},
			zktest.Fail(zktest.CodeNoAuth))
		log := &lines{}
		c := tracking(t, srv, log.option())
		time.Sleep(5 * time.Minute)
		require.Len(t, log.all(), 1)
		require.Contains(t, log.all()[0], "zookeeper: cannot follow the configuration of the ensemble")
		require.Equal(t, zkrecipes.Connected, c.Status().State)
	}, zktest.WithFronts(7))
}

// count returns the number of clients of each front.
func count(srv *zktest.Server, clients []*conn.Client) (counts []int) {
	for _, f := range srv.Fronts() {
		n := 0
		for _, c := range clients {
			if c.Status().Server == f.Addr() {
				n++
			}
		}
		counts = append(counts, n)
	}
	return counts
}

// After three servers have restarted one by one, the last has no clients. Clients with locks then move, each at most
// once, and all locks are held throughout.
func TestRebalance_RollingRestart_ClientsAreSpreadAgain(t *testing.T) {
	t.Parallel()
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		var clients []*conn.Client
		var holds []*zkrecipes.Hold
		for i := range 60 {
			c := trial.DialTo(t, srv.Addrs(), conn.WithDialer(srv.DialAs(trial.Label)), conn.WithRebalance(10*time.Minute),
				conn.WithSessionTimeout(long))
			m, err := mutex.New(c, fmt.Sprintf("/lock%d", i))
			require.NoError(t, err)
			hold, err := m.Lock(t.Context())
			require.NoError(t, err)
			clients, holds = append(clients, c), append(holds, hold)
		}
		for _, f := range srv.Fronts() {
			time.Sleep(10 * time.Second)
			f.Stop()
			time.Sleep(2 * time.Second)
			require.NoError(t, f.Start())
		}
		time.Sleep(5 * time.Second)
		before := count(srv, clients)
		require.LessOrEqual(t, before[2], 5)
		states := make([]*trial.Log[zkrecipes.State], len(clients))
		for i, c := range clients {
			states[i] = trial.States(t, c)
		}
		time.Sleep(20 * time.Minute)
		after := count(srv, clients)
		t.Log("clients of each server, before and after:", before, after)
		require.NotContains(t, after, 0, "by chance once in 10^10 runs")
		for i, hold := range holds {
			require.NoError(t, hold.Err())
			require.LessOrEqual(t, len(states[i].All()), 3, "connected, suspended, connected")
		}
	}, zktest.WithFronts(3))
}

// While a request is unanswered, or a hold ends with the connection, the client stays.
func TestRebalance_NoQuietMoment_ClientStays(t *testing.T) {
	t.Parallel()
	for name, busy := range map[string]func(t *testing.T, srv *zktest.Server, c *conn.Client){
		"a request": func(t *testing.T, srv *zktest.Server, c *conn.Client) {
			srv.Intercept(zktest.Match{Op: zktest.OpExists, Times: -1}, zktest.HoldReply(2*time.Second))
			for range 2 { // one is still unanswered when the other is answered
				go func() {
					for t.Context().Err() == nil {
						_, _, _ = c.Exists(t.Context(), "/x")
					}
				}()
				time.Sleep(time.Second)
			}
		},
		"a hold that ends with the connection": func(t *testing.T, _ *zktest.Server, c *conn.Client) {
			m, err := mutex.New(c, "/lock", mutex.WithLossOnSuspend())
			require.NoError(t, err)
			_, err = m.Lock(t.Context())
			require.NoError(t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range 5 { // the server is random
				trial.Run(t, func(t *testing.T, srv *zktest.Server) {
					c := trial.DialTo(t, srv.Addrs(), conn.WithDialer(srv.DialAs(trial.Label)), conn.WithRebalance(time.Minute))
					time.Sleep(2 * time.Second)
					trial.Reconnect(srv, c)
					busy(t, srv, c)
					states := trial.States(t, c)
					time.Sleep(10 * time.Minute)
					require.Len(t, states.All(), 1)
				}, zktest.WithFronts(3))
			}
		})
	}
}

// The client found no quiet moment to move to the server that it had drawn, and stayed. When its own server leaves the
// ensemble later, the client leaves that server.
func TestRebalance_NoQuietMomentAndThenItsServerLeaves_TheClientMoves(t *testing.T) {
	t.Parallel()
	for range 5 { // the server that it draws is random
		trial.Run(t, func(t *testing.T, srv *zktest.Server) {
			fronts := srv.Fronts()
			require.NoError(t, srv.Set("/zookeeper/config", config("100000001", fronts...)))
			c := tracking(t, srv, conn.WithRebalance(time.Minute))
			time.Sleep(2 * time.Second)
			trial.Reconnect(srv, c)
			m, err := mutex.New(c, "/lock", mutex.WithLossOnSuspend())
			require.NoError(t, err)
			hold, err := m.Lock(t.Context())
			require.NoError(t, err)
			time.Sleep(3 * time.Minute)
			require.NoError(t, hold.Release(t.Context()))
			at := c.Status().Server
			others := slices.DeleteFunc(slices.Clone(fronts), func(f *zktest.Front) bool { return f.Addr() == at })
			require.NoError(t, srv.Set("/zookeeper/config", config("100000002", others...)))
			time.Sleep(3 * time.Minute)
			require.NotEqual(t, at, c.Status().Server)
		}, zktest.WithFronts(3))
	}
}

// The server that the client moves to drops packets. The client returns after one attempt, and its hold survives.
func TestRebalance_ServerSwallowsPackets_TheHoldLivesOn(t *testing.T) {
	t.Parallel()
	for range 5 { // the server is random
		swallowed(t, 0)
	}
}

// The goroutine that leaves the server may be so late that the next round has begun. It must not cut that round short.
func TestRebalance_LeavesLateForServerThatSwallowsPackets_TheHoldLivesOn(t *testing.T) {
	t.Parallel()
	for range 5 { // the server is random
		swallowed(t, time.Second)
	}
}

// swallowed moves a client to a server that swallows packets, as all do but the one that it leaves. Closing the
// connection takes late.
func swallowed(t *testing.T, late time.Duration) {
	t.Helper()
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		var only atomic.Pointer[string]
		dial := func(ctx context.Context, network, address string) (net.Conn, error) {
			if at := only.Load(); at != nil && *at != address {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			c, err := srv.DialAs(trial.Label)(ctx, network, address)
			return &closer{Conn: c, closed: func() {
				if only.Load() != nil {
					time.Sleep(late)
				}
			}}, err
		}
		c := trial.DialTo(t, srv.Addrs(), conn.WithDialer(dial), conn.WithRebalance(time.Minute))
		hold := lock(t, c)
		time.Sleep(2 * time.Second)
		trial.Reconnect(srv, c)
		at := c.Status().Server
		only.Store(&at)
		states := trial.States(t, c)
		time.Sleep(3 * time.Minute)
		require.NoError(t, hold.Err())
		require.Equal(t, at, c.Status().Server)
		if all := states.All(); len(all) > 1 { // else the client has picked its current server
			require.Len(t, all, 3)
			require.LessOrEqual(t, all[2].At.Sub(all[1].At), late+trial.Timeout/6)
		}
	}, zktest.WithFronts(7))
}

// The server that the client moves to accepts the connection and does not answer. It may have resumed the session with
// the least timeout. A client whose hold would not survive that stays; it used to move, and lost the hold.
func TestRebalance_ServerAcceptsAndIsSilent_TheHoldLivesOn(t *testing.T) {
	t.Parallel()
	for timeout, moves := range map[time.Duration]bool{10 * time.Second: true, 30 * time.Second: false} {
		trial.Run(t, func(t *testing.T, srv *zktest.Server) {
			var only atomic.Pointer[string]
			var silent atomic.Int32
			c := trial.DialTo(t, srv.Addrs(), conn.WithRebalance(time.Minute), conn.WithSessionTimeout(timeout),
				conn.WithLeastTimeout(4*time.Second), conn.WithDialer(
					func(ctx context.Context, network, address string) (net.Conn, error) {
						if at := only.Load(); at != nil && *at != address {
							silent.Add(1)
							here, there := net.Pipe()
							go func() { _, _ = io.Copy(io.Discard, there) }()
							return here, nil
						}
						return srv.DialAs(trial.Label)(ctx, network, address)
					}))
			hold := lock(t, c)
			for range 10 { // the server to move to is random
				time.Sleep(2 * time.Second)
				trial.Reconnect(srv, c)
				at := c.Status().Server
				only.Store(&at)
				time.Sleep(3 * time.Minute)
				require.NoError(t, hold.Err())
				require.Equal(t, at, c.Status().Server)
				only.Store(nil)
			}
			require.Equal(t, moves, silent.Load() > 0)
		}, zktest.WithFronts(7))
	}
}

// closer is a connection that calls closed when it has been closed for the first time.
type closer struct {
	net.Conn
	closed func()
	again  atomic.Bool
}

func (c *closer) Close() error {
	err := c.Conn.Close()
	if !c.again.Swap(true) {
		c.closed()
	}
	return err
}

// Servers join the ensemble, leave it, and are replaced. The clients of a server that has left move, and only as many
// others as the balance requires, before any server stops. All locks are held throughout.
func TestRebalance_EnsembleChanges_ClientsMove(t *testing.T) {
	t.Parallel()
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		var clients []*conn.Client
		var holds []*zkrecipes.Hold
		connects := make([]int, 60)
		for i := range connects {
			c := tracking(t, srv, conn.WithRebalance(3*time.Minute), conn.WithSessionTimeout(long),
				conn.WithTracer(&zkrecipes.Tracer{State: func(c zkrecipes.StateChange) {
					if c.To == zkrecipes.Connected {
						connects[i]++
					}
				}}))
			m, err := mutex.New(c, fmt.Sprintf("/lock%d", i))
			require.NoError(t, err)
			hold, err := m.Lock(t.Context())
			require.NoError(t, err)
			clients, holds = append(clients, c), append(holds, hold)
		}
		fronts := srv.Fronts()
		require.NoError(t, srv.Set("/zookeeper/config", config("100000001", fronts[:3]...)))
		synctest.Wait()
		for i, step := range []struct {
			members []*zktest.Front
			most    int // clients that may move
		}{
			{fronts[:5], 45}, {fronts[2:5], 45}, {fronts[4:7], 60},
		} {
			before, was := count(srv, clients), slices.Clone(connects)
			require.NoError(t, srv.Set("/zookeeper/config", config(fmt.Sprintf("10000000%d", i+2), step.members...)))
			time.Sleep(6 * time.Minute)
			after, moved := count(srv, clients), 0
			for j := range connects {
				require.LessOrEqual(t, connects[j]-was[j], 1, "a client moves once")
				moved += connects[j] - was[j]
			}
			t.Log("clients of each server, before and after:", before, after, "moved:", moved)
			require.LessOrEqual(t, moved, step.most)
			for j, front := range fronts {
				if slices.Contains(step.members, front) {
					require.NotZero(t, after[j], "by chance once in 10^5 runs")
				} else {
					require.Zero(t, after[j])
				}
			}
		}
		for _, hold := range holds {
			require.NoError(t, hold.Err())
		}
	}, zktest.WithFronts(7))
}

// The leader and another server leave the ensemble, which ends all connections, and they end a second time before the
// clients have moved. Some clients reconnect to a server that has left but still serves. They leave it, too.
func TestRebalance_LeaderLeaves_NoClientStays(t *testing.T) {
	t.Parallel()
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		fronts := srv.Fronts()
		require.NoError(t, srv.Reconfigure(fronts[:3]...))
		var clients []*conn.Client
		for range 30 {
			clients = append(clients, tracking(t, srv, conn.WithRebalance(time.Minute)))
		}
		hold := lock(t, clients[0])
		require.True(t, fronts[2].Leads())
		require.NoError(t, srv.Reconfigure(fronts...))
		time.Sleep(5 * time.Minute)
		require.NoError(t, srv.Reconfigure(fronts[0], fronts[3], fronts[4]))
		time.Sleep(5 * time.Second)
		srv.Cut(trial.Ours)
		time.Sleep(5 * time.Minute)
		after := count(srv, clients)
		require.Equal(t, []int{0, 0}, after[1:3], "%v", after)
		require.NoError(t, hold.Err())
	}, zktest.WithFronts(5), zktest.WithReconfig())
}

// ownZone prefers the first and the second server.
func ownZone(server string) bool { return server == "127.0.0.1:1" || server == "127.0.0.2:1" }

// The servers of the client's own zone are tried before the others. While both are down, the client uses another one,
// and returns when one of them is back; without WithRebalance it does not.
func TestPreferredServers_OwnZoneIsAway_TheClientComesBack(t *testing.T) {
	t.Parallel()
	for range 5 { // the order is random
		trial.Run(t, func(t *testing.T, srv *zktest.Server) {
			dial := conn.WithDialer(srv.DialAs(trial.Label))
			c := trial.DialTo(t, srv.Addrs(), dial, conn.WithPreferredServers(ownZone), conn.WithRebalance(time.Minute))
			stays := trial.DialTo(t, srv.Addrs(), dial, conn.WithPreferredServers(ownZone))
			require.True(t, ownZone(c.Status().Server))
			hold, own := lock(t, c), srv.Fronts()[:2]
			own[0].Stop()
			own[1].Stop()
			for range 10 {
				time.Sleep(time.Minute)
				require.Equal(t, zkrecipes.Connected, c.Status().State)
				require.False(t, ownZone(c.Status().Server))
			}
			require.NoError(t, own[1].Start())
			time.Sleep(20 * time.Minute) // it also picks the one that is still down
			require.Equal(t, own[1].Addr(), c.Status().Server)
			require.False(t, ownZone(stays.Status().Server))
			states := trial.States(t, c)
			time.Sleep(10 * time.Minute)
			require.Len(t, states.All(), 1, "it stays there")
			require.NoError(t, hold.Err())
		}, zktest.WithFronts(7))
	}
}

// The connect string names none of the client's own zone. The client learns of them from the configuration, and moves
// to one of them.
func TestPreferredServers_OwnZoneIsInTheConfiguration_TheClientMovesThere(t *testing.T) {
	t.Parallel()
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		fronts := srv.Fronts()
		require.NoError(t, srv.Set("/zookeeper/config", config("100000001", fronts...)))
		c := trial.DialTo(t, fronts[2].Addr(), conn.WithDialer(srv.DialAs(trial.Label)), conn.WithEnsembleTracking(),
			conn.WithPreferredServers(ownZone), conn.WithRebalance(time.Minute))
		hold := lock(t, c)
		time.Sleep(3 * time.Minute)
		require.True(t, ownZone(c.Status().Server), c.Status().Server)
		require.NoError(t, hold.Err())
	}, zktest.WithFronts(3))
}

// The only preferred server closes the connection, and takes the client back. It used to be tried last then. If it is
// silent, the others are tried first, because holds have no time to lose.
func TestPreferredServers_OnlyOne_IsTriedFirst(t *testing.T) {
	t.Parallel()
	for range 5 { // the order is random
		trial.Run(t, func(t *testing.T, srv *zktest.Server) {
			own := srv.Fronts()[2].Addr()
			c := trial.DialTo(t, srv.Addrs(), conn.WithDialer(srv.DialAs(trial.Label)),
				conn.WithPreferredServers(func(server string) bool { return server == own }))
			hold := lock(t, c)
			for range 5 {
				time.Sleep(time.Minute)
				srv.Cut(trial.Ours)
				time.Sleep(time.Second)
				require.Equal(t, own, c.Status().Server)
			}
			srv.Stall(trial.Ours, zktest.Both)
			time.AfterFunc(trial.Timeout*3/8, func() { srv.Heal(trial.Ours) })
			time.Sleep(trial.Timeout)
			require.NotEqual(t, own, c.Status().Server)
			require.NoError(t, hold.Err())
		}, zktest.WithFronts(3))
	}
}

// Clients that prefer a zone are spread over the servers of that zone only.
func TestPreferredServers_RollingRestart_ClientsAreSpreadInTheZone(t *testing.T) {
	t.Parallel()
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		var clients []*conn.Client
		for range 30 {
			clients = append(clients, trial.DialTo(t, srv.Addrs(), conn.WithDialer(srv.DialAs(trial.Label)),
				conn.WithPreferredServers(ownZone), conn.WithRebalance(10*time.Minute)))
		}
		for _, f := range srv.Fronts() {
			time.Sleep(10 * time.Second)
			f.Stop()
			time.Sleep(2 * time.Second)
			require.NoError(t, f.Start())
		}
		time.Sleep(30 * time.Minute)
		after := count(srv, clients)
		require.NotContains(t, after[:2], 0, "by chance once in 10^8 runs")
		require.Equal(t, []int{0, 0, 0}, after[2:])
	}, zktest.WithFronts(5))
}
