package conn_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/names"
	"github.com/zkrecipes/zkrecipes/internal/testkit/trial"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// route maps the addresses that the client dials to those of srv, and refuses all others.
func route(srv *zktest.Server, routes map[string]string) conn.Option {
	return conn.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
		if to, ok := routes[address]; ok {
			return srv.DialAs(trial.Label)(ctx, network, to)
		}
		return trial.Refuse(ctx, network, address)
	})
}

// besides returns a client of srv that is also given the server of another ensemble, at addresses that begin with
// "10.".
func besides(t *testing.T, srv, other *zktest.Server, d *directory, opts ...conn.Option) *conn.Client {
	t.Helper()
	d.set(nil, srv.Addr())
	return trial.DialTo(t, srv.Addr(), append(opts, conn.WithServers(d.servers),
		conn.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			if strings.HasPrefix(address, "10.") {
				return other.DialAs(trial.Label)(ctx, network, other.Addr())
			}
			return srv.DialAs(trial.Label)(ctx, network, address)
		}))...)
}

// The servers of an ensemble with a lower zxid refuse a client that has seen a higher one. The list may therefore name
// them: the client moves on to its own servers, and its lock is held throughout.
func TestWithServers_NamesAYoungerEnsemble_TheHoldLivesOn(t *testing.T) {
	t.Parallel()
	for range 5 { // the order is random
		trial.Run(t, func(t *testing.T, srv *zktest.Server) {
			other, d := zktest.Run(t, zktest.InMemory()), &directory{}
			srv.SetZxid(1 << 40)
			c := besides(t, srv, other, d)
			hold := lock(t, c)
			d.set(nil, "10.0.0.1:1", "10.0.0.2:1", srv.Addr())
			for range 5 {
				time.Sleep(time.Minute)
				trial.Reconnect(srv, c)
				require.Equal(t, srv.Addr(), c.Status().Server)
				require.NoError(t, hold.Err())
			}
			require.Empty(t, other.Sessions())
		})
	}
}

// The servers of an ensemble with a higher zxid do not know the session and report that it has expired. The hold is
// lost at once, before another client can acquire the lock, and the loss is logged.
func TestWithServers_NamesAnOlderEnsemble_TheHoldIsLostFirst(t *testing.T) {
	t.Parallel()
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		other, d, log := zktest.Run(t, zktest.InMemory()), &directory{}, &lines{}
		other.SetZxid(1 << 40)
		c := besides(t, srv, other, d, log.option())
		hold := lock(t, c)
		next := trial.Dial(t, srv)
		granted := make(chan time.Time, 1)
		go func() { lock(t, next); granted <- time.Now() }()
		d.set(nil, "10.0.0.1:1")
		time.Sleep(time.Minute)
		cut := time.Now()
		srv.Cut(zktest.Session(trial.Live(t, c).ID()))
		<-hold.Done()
		lost := time.Now()
		var why *zkrecipes.LostError
		require.ErrorAs(t, hold.Err(), &why)
		require.Equal(t, zkrecipes.LossExpired, why.Reason)
		require.Less(t, lost.Sub(cut), time.Second)
		require.True(t, lost.Before(<-granted))
		require.NoError(t, c.Ready(t.Context()))
		require.Equal(t, "10.0.0.1:1", c.Status().Server)
		require.Contains(t, strings.Join(log.all(), ""), "expired")
	})
}

// Clients reach the servers through a proxy, at other ports than those in the configuration, which refuse connections.
// A client with a lock reconnects to the given addresses each time, and never moves to the others.
func TestEnsembleTracking_PortsBehindAProxy_TheHoldLivesOn(t *testing.T) {
	t.Parallel()
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		routes, given := map[string]string{}, []string{}
		for i, front := range srv.Fronts() {
			given = append(given, fmt.Sprintf("192.168.0.1:%d", 9001+i))
			routes[given[i]] = front.Addr()
		}
		log := &lines{}
		c := trial.DialTo(t, strings.Join(given, ","), route(srv, routes), conn.WithEnsembleTracking(),
			conn.WithRebalance(time.Minute), log.option())
		hold := lock(t, c)
		for range 20 {
			time.Sleep(2 * time.Minute)
			require.Less(t, trial.After(func() { trial.Reconnect(srv, c) }), time.Second)
			require.Contains(t, given, c.Status().Server)
			require.NoError(t, hold.Err())
		}
		require.Equal(t, []string{""}, log.all())
	}, zktest.WithFronts(3))
}

// Whatever the configuration says, the client keeps the servers that it was given, and finds one of them in the time of
// one attempt to connect.
func TestEnsembleTracking_ConfigurationLies_TheHoldLivesOn(t *testing.T) {
	t.Parallel()
	var thousand strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&thousand, "server.%d=10.0.%d.%d:2888:3888:participant;2181\n", i, i/250, i%250+1)
	}
	noise := make([]byte, 1<<19)
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
	for name, text := range map[string]string{
		"a thousand servers that swallow packets": thousand.String() + "version=ffffffff0",
		"all addresses are 0.0.0.0":               "server.1=0.0.0.0:2888:3888:participant;0.0.0.0:2181\nversion=ffffffff0",
		"no client address": "server.1=10.0.0.1:2888:3888:participant\n" +
			"server.2=10.0.0.2:2888:3888:participant;\nversion=ffffffff0",
		"the newest version there can be": "server.1=10.0.0.1:2888:3888:participant;2181\nversion=ffffffffffffffff",
		"no version":                      "server.1=10.0.0.1:2888:3888:participant;2181",
		"two versions":                    "server.1=10.0.0.1:2888:3888;2181\nversion=ffffffff0\nversion=1",
		"noise":                           string(noise),
		"one server a thousand times": strings.Repeat("server.1=10.0.0.1:2888:3888:participant;2181\n", 1000) +
			"version=ffffffff0",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			trial.Run(t, func(t *testing.T, srv *zktest.Server) {
				c := tracking(t, srv)
				hold := lock(t, c)
				require.NoError(t, srv.Set("/zookeeper/config", []byte(text)))
				for range 5 {
					time.Sleep(time.Minute)
					require.LessOrEqual(t, trial.After(func() { trial.Reconnect(srv, c) }), trial.Timeout/6+2*time.Millisecond)
					require.NoError(t, hold.Err())
				}
			}, zktest.WithFronts(7))
		})
	}
}

// After garbage from a name server, the client keeps the last servers, and the hold survives the delay.
func TestSRV_AnswersAreGarbage_TheLastServersStay(t *testing.T) {
	for name, distort := range map[string]func(answer []byte) []byte{
		"noise": func(answer []byte) []byte {
			_, _ = rand.NewChaCha8([32]byte{}).Read(answer[2:])
			return answer
		},
		"server failure": func(answer []byte) []byte { answer[3] |= 2; return answer },
	} {
		t.Run(name, func(t *testing.T) {
			withNames(t, func(t *testing.T, ns *names.Server, srv *zktest.Server, dialer conn.Option) {
				ns.SetServices(srvName, net.SRV{Target: "zk1.example.com.", Port: 2001})
				log := &lines{}
				c := trial.DialTo(t, "dns-srv://"+srvName, dialer, log.option())
				hold := lock(t, c)
				ns.Distort(distort)
				for range 3 {
					time.Sleep(time.Minute)
					require.Less(t, trial.After(func() { trial.Reconnect(srv, c) }), trial.Timeout/6)
					require.Equal(t, "zk1.example.com:2001", c.Status().Server)
					require.NoError(t, hold.Err())
				}
				require.Len(t, log.all(), 1)
				require.Contains(t, log.all()[0], "zookeeper: cannot look up the servers, keeping the previous ones")
			})
		})
	}
}

// One of a thousand records leads to a server. The client finds it, and the log names ten of the records.
func TestSRV_AThousandRecords_TheServerIsFound(t *testing.T) {
	withNames(t, func(t *testing.T, ns *names.Server, srv *zktest.Server, dialer conn.Option) {
		ns.SetServices(srvName, net.SRV{Target: "zk1.example.com.", Port: 2001})
		var log bytes.Buffer
		c := trial.DialTo(t, "dns-srv://"+srvName, dialer, conn.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		hold := lock(t, c)
		records := []net.SRV{{Target: "zk3.example.com", Port: 2003}}
		for i := range 999 {
			records = append(records, net.SRV{Target: fmt.Sprintf("n%d.example.com", i), Port: 9})
		}
		ns.SetServices(srvName, records...)
		time.Sleep(time.Minute)
		require.Less(t, trial.After(func() { trial.Reconnect(srv, c) }), time.Second)
		require.Equal(t, "zk3.example.com:2003", c.Status().Server)
		require.NoError(t, hold.Err())
		require.NoError(t, c.Close())
		require.Contains(t, log.String(), "n8.example.com:9 and 990 more]")
		require.Less(t, log.Len(), 3000)
	})
}
