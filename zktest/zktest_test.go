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

// client connects go-zookeeper to the server in memory, by additional addresses if there are any, and waits for its
// session.
func client(t *testing.T, s *zktest.Server, label string, timeout time.Duration, more ...string) *zk.Conn {
	t.Helper()
	c, events, err := zk.Connect(append([]string{s.Addr()}, more...), timeout, zk.WithDialer(s.DialTimeoutAs(label)),
		zk.WithLogger(quiet{}), zk.WithMaxBufferSize(64<<10), zk.WithMaxConnBufferSize(64<<10))
	require.NoError(t, err)
	t.Cleanup(c.Close)
	for e := range events {
		if e.State == zk.StateHasSession {
			break
		}
	}
	return c
}

var open = zk.WorldACL(zk.PermAll)

func TestClient_CallsOfGoZookeeper_Work(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.Run(t, zktest.InMemory())
		c := client(t, s, "a", 10*time.Second)

		path, err := c.Create("/a", []byte("one"), 0, open)
		require.NoError(t, err)
		require.Equal(t, "/a", path)
		data, stat, events, err := c.GetW("/a")
		require.NoError(t, err)
		require.Equal(t, "one", string(data))
		require.Equal(t, stat.Czxid, stat.Mzxid)

		stat, err = c.Set("/a", []byte("two"), 0)
		require.NoError(t, err)
		require.EqualValues(t, 1, stat.Version)
		require.Equal(t, zk.EventNodeDataChanged, (<-events).Type)

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

func TestClient_ReplyToAProtectedCreateLost_FindsItsNodeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.Run(t, zktest.InMemory())
		// With a single address, go-zookeeper may fail the search that waits for the next connection, before it has tried to
		// dial.
		c := client(t, s, "a", 10*time.Second, "127.0.0.2:2181")
		_, err := c.Create("/lock", nil, 0, open)
		require.NoError(t, err)
		rule := s.Intercept(zktest.Match{Op: zktest.OpCreate, Path: "^/lock/"}, zktest.DropReply())
		path, err := c.CreateProtectedEphemeralSequential("/lock/n-", nil, open)
		require.NoError(t, err)
		require.Equal(t, 1, rule.Hits())
		require.Equal(t, []string{path}, s.Ephemerals(c.SessionID()))
	})
}

func TestClient_ExpiredOnTheServer_GetsANewSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.Run(t, zktest.InMemory())
		c := client(t, s, "a", 10*time.Second)
		old := c.SessionID()
		require.Equal(t, old, s.SessionOf("a"))
		_, err := c.Create("/e", nil, zk.FlagEphemeral, open)
		require.NoError(t, err)
		require.True(t, s.Expire(old))
		require.False(t, s.Exists("/e"))
		time.Sleep(5 * time.Second)
		require.Equal(t, zk.StateHasSession, c.State())
		require.NotEqual(t, old, c.SessionID())
		require.Equal(t, c.SessionID(), s.SessionOf("a"))
	})
}

func TestClient_CutAndStalledForHours_KeepsOrFindsASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.Run(t, zktest.InMemory(), zktest.WithTickTime(time.Second))
		for _, name := range []string{"a", "b", "c"} {
			client(t, s, name, 6*time.Second)
		}
		for end := time.Now().Add(2 * time.Hour); time.Now().Before(end); time.Sleep(20 * time.Second) {
			s.Cut(zktest.Label("a"))
			s.Stall(zktest.Label("b"), zktest.Both)
			time.Sleep(10 * time.Second)
			s.Heal(zktest.Label("b"))
		}
		time.Sleep(10 * time.Second)
		for _, ses := range s.Sessions() {
			require.True(t, ses.Connected, ses.Client)
		}
		require.Len(t, s.Sessions(), 3)
	})
}
