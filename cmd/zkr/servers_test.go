//go:build unix

package main

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/exit"
	"github.com/zkrecipes/zkrecipes/internal/testkit/names"
	"github.com/zkrecipes/zkrecipes/zktest"
)

const srvName = "_zookeeper._tcp.example.com"

// withSRV publishes the fronts of a server as SRV records, and returns a function that runs zkr with them.
func withSRV(t *testing.T, srv *zktest.Server) func(connect string, args ...string) *zkr {
	t.Helper()
	ns := names.Use(t)
	var records []net.SRV
	for i, front := range srv.Fronts() {
		host, port, err := net.SplitHostPort(front.Addr())
		require.NoError(t, err)
		number, err := strconv.ParseUint(port, 10, 16)
		require.NoError(t, err)
		name := fmt.Sprintf("zk%d.example.com", i+1)
		ns.Set(name, host)
		records = append(records, net.SRV{Target: name, Port: uint16(number), Priority: uint16(i)})
	}
	ns.SetServices(srvName, records...)
	at := ns.Listen(t)
	return func(connect string, args ...string) *zkr {
		z := command(t, connect, args...)
		z.Env = append(z.Env, nameServer+"="+at)
		return z
	}
}

// TestSRV_EachVerbFindsTheServers: verbs that contact each server individually look up the records as well.
func TestSRV_EachVerbFindsTheServers(t *testing.T) {
	srv := zktest.Run(t, zktest.WithFronts(3))
	run := withSRV(t, srv)
	for _, x := range []struct {
		args []string
		says string
	}{
		{[]string{"lock", "/q", "--", "true"}, ``},
		{
			[]string{"doctor", "/q"},
			`(?s)\nzk1\.example\.com:\d+ .*\nzk2\.example\.com:\d+ .*\nzk3\.example\.com:\d+ .*all is well\n$`,
		},
		{[]string{"status", "-o", "value", "/q"}, `^free\n$`},
	} {
		z := run("dns-srv://"+srvName+"/app", x.args...)
		require.NoError(t, z.Start())
		require.Zero(t, z.status(t), z.err.String())
		require.Regexp(t, x.says, z.out.String())
	}
	require.Contains(t, srv.Children("/"), "app")
}

// TestSRV_NoRecords: the message names the service, once.
func TestSRV_NoRecords(t *testing.T) {
	run := withSRV(t, zktest.Run(t))
	for _, verb := range []string{"status", "doctor"} {
		for limit := 300 * time.Millisecond; ; limit *= 2 {
			z := run("dns-srv://_other._tcp.example.com/app", verb, "--connect-timeout="+limit.String(), "/q")
			require.NoError(t, z.Start())
			require.Equal(t, exit.Unreachable, z.status(t))
			if !strings.Contains(z.err.String(), "no such host") && limit < 10*time.Second {
				continue // the name server is slow
			}
			require.Regexp(t, `^zkr: [^\n]*lookup _other\._tcp\.example\.com[^\n]*no such host[^\n]*\n$`, z.err.String())
			require.Empty(t, z.out.String())
			break
		}
	}
	z := run("dns-srv://"+srvName+":2181", "status", "/q")
	require.NoError(t, z.Start())
	require.Equal(t, exit.Usage, z.status(t))
	require.Contains(t, z.err.String(), "want one name without a port, such as _zookeeper._tcp.example.com")
}

// TestEnsembleTracking_ServersReplaced: with the flag, zkr keeps its lock after all servers that it was given are gone.
func TestEnsembleTracking_ServersReplaced(t *testing.T) {
	srv := zktest.Run(t, zktest.WithFronts(5))
	z := begin(t, srv.Fronts()[0].Addr()+","+srv.Fronts()[1].Addr(), "elect", "--ensemble-tracking", "--rebalance=1m",
		"/leader", "--", "sleep", "1000")
	eventually(t, "it knows the servers",
		func() bool { return strings.Contains(z.err.String(), "source=/zookeeper/config") })
	eventually(t, "it leads", func() bool { return strings.Contains(z.err.String(), "elected at /leader") })
	leader := srv.Children("/leader")
	srv.Fronts()[0].Stop()
	srv.Fronts()[1].Stop()
	eventually(t, "it is at another server", func() bool {
		return slices.ContainsFunc(srv.Fronts()[2:], func(f *zktest.Front) bool {
			return strings.Contains(z.err.String(), `msg="zookeeper: connected" server=`+f.Addr())
		})
	})
	require.Equal(t, leader, srv.Children("/leader"))
	require.NotContains(t, z.err.String(), "lost")
	require.NoError(t, z.Process.Signal(syscall.SIGTERM))
	z.status(t)
}
