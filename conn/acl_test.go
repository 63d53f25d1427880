package conn_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/barrier"
	"github.com/zkrecipes/zkrecipes/recipes/discovery"
	"github.com/zkrecipes/zkrecipes/recipes/election"
	"github.com/zkrecipes/zkrecipes/recipes/group"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
	"github.com/zkrecipes/zkrecipes/recipes/node"
	"github.com/zkrecipes/zkrecipes/recipes/rwlock"
	"github.com/zkrecipes/zkrecipes/recipes/semaphore"
	"github.com/zkrecipes/zkrecipes/recipes/shard"
	"github.com/zkrecipes/zkrecipes/recipes/value"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func readableBy(team string) []zk.ACL {
	return []zk.ACL{
		{Perms: zk.PermAll, Scheme: "world", ID: "anyone"},
		{Perms: zk.PermRead, Scheme: "digest", ID: team + ":hash"},
	}
}

// Every node that the client and its recipes create, including missing parents, has the list for its path.
func TestWithACLFunc_EveryNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory())
		c, err := conn.Dial(t.Context(), srv.Addr()+"/root", conn.WithDialer(srv.Dial), bubble.Silent,
			conn.WithACL(readableBy("all")),
			conn.WithACLFunc(func(path string) []zk.ACL {
				if team, _, _ := strings.Cut(strings.TrimPrefix(path, "/root/"), "/"); team == "red" || team == "blue" {
					return readableBy(team)
				}
				return nil
			}))
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close()) }()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for _, team := range []string{"red", "blue", "green"} {
			of, err := c.Sub("/" + team + "/in")
			require.NoError(t, err)
			makeAll(ctx, t, of)
		}
		nodes := srv.Tree("/root")
		require.Greater(t, len(nodes), 3*25)
		for _, n := range nodes {
			want := "all"
			for _, team := range []string{"red", "blue"} {
				if strings.HasPrefix(n.Path+"/", "/root/"+team+"/") {
					want = team
				}
			}
			list, _, err := c.ACL(t.Context(), "/"+strings.TrimPrefix(strings.TrimPrefix(n.Path, "/root"), "/"))
			require.NoError(t, err)
			require.Equal(t, want, strings.TrimSuffix(list[1].ID, ":hash"), n.Path)
		}
	})
}

// makeAll creates a node of every kind, and leaves them.
func makeAll(ctx context.Context, t *testing.T, c *conn.Client) {
	t.Helper()
	m, err := mutex.New(c, "/mutex")
	require.NoError(t, err)
	_, err = m.Lock(ctx)
	require.NoError(t, err)
	rw, err := rwlock.New(c, "/rwlock")
	require.NoError(t, err)
	_, err = rw.RLock(ctx)
	require.NoError(t, err)
	s, err := semaphore.New(c, "/semaphore", 2, semaphore.WithLimitNode("/limits/semaphore"))
	require.NoError(t, err)
	require.NoError(t, s.SetLimit(ctx, 2))
	_, err = s.Acquire(ctx, 2)
	require.NoError(t, err)
	e, err := election.New(c, "/election")
	require.NoError(t, err)
	_, err = e.Campaign(ctx)
	require.NoError(t, err)
	kept, err := node.New(c, "/kept/node", []byte("x"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = kept.Close(context.Background()) })
	g, err := group.New(c, "/group")
	require.NoError(t, err)
	_, err = g.Join(ctx, "me", []byte("x"))
	require.NoError(t, err)
	v, err := value.New(c, "/values/v", value.Text())
	require.NoError(t, err)
	_, err = v.Set(ctx, "x")
	require.NoError(t, err)
	n, err := value.NewCounter(c, "/values/n", value.AtomicLong())
	require.NoError(t, err)
	_, err = n.Add(ctx, 1)
	require.NoError(t, err)
	b, err := barrier.New(c, "/barrier")
	require.NoError(t, err)
	require.NoError(t, b.Set(ctx))
	double, err := barrier.NewDouble(c, "/double", 2)
	require.NoError(t, err)
	go func() { _, _ = double.Enter(ctx) }()
	d, err := discovery.New(c, "/services")
	require.NoError(t, err)
	_, err = d.Register(ctx, discovery.Instance{Service: "web", ID: "1", Address: "10.0.0.1", Port: 1})
	require.NoError(t, err)
	shards, err := shard.New(c, "/shards", shard.WithID("me"))
	require.NoError(t, err)
	go func() {
		_ = shards.Run(ctx, shard.List("a", "b"), func(ctx context.Context, _ *shard.Shard) error {
			<-ctx.Done()
			return nil
		})
	}()
	require.NoError(t, c.CreateAll(ctx, "/plain/all", nil))
	_, err = c.Create(ctx, "/plain/one", nil, conn.PersistentSequential)
	require.NoError(t, err)
	_, err = c.CreateProtected(ctx, "/plain/mine-", nil, conn.EphemeralSequential)
	require.NoError(t, err)
	_, err = c.Multi(ctx, zkrecipes.OpCreate("/plain/multi", nil, conn.Ephemeral))
	require.NoError(t, err)
	// Three times this is less than the minute after which servers remove an empty container.
	time.Sleep(15 * time.Second)
}

// A list passed to a call takes precedence over the function. If the function returns an invalid list, the call fails.
func TestWithACLFunc_CallersOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory())
		var list []zk.ACL
		c := bubble.Dial(t, srv, "a", conn.WithACLFunc(func(string) []zk.ACL { return list }))
		_, err := c.Create(t.Context(), "/own", nil, conn.Persistent, readableBy("me")...)
		require.NoError(t, err)
		got, _, err := c.ACL(t.Context(), "/own")
		require.NoError(t, err)
		require.Equal(t, readableBy("me"), got)
		sent := srv.Intercept(zktest.Match{From: zktest.Label("a"), Times: -1}, zktest.Proceed())
		m, err := mutex.New(c, "/own")
		require.NoError(t, err)
		for _, list = range [][]zk.ACL{{{Perms: zk.PermAll}}, {{Perms: 32, Scheme: "world", ID: "anyone"}}} {
			for name, call := range map[string]func() error{
				"create": func() error { _, err := c.Create(t.Context(), "/own/a", nil, conn.Persistent); return err },
				"all":    func() error { return c.CreateAll(t.Context(), "/a/b", nil) },
				"multi":  func() error { _, err := c.Multi(t.Context(), zkrecipes.OpCreate("/a", nil, 0)); return err },
				"lock":   func() error { _, err := m.Lock(t.Context()); return err },
				"kept":   func() error { _, err := node.New(c, "/kept", nil); return err },
			} {
				err := call()
				require.ErrorIs(t, err, zk.ErrInvalidACL, name)
				require.ErrorContains(t, err, "WithACLFunc", name)
			}
		}
		require.Zero(t, sent.Hits())
	})
}
