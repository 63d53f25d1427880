package caches

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/integration/kit/proxy"
	"github.com/zkrecipes/zkrecipes/integration/kit/zkserver"
	"github.com/zkrecipes/zkrecipes/recipes/cache"
)

// watches returns how many watches the server counts.
func watches(t *testing.T, server *zkserver.Server) string {
	t.Helper()
	text, err := server.FourLetter("mntr")
	require.NoError(t, err)
	_, count, found := strings.Cut(text, "zk_watch_count\t")
	require.True(t, found, text)
	count, _, _ = strings.Cut(count, "\n")
	return strings.TrimSuffix(count, ".0")
}

// TestTree_OnARealServer_FollowsThroughFaults writes at random while connections are cut, sessions expire and the
// server restarts. It compares the cache with what another client reads, and its watches with what the server counts.
func TestTree_OnARealServer_FollowsThroughFaults(t *testing.T) {
	server := zkserver.Start(t)
	writer, err := conn.Dial(t.Context(), server.Addr())
	require.NoError(t, err)
	defer func() { _ = writer.Close() }() // it never fails
	between := proxy.Start(t, server.Addr())
	client, err := conn.Dial(t.Context(), between.Addr(), conn.WithSessionTimeout(2*time.Second))
	require.NoError(t, err)
	defer client.Close()
	c, err := cache.Tree(client, root)
	require.NoError(t, err)
	random := rand.New(rand.NewPCG(1, 2))
	write := func() {
		path := root
		for range random.IntN(4) {
			path += "/" + string(rune('a'+random.IntN(3)))
		}
		switch random.IntN(6) {
		case 0, 1, 2:
			_, _ = writer.Create(t.Context(), path, []byte(fmt.Sprint(random.IntN(100))), 0) // it may already exist
		case 3:
			_, _ = writer.Set(t.Context(), path, []byte(fmt.Sprint(random.IntN(100))), -1) // it may be missing
		default:
			if writer.Delete(t.Context(), path, -1) == nil && random.IntN(2) == 0 {
				_, _ = writer.Create(t.Context(), path, []byte("again"), 0) // nobody else writes
			}
		}
	}
	var read func(into map[string]string, path string)
	read = func(into map[string]string, path string) {
		data, stat, err := writer.Get(t.Context(), path)
		if err != nil {
			return // it is missing
		}
		into[path] = fmt.Sprintf("%q %d %d", data, stat.Czxid, stat.Mzxid)
		names, err := writer.Children(t.Context(), path)
		require.NoError(t, err)
		for _, name := range names {
			read(into, path+"/"+name)
		}
	}
	for turn := range 12 {
		switch turn % 4 {
		case 1:
			between.Refuse()
			between.Cut()
			time.AfterFunc(200*time.Millisecond, func() { _ = between.Accept() }) // the proxy outlives it
		case 2:
			between.Refuse()
			between.Cut()
			time.AfterFunc(4*time.Second, func() { _ = between.Accept() }) // the session is over by then
		case 3:
			if server.Ours() {
				require.NoError(t, server.Kill())
				require.NoError(t, server.Restart())
			}
		}
		for range 50 {
			write()
		}
		require.NoError(t, c.Sync(t.Context()))
		want, got := map[string]string{}, map[string]string{}
		read(want, root)
		entries, _ := c.Snapshot()
		for _, e := range entries {
			got[e.Path] = fmt.Sprintf("%q %d %d", e.Data, e.Czxid, e.Mzxid)
		}
		require.Equal(t, want, got, "turn %d", turn)
		require.Eventually(t, func() bool { return c.View().Current }, time.Minute, 10*time.Millisecond)
		// The server may take a little longer to notice the end of the last connection, which had watches as well.
		require.Eventually(t, func() bool { return watches(t, server) == fmt.Sprint(max(1, 2*len(want))) }, time.Minute,
			10*time.Millisecond)
	}
	require.NoError(t, c.Close(t.Context()))
	require.Equal(t, "0", watches(t, server), "watches are left")
}

// TestClose_OnARealServer_LeavesWhatAnotherCacheNeeds counts the watches on a server when one of a client's two caches
// is closed.
func TestClose_OnARealServer_LeavesWhatAnotherCacheNeeds(t *testing.T) {
	server := zkserver.Start(t)
	client, err := conn.Dial(t.Context(), server.Addr())
	require.NoError(t, err)
	defer client.Close()
	for _, path := range []string{root, root + "/a", root + "/b", root + "/a/x"} {
		_, err := client.Create(t.Context(), path, nil, 0)
		require.NoError(t, err)
	}
	tree, err := cache.Tree(client, root)
	require.NoError(t, err)
	require.NoError(t, tree.Ready(t.Context()))
	children, err := cache.Children(client, root)
	require.NoError(t, err)
	require.NoError(t, children.Ready(t.Context()))
	require.Equal(t, "8", watches(t, server))
	require.NoError(t, tree.Close(t.Context()))
	require.Equal(t, "4", watches(t, server), "data and children of the root, data of two nodes")
	require.NoError(t, children.Close(t.Context()))
	require.Equal(t, "0", watches(t, server))
}
