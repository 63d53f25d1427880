package caches

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/integration/kit/zkserver"
	"github.com/zkrecipes/zkrecipes/recipes/cache"
)

// TestSync_OnARealServer_FindsWhatWasHidden revokes the cache's access to a node, writes it and grants access again.
// The server sends no event, and removes the watch. A sync finds what was written.
func TestSync_OnARealServer_FindsWhatWasHidden(t *testing.T) {
	server := zkserver.Start(t, zkserver.WithRelease("3.9.5"))
	client, err := conn.Dial(t.Context(), server.Addr())
	require.NoError(t, err)
	defer client.Close()
	owner, _, err := zk.Connect([]string{server.Addr()}, 10*time.Second, zk.WithLogInfo(false))
	require.NoError(t, err)
	defer owner.Close()
	require.NoError(t, owner.AddAuth("digest", []byte("u:p")))
	closed, open := zk.DigestACL(zk.PermAll, "u", "p"), zk.WorldACL(zk.PermAll)
	allow := func(path string, acl []zk.ACL) {
		_, err := owner.SetACL(path, acl, -1)
		require.NoError(t, err)
	}
	write := func(path, data string) {
		_, err := owner.Set(path, []byte(data), -1)
		require.NoError(t, err)
	}
	for _, path := range []string{root, root + "/a", root + "/b", root + "/c"} {
		_, err := owner.Create(path, []byte("old"), 0, open)
		require.NoError(t, err)
	}
	c, err := cache.Tree(client, root)
	require.NoError(t, err)
	require.NoError(t, c.Ready(t.Context()))
	full := watches(t, server)

	allow(root+"/a", closed)
	write(root+"/a", "new")
	_, err = owner.Create(root+"/a/kid", nil, 0, open)
	require.NoError(t, err)
	allow(root+"/a", open)
	write(root+"/c", "new") // its event arrives after any event of the other node would have
	require.Eventually(t, func() bool { return data(c, root+"/c") == "new" }, time.Minute, time.Millisecond)
	require.Equal(t, "old", data(c, root+"/a"), "no event has come: else this test shows nothing")
	require.True(t, c.View().Current)
	require.NoError(t, c.Sync(t.Context()))
	require.Equal(t, "new", data(c, root+"/a"))
	_, found := c.Get(root + "/a/kid")
	require.True(t, found)

	allow(root+"/b", closed)
	write(root+"/b", "new")
	require.NoError(t, c.Sync(t.Context()))
	require.Equal(t, 1, c.View().Failed)
	allow(root+"/b", open)
	require.NoError(t, c.Sync(t.Context()))
	require.Zero(t, c.View().Failed)
	require.Equal(t, "new", data(c, root+"/b"))
	require.NoError(t, owner.Delete(root+"/a/kid", -1))
	require.NoError(t, c.Sync(t.Context()))
	require.Equal(t, full, watches(t, server))
}

func data(c *cache.Cache, path string) string {
	e, _ := c.Get(path)
	return string(e.Data)
}
