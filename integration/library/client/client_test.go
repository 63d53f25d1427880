// Package client tests the calls of a client whose outcome depends on what a real server does.
package client

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/integration/kit/proxy"
	"github.com/zkrecipes/zkrecipes/integration/kit/zkserver"
)

const (
	release   = "3.9.5"
	patience  = 2 * time.Minute
	opSetACL  = 7
	opDelete  = 2
	opCreate  = 1
	allowsTTL = "zookeeper.extendedTypesEnabled"
)

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func dial(t *testing.T, addr string, opts ...conn.Option) *conn.Client {
	t.Helper()
	c, err := conn.Dial(within(t), addr, append([]conn.Option{conn.WithLogger(slog.New(slog.DiscardHandler))}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() }) // it never fails
	return c
}

// server starts a server with a proxy in front.
func server(t *testing.T, opts ...zkserver.Option) (addr string, p *proxy.Proxy) {
	t.Helper()
	addr = zkserver.Start(t, append(opts, zkserver.WithRelease(release),
		zkserver.WithContainerCheck(time.Second))...).Addr()
	return addr, proxy.Start(t, addr)
}

// TestCreateProtected: the server has or has not created the node, and the answer is lost. The result is one node,
// which the client knows.
func TestCreateProtected(t *testing.T) {
	addr, p := server(t)
	direct, c := dial(t, addr), dial(t, p.Addr())
	for name, mode := range map[string]int32{
		"persistent": conn.Persistent, "persistent-sequential": conn.PersistentSequential,
		"ephemeral": conn.Ephemeral, "ephemeral-sequential": conn.EphemeralSequential,
	} {
		for _, action := range []proxy.Action{proxy.DropRequest, proxy.DropReply} {
			parent := fmt.Sprintf("/%s-%d", name, action)
			require.NoError(t, direct.CreateAll(within(t), parent, nil))
			trap := p.Trap(proxy.Match{Ops: []int32{opCreate}, Path: parent}, action)
			path, err := c.CreateProtected(within(t), parent+"/x", []byte("mine"), mode)
			require.NoError(t, err, parent)
			require.NoError(t, trap.Wait(within(t)))
			require.Regexp(t, "^"+regexp.QuoteMeta(parent)+"/_c_[0-9a-f-]{36}-x", path)
			names, err := direct.Children(within(t), parent)
			require.NoError(t, err)
			require.Equal(t, []string{strings.TrimPrefix(path, parent+"/")}, names)
		}
	}
}

// TestSetACL: the version of the list guards the change, even when the reply is lost.
func TestSetACL(t *testing.T) {
	addr, p := server(t)
	stranger, c := dial(t, addr), dial(t, p.Addr(), conn.WithAuth("digest", "u:p"))
	require.NoError(t, stranger.CreateAll(within(t), "/a", []byte("x")))
	mine := append(zk.AuthACL(zk.PermAll), zk.WorldACL(zk.PermRead)...)
	trap := p.Trap(proxy.Match{Ops: []int32{opSetACL}}, proxy.DropRequest)
	stat, err := c.SetACL(within(t), "/a", mine, 0)
	require.NoError(t, err, "it was not applied, so it was sent again")
	require.NoError(t, trap.Wait(within(t)))
	require.EqualValues(t, 1, stat.Aversion)
	_, err = c.SetACL(within(t), "/a", mine, 0)
	require.ErrorIs(t, err, zk.ErrBadVersion)
	trap = p.Trap(proxy.Match{Ops: []int32{opSetACL}}, proxy.DropReply)
	_, err = c.SetACL(within(t), "/a", mine, 1)
	require.ErrorIs(t, err, zkrecipes.ErrUnknownOutcome)
	require.NoError(t, trap.Wait(within(t)))
	list, stat, err := c.ACL(within(t), "/a")
	require.NoError(t, err)
	require.EqualValues(t, 2, stat.Aversion)
	require.Equal(t, zk.DigestACL(zk.PermAll, "u", "p")[0], list[0])
	_, err = stranger.SetACL(within(t), "/a", zk.WorldACL(zk.PermAll), -1)
	require.ErrorIs(t, err, zk.ErrNoAuth)
	_, err = stranger.Set(within(t), "/a", nil, -1)
	require.ErrorIs(t, err, zk.ErrNoAuth)
}

// TestCreateTTL: servers that support it remove the node once it has no children. Others reject it, and the session
// survives.
func TestCreateTTL(t *testing.T) {
	addr, _ := server(t, zkserver.WithProperty(allowsTTL, "true"))
	c := dial(t, addr)
	path, err := c.CreateTTL(within(t), "/numbered-", nil, conn.PersistentSequential, time.Hour)
	require.NoError(t, err)
	require.Regexp(t, `^/numbered-\d{10}$`, path)
	for _, path := range []string{"/idle", "/parent"} {
		_, err := c.CreateTTL(within(t), path, nil, conn.Persistent, time.Millisecond)
		require.NoError(t, err)
		if path == "/parent" {
			continue
		}
		goes(t, c, path)
	}
	_, err = c.Create(within(t), "/parent/child", nil, conn.Persistent)
	if err != nil { // it was removed before it had a child
		require.ErrorIs(t, err, zk.ErrNoNode)
	}
	require.NoError(t, c.DeleteAll(within(t), "/parent", conn.WithKeepTop()))
	goes(t, c, "/parent")
	exists, _, err := c.Exists(within(t), path)
	require.NoError(t, err)
	require.True(t, exists)

	addr, _ = server(t)
	c = dial(t, addr)
	session, err := c.Session(within(t))
	require.NoError(t, err)
	_, err = c.CreateTTL(within(t), "/a", nil, conn.Persistent, time.Minute)
	require.ErrorIs(t, err, zkrecipes.CodeUnimplemented)
	require.ErrorContains(t, err, allowsTTL)
	require.NoError(t, c.Sync(within(t), "/"))
	require.NoError(t, session.Err())
}

// goes waits until the node is gone.
func goes(t *testing.T, c *conn.Client, path string) {
	t.Helper()
	for node, err := range c.Watch(within(t), path) {
		require.NoError(t, err)
		if node.Current && !node.Exists {
			return
		}
	}
	t.Fatalf("%s is still there", path)
}

// TestDeleteAll: three servers, a tree of 5,000 nodes to which another client adds, a list larger than a request may
// be, ephemeral nodes of other sessions, and lost replies.
func TestDeleteAll(t *testing.T) {
	e := zkserver.StartEnsemble(t, 3, zkserver.WithRelease(release))
	p := proxy.Start(t, e.Servers[0].Addr())
	c := dial(t, p.Addr())
	others := []*conn.Client{dial(t, e.Servers[1].Addr()), dial(t, e.Servers[2].Addr())}
	plant := func(path string, mode int32) {
		_, err := others[0].Create(within(t), path, nil, mode)
		require.NoError(t, err)
	}
	require.NoError(t, others[0].CreateAll(within(t), "/tree/wide", nil))
	var growing sync.WaitGroup
	for i := range 50 {
		branch := fmt.Sprintf("/tree/%d", i)
		plant(branch, conn.Persistent)
		growing.Go(func() {
			for j := range 80 {
				plant(fmt.Sprintf("%s/%d", branch, j), int32(j%2)) // every second one is ephemeral
			}
		})
	}
	for i := range 1200 {
		growing.Go(func() { plant(fmt.Sprintf("/tree/wide/%s%d", strings.Repeat("x", 900), i), conn.Persistent) })
	}
	growing.Wait()

	for i := range 5 { // one of each five hundred
		p.Trap(proxy.Match{Ops: []int32{opDelete}, Path: "/tree", Nth: 1 + 500*i}, proxy.DropReply)
	}
	adding, stop := context.WithCancel(within(t))
	added := 0
	growing.Go(func() {
		for adding.Err() == nil && added < 300 {
			if _, err := others[1].Create(adding, fmt.Sprintf("/tree/%d/new-", added%50), nil,
				conn.PersistentSequential); err == nil {
				added++
			}
		}
	})
	begin := time.Now()
	err := c.DeleteAll(within(t), "/tree", conn.WithKeepTop())
	took := time.Since(begin)
	stop()
	growing.Wait()
	require.NoError(t, err)
	t.Logf("%d nodes and %d more in %v", 50*81+1200, added, took)
	require.NoError(t, c.DeleteAll(within(t), "/tree"))
	require.NoError(t, others[0].Sync(within(t), "/"))
	names, err := others[0].Children(within(t), "/")
	require.NoError(t, err)
	require.Equal(t, []string{"zookeeper"}, names)
}
