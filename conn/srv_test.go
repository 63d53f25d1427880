package conn_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/names"
	"github.com/zkrecipes/zkrecipes/internal/testkit/trial"
	"github.com/zkrecipes/zkrecipes/zktest"
)

const srvName = "_zookeeper._tcp.example.com"

// withNames runs a test in virtual time, with a name server and a server with three fronts: zk1.example.com:2001,
// zk2.example.com:2002 and zk3.example.com:2003.
func withNames(t *testing.T, test func(t *testing.T, ns *names.Server, srv *zktest.Server, dialer conn.Option)) {
	t.Helper()
	ns := names.Use(t)
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		test(t, ns, srv, conn.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			for i, front := range srv.Fronts() {
				if strings.HasSuffix(address, string("123"[i])) {
					return front.DialAs(trial.Label)(ctx, network, address)
				}
			}
			return trial.Refuse(ctx, network, address)
		}))
	}, zktest.WithFronts(3))
}

// The records are looked up again before each round, so that the client follows with its session when they are replaced
// one by one.
func TestSRV_RecordsChange_TheClientFollows(t *testing.T) {
	withNames(t, func(t *testing.T, ns *names.Server, srv *zktest.Server, dialer conn.Option) {
		ns.SetServices(srvName, net.SRV{Target: "zk1.example.com.", Port: 2001})
		c := trial.DialTo(t, "dns-srv://"+srvName+"/app", dialer)
		require.NoError(t, c.CreateAll(t.Context(), "/x", nil))
		require.Contains(t, srv.Children("/"), "app")
		require.Equal(t, "zk1.example.com:2001", c.Status().Server)
		s := trial.Live(t, c)
		ns.SetServices(srvName, net.SRV{Target: "zk2.example.com.", Port: 2002})
		time.Sleep(time.Minute)
		trial.Reconnect(srv, c)
		require.Equal(t, "zk2.example.com:2002", c.Status().Server)
		require.NoError(t, s.Err())
	})
}

// If the name no longer exists, or its records name no server, the client keeps the last servers.
func TestSRV_RecordsGone_TheLastServersStay(t *testing.T) {
	for name, records := range map[string][]net.SRV{
		"no name":    nil,
		"no service": {{Target: "."}},
		"no port":    {{Target: "zk3.example.com."}},
	} {
		t.Run(name, func(t *testing.T) {
			withNames(t, func(t *testing.T, ns *names.Server, srv *zktest.Server, dialer conn.Option) {
				ns.SetServices(srvName, net.SRV{Target: "zk1.example.com.", Port: 2001})
				log := &lines{}
				c := trial.DialTo(t, "dns-srv://"+srvName, dialer, log.option())
				ns.SetServices(srvName, records...)
				for range 3 {
					time.Sleep(time.Minute)
					trial.Reconnect(srv, c)
					require.Equal(t, "zk1.example.com:2001", c.Status().Server)
				}
				require.Len(t, log.all(), 1)
				require.Contains(t, log.all()[0], "zookeeper: cannot look up the servers, keeping the previous ones")
				require.Contains(t, log.all()[0], "source=dns-srv://"+srvName)
			})
		})
	}
}

// Dial gives up a name without records after 5 s. New keeps trying, reports the reason, and finds the records when
// they appear.
func TestSRV_NoRecords_DialFailsAndNewGoesOn(t *testing.T) {
	withNames(t, func(t *testing.T, ns *names.Server, _ *zktest.Server, dialer conn.Option) {
		var err error
		took := trial.After(func() { _, err = conn.Dial(t.Context(), "dns-srv://"+srvName, dialer) })
		require.ErrorContains(t, err, "connect to dns-srv://"+srvName+": none of the server names resolves: lookup "+srvName)
		require.Equal(t, 5*time.Second, took)

		c, err := conn.New("dns-srv://"+srvName, dialer, trial.EverySecond)
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close()) }()
		synctest.Wait()
		require.ErrorContains(t, c.Status().LastError, "connect to dns-srv://"+srvName+": lookup "+srvName)
		ns.SetServices(srvName, net.SRV{Target: "zk1.example.com.", Port: 2001},
			net.SRV{Target: "zk2.example.com.", Port: 2002})
		require.Equal(t, time.Second, trial.After(func() { require.NoError(t, c.Ready(t.Context())) }))
	})
}

func TestServers_OfEachKindOfConnectString(t *testing.T) {
	ns := names.Use(t)
	ns.SetServices(srvName, net.SRV{Target: "zk1.example.com.", Port: 2001},
		net.SRV{Target: "zk2.example.com", Port: 2002, Priority: 1}, net.SRV{Target: "."})
	for connect, want := range map[string]struct {
		servers []string
		chroot  string
	}{
		"zk1, zk2:1,[::1]":            {[]string{"zk1:2181", "zk2:1", "[::1]:2181"}, ""},
		"zk1:2181/app":                {[]string{"zk1:2181"}, "/app"},
		"dns-srv://" + srvName:        {[]string{"zk1.example.com:2001", "zk2.example.com:2002"}, ""},
		"dns-srv://" + srvName + "/a": {[]string{"zk1.example.com:2001", "zk2.example.com:2002"}, "/a"},
	} {
		servers, chroot, err := conn.Servers(t.Context(), connect)
		require.NoError(t, err, connect)
		require.Equal(t, want.servers, servers)
		require.Equal(t, want.chroot, chroot)
	}
	_, _, err := conn.Servers(t.Context(), "dns-srv://nobody.example.com/app")
	require.ErrorContains(t, err, "servers of dns-srv://nobody.example.com/app: lookup nobody.example.com")
	_, _, err = conn.Servers(t.Context(), "zk1,zk1:0")
	require.ErrorContains(t, err, `server "zk1:0": port "0" is not between 1 and 65535`)
}

func TestSRV_BadConnectStrings_NameTheRightForm(t *testing.T) {
	t.Parallel()
	for connect, want := range map[string]string{
		"dns-srv://":                    "want one name without a port, such as _zookeeper._tcp.example.com",
		"dns-srv:///app":                "want one name without a port",
		"dns-srv://a.example,b.example": "want one name without a port",
		"dns-srv://a.example:2181":      "want one name without a port",
		"dns-srv://a.example/app/":      "chroot: ",
		"dns-srv://a.example/../x":      "chroot: ",
		srvName + "/app":                "want dns-srv://" + srvName + "[/chroot]",
		"zk1:2181," + srvName:           "want dns-srv://" + srvName + "[/chroot]",
		"zk1:2181,dns-srv://" + srvName: "unexpected scheme dns-srv://",
		"DNS-SRV://a.example":           "unexpected scheme DNS-SRV://",
	} {
		_, err := conn.New(connect)
		require.ErrorContains(t, err, "connect string", connect)
		require.ErrorContains(t, err, want, connect)
	}
	_, err := conn.New("dns-srv://"+srvName, conn.WithServers(func(context.Context) ([]string, error) { return nil, nil }))
	require.ErrorContains(t, err, "both dns-srv://"+srvName+" and WithServers list the servers")
}
