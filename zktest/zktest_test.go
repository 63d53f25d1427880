package zktest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/zktest"
)

// quiet suppresses the client's log in tests.
type quiet struct{}

func (quiet) Printf(string, ...any) {}

var open = zk.WorldACL(zk.PermAll)

func TestClient_CallsOfGoZookeeper_Work(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.Run(t, zktest.InMemory())
		c, events, err := zk.Connect([]string{s.Addr()}, 10*time.Second, zk.WithDialer(s.DialTimeoutAs("a")),
			zk.WithLogger(quiet{}), zk.WithMaxBufferSize(64<<10), zk.WithMaxConnBufferSize(64<<10))
		require.NoError(t, err)
		t.Cleanup(c.Close)
		for e := range events {
			if e.State == zk.StateHasSession {
				break
			}
		}
		synctest.Wait() // go-zookeeper has a data race if a watch is set as soon as it has connected

		path, err := c.Create("/a", []byte("one"), 0, open)
		require.NoError(t, err)
		require.Equal(t, "/a", path)
		data, stat, changes, err := c.GetW("/a")
		require.NoError(t, err)
		require.Equal(t, "one", string(data))
		require.Equal(t, stat.Czxid, stat.Mzxid)

		stat, err = c.Set("/a", []byte("two"), 0)
		require.NoError(t, err)
		require.EqualValues(t, 1, stat.Version)
		require.Equal(t, zk.EventNodeDataChanged, (<-changes).Type)

		_, err = c.CreateContainer("/locks", nil, zk.FlagContainer, open)
		require.NoError(t, err)
		path, err = c.CreateProtectedEphemeralSequential("/locks/lock-", nil, open)
		require.NoError(t, err)
		require.Regexp(t, `^/locks/_c_[0-9a-f]{32}-lock-0000000000$`, path)
		names, _, err := c.Children("/locks")
		require.NoError(t, err)
		require.Len(t, names, 1)

		_, err = c.Multi(&zk.CheckVersionRequest{Path: "/a", Version: 1}, &zk.DeleteRequest{Path: "/a", Version: 1})
		require.NoError(t, err)
		require.ErrorIs(t, c.Delete("/a", -1), zk.ErrNoNode)
		_, err = c.Sync("/nowhere")
		require.NoError(t, err)
		require.NoError(t, c.AddAuth("digest", []byte("u:p")))
		require.Len(t, s.Ephemerals(c.SessionID()), 1)
	})
}
