//go:build unix

package main

import (
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/exit"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func TestDoctor_Well(t *testing.T) {
	srv := zktest.Run(t, zktest.WithFronts(3))
	out, _ := ends(t, 0, srv.Addrs(), "doctor", "/q")
	require.Regexp(t, `(?s)^SERVER.*follower.*leader.*4000 to 40000 ms, tick 2000 ms.*\nflag: --tick-time 2000ms lets `+
		`.*\nclock: the leader's is \S+ (ahead of|behind) ours, to within \S+\nall is well\n$`, out)
	require.Empty(t, srv.Tree("/zkr-doctor"))
	require.Len(t, srv.Children("/"), 1, "only /zookeeper")
}

// TestDoctor_TimeoutBelowSixTicks: as with a zoo.cfg without tickTime, where ZooKeeper's default is 3000.
func TestDoctor_TimeoutBelowSixTicks(t *testing.T) {
	srv := zktest.Run(t, zktest.WithFronts(3), zktest.WithTickTime(3*time.Second))
	out, _ := ends(t, 1, srv.Addrs(), "doctor", "--session-timeout=15s")
	require.Contains(t, out, "the session timeout of 15s is below six ticks of 3000 ms")
	require.Contains(t, out, "request at least 18s with --session-timeout")
	out, _ = ends(t, 0, srv.Addrs(), "doctor", "--session-timeout=18s")
	require.Contains(t, out, "all is well")
}

// TestDoctor_OneServer: doctor prints what a single server fails to report or lacks.
func TestDoctor_OneServer(t *testing.T) {
	srv := zktest.Run(t, zktest.WithFourLetterWords("srvr"))
	out, _ := ends(t, 1, srv.Addr()+",127.0.0.1:1", "doctor")
	require.Contains(t, out, "up to 40s")
	require.Contains(t, out, "127.0.0.1:1: dial tcp 127.0.0.1:1: connect: connection refused")
}

// TestDoctor_Unknown: doctor does not report that all is well if the servers have not listed the live sessions.
func TestDoctor_Unknown(t *testing.T) {
	srv := zktest.Run(t, zktest.WithFourLetterWords("srvr"))
	out, _ := ends(t, 0, srv.Addr(), "doctor", "/q")
	require.Contains(t, out, "sessions: unknown")
	require.Contains(t, out, "dump")
	require.NotContains(t, out, "all is well")
}

// TestDoctor_Ghost: two servers with different trees simulate an ensemble whose servers differ.
func TestDoctor_Ghost(t *testing.T) {
	with, without := zktest.Run(t), zktest.Run(t)
	c := dial(t, with)
	require.NoError(t, c.CreateAll(t.Context(), "/q", nil))
	_, err := c.Create(t.Context(), "/q/lock-", []byte("web1/42"), 3)
	require.NoError(t, err)
	out, _ := ends(t, 1, with.Addr()+","+without.Addr(), "doctor", "/q")
	require.Contains(t, out, "2 servers report that they lead")
	require.Contains(t, out, "ghost: /q/lock-0000000000 exists on "+with.Addr()+", but not on "+without.Addr())
}

// TestDoctor_LeavesMeanwhile: a contender that leaves while doctor asks the servers is no ghost.
func TestDoctor_LeavesMeanwhile(t *testing.T) {
	srv := zktest.Run(t)
	holder := locked(t, srv, "/q", "web1")
	node, _ := srv.Node(holder.Path())
	srv.Intercept(zktest.Match{Op: zktest.OpGetACL}, zktest.After(func(zktest.Request) {
		srv.Expire(node.Stat.EphemeralOwner)
	}))
	out, _ := ends(t, 0, srv.Addr(), "doctor", "/q")
	require.NotContains(t, out, "ghost")
}

// TestDoctor_NoSession: without a session, doctor still prints what each server reports.
func TestDoctor_NoSession(t *testing.T) {
	out, errs := ends(t, exit.Unreachable, "127.0.0.1:1,127.0.0.1:2", "doctor", "--connect-timeout=0.2", "/q")
	require.Regexp(t, `(?s)^SERVER.*\n127.0.0.1:1 .*\n127.0.0.1:2 .*\nclock: not compared`, out)
	require.Contains(t, out, "127.0.0.1:2: dial tcp 127.0.0.1:2: connect: connection refused")
	require.Contains(t, errs, "zkr: connect to 127.0.0.1:1,127.0.0.1:2: no session within")
}

// TestDoctor_NoMajority: a server that is cut off from the others answers four-letter words but serves no requests.
func TestDoctor_NoMajority(t *testing.T) {
	srv := zktest.Run(t, zktest.WithFronts(3))
	alone := srv.Fronts()[2]
	alone.Isolate()
	out, _ := ends(t, 1, srv.Addrs(), "doctor")
	require.Contains(t, out,
		alone.Addr()+": it does not serve requests: it is starting, or cannot reach a majority of the servers\n")
	out, _ = ends(t, exit.Unreachable, alone.Addr(), "doctor", "--connect-timeout=0.2")
	require.Contains(t, out, "not serving")
}

// TestDoctor_Access: a client that may delete contenders can take the lock away. If zkr authenticates, an open ACL is a
// finding.
func TestDoctor_Access(t *testing.T) {
	srv := zktest.Run(t, zktest.WithSASLUsers(map[string]string{"bob": "secret", "eve": "other"}))
	auth := filepath.Join(t.TempDir(), "auth")
	require.NoError(t, os.WriteFile(auth, []byte("sasl:bob:secret\n"), 0o600))
	as := []string{"--auth-file", auth, "--acl", "sasl:bob:cdrwa,sasl:eve:rd,world:anyone:r"}
	ends(t, 0, srv.Addr(), append([]string{"lock"}, append(as, "/mine", "--", "true")...)...)
	ends(t, 0, srv.Addr(), "lock", "/open", "--", "true")

	out, _ := ends(t, 0, srv.Addr(), append([]string{"doctor", "/mine"}, as...)...)
	require.Contains(t, out, "access: sasl:bob, sasl:eve may delete the contenders below /mine\nall is well\n")
	out, _ = ends(t, 1, srv.Addr(), append([]string{"doctor", "/open"}, as...)...)
	require.Contains(t, out, "access: world:anyone may delete the contenders below /open, not only the user of zkr")
	out, _ = ends(t, 0, srv.Addr(), "doctor", "/open")
	require.Contains(t, out, "access: world:anyone may delete the contenders below /open\nall is well\n")
	ends(t, 0, srv.Addr(), "doctor", "/mine")
	able, open := deleters([]zk.ACL{
		{Perms: zk.PermRead | zk.PermCreate, Scheme: "world", ID: "anyone"},
		{Perms: zk.PermAdmin, Scheme: "digest", ID: "bob:hash"},
		{Perms: zk.PermDelete, Scheme: "x509", ID: "CN=a:b"},
	})
	require.Equal(t, []string{"digest:bob", "x509:CN=a:b"}, able)
	require.False(t, open)
	_, open = deleters([]zk.ACL{{Perms: zk.PermDelete, Scheme: "ip", ID: "10.0.0.0/8"}})
	require.True(t, open)
}

// TestDoctor_Unreadable: a queue that doctor may not read does not keep it from showing the servers.
func TestDoctor_Unreadable(t *testing.T) {
	srv := zktest.Run(t)
	_, err := dial(t, srv).Create(t.Context(), "/closed", nil, 0, zk.DigestACL(zk.PermAll, "joe", "secret")...)
	require.NoError(t, err)
	out, errs := ends(t, exit.NoAccess, srv.Addr(), "doctor", "/closed")
	require.Regexp(t, `(?s)^SERVER.*\n`+srv.Addr()+` `, out)
	require.Contains(t, errs, "/closed")
}

// TestDoctor_ObeysSignals even while a server accepts connections and says nothing.
func TestDoctor_ObeysSignals(t *testing.T) {
	var accepted atomic.Int64
	silent, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var asked sync.WaitGroup
	asked.Go(func() {
		for {
			c, err := silent.Accept()
			if err != nil {
				return
			}
			defer c.Close() //nolint:errcheck // nothing was sent
			accepted.Add(1)
		}
	})
	t.Cleanup(func() {
		require.NoError(t, silent.Close())
		asked.Wait()
	})
	z := begin(t, zktest.Run(t).Addr()+","+silent.Addr().String(), "doctor")
	eventually(t, "asked", func() bool { return accepted.Load() > 0 })
	require.Equal(t, 143, z.after(t, syscall.SIGTERM), z.err.String())
}
