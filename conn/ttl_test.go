package conn_test

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// A node is deleted when its time to live has passed, but not while it has children. A write restarts the time to live.
func TestCreateTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory(), zktest.WithExtendedTypes())
		c := bubble.DialAt(t, srv, "a", "/app")
		require.NoError(t, c.CreateAll(t.Context(), "/x", nil))
		const ttl = 10 * time.Minute
		create := func(path string, mode int32) string {
			made, err := c.CreateTTL(t.Context(), path, []byte("data"), mode, ttl, zk.WorldACL(zk.PermAll)...)
			require.NoError(t, err)
			return made
		}
		require.Equal(t, "/x/idle", create("/x/idle", conn.Persistent))
		require.Regexp(t, `^/x/numbered-\d{10}$`, create("/x/numbered-", conn.PersistentSequential))
		create("/x/written", conn.Persistent)
		create("/x/parent", conn.Persistent)
		_, err := c.Create(t.Context(), "/x/parent/child", nil, conn.Persistent)
		require.NoError(t, err)
		n, _ := srv.Node("/app/x/idle")
		require.Equal(t, ttl, n.TTL)

		time.Sleep(9*time.Minute + 30*time.Second) // the servers check every full minute
		require.Len(t, srv.Children("/app/x"), 4)
		_, err = c.Set(t.Context(), "/x/written", nil, -1)
		require.NoError(t, err)
		time.Sleep(3 * time.Minute)
		require.ElementsMatch(t, []string{"written", "parent"}, srv.Children("/app/x"))
		require.NoError(t, c.Delete(t.Context(), "/x/parent/child", -1))
		time.Sleep(time.Minute)
		require.ElementsMatch(t, []string{"written"}, srv.Children("/app/x"))
		time.Sleep(5 * time.Minute)
		require.Len(t, srv.Children("/app/x"), 1)
		time.Sleep(2 * time.Minute)
		require.Empty(t, srv.Children("/app/x"))
	})
}

func TestCreateTTL_Range(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory(), zktest.WithExtendedTypes())
		c := bubble.Dial(t, srv, "a")
		const longest = (1<<40 - 1) * time.Millisecond
		sent := srv.Intercept(zktest.Match{Op: zktest.OpCreateTTL, Times: -1}, zktest.Proceed())
		for _, ttl := range []time.Duration{-time.Second, 0, longest + 1, math.MaxInt64} {
			_, err := c.CreateTTL(t.Context(), "/a", nil, conn.Persistent, ttl)
			require.ErrorContains(t, err, "time to live")
		}
		for _, mode := range []int32{conn.Ephemeral, conn.EphemeralSequential, conn.Container, 5, -1} {
			_, err := c.CreateTTL(t.Context(), "/a", nil, mode, time.Minute)
			require.ErrorIs(t, err, zk.ErrInvalidFlags)
		}
		_, err := c.CreateTTL(t.Context(), "a", nil, conn.Persistent, time.Minute)
		require.ErrorContains(t, err, "relative")
		require.Zero(t, sent.Hits())
		for path, ttl := range map[string]time.Duration{"/longest": longest, "/shortest": time.Nanosecond} {
			_, err := c.CreateTTL(t.Context(), path, nil, conn.Persistent, ttl)
			require.NoError(t, err)
			n, _ := srv.Node(path)
			require.Equal(t, max(ttl, time.Millisecond), n.TTL)
		}
	})
}

// The error names the property to enable, and the connection stays up.
func TestCreateTTL_ServersWithoutIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory())
		c := bubble.Dial(t, srv, "a")
		_, err := c.CreateTTL(t.Context(), "/a", nil, conn.Persistent, time.Minute)
		require.ErrorIs(t, err, zkrecipes.CodeUnimplemented)
		require.NotErrorIs(t, err, zkrecipes.ErrUnknownOutcome)
		require.ErrorContains(t, err, "zookeeper.extendedTypesEnabled=true")
	})
}

func TestCreateTTL_ReplyLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory(), zktest.WithExtendedTypes())
		c := bubble.Dial(t, srv, "a")
		srv.Intercept(zktest.Match{Op: zktest.OpCreateTTL}, zktest.DropReply())
		_, err := c.CreateTTL(t.Context(), "/a", nil, conn.Persistent, time.Minute)
		require.ErrorIs(t, err, zkrecipes.ErrUnknownOutcome)
	})
}
