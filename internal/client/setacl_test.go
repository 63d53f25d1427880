package client_test

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/trial"
	"github.com/zkrecipes/zkrecipes/zktest"
)

var mine = append(zk.WorldACL(zk.PermRead), zk.ACL{Perms: zk.PermAll, Scheme: "auth"})

func TestSetACL(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		trial.Grow(t, srv, "/app", "/app/a")
		c, err := trial.Dial(t, srv, conn.WithAuth("digest", "u:p")).Sub("/app")
		require.NoError(t, err)
		sent := srv.Intercept(zktest.Match{Op: zktest.OpSetACL, Times: -1}, zktest.Proceed())
		_, err = c.SetACL(t.Context(), "/a", nil, -1)
		require.ErrorIs(t, err, zk.ErrInvalidACL)
		_, err = c.SetACL(t.Context(), "a", mine, -1)
		require.ErrorContains(t, err, "relative")
		require.Zero(t, sent.Hits())

		list, stat, err := c.ACL(t.Context(), "/a")
		require.NoError(t, err)
		require.Equal(t, zk.WorldACL(zk.PermAll), list)
		require.Zero(t, stat.Aversion)
		stat, err = c.SetACL(t.Context(), "/a", mine, stat.Aversion)
		require.NoError(t, err)
		require.EqualValues(t, 1, stat.Aversion)
		require.Zero(t, stat.Version)
		_, err = c.SetACL(t.Context(), "/a", zk.WorldACL(zk.PermAll), 0)
		require.ErrorIs(t, err, zk.ErrBadVersion)
		_, err = c.SetACL(t.Context(), "/none", mine, -1)
		require.ErrorIs(t, err, zk.ErrNoNode)
		_, err = trial.Dial(t, srv).SetACL(t.Context(), "/app/a", zk.WorldACL(zk.PermAll), -1)
		require.ErrorIs(t, err, zk.ErrNoAuth)
		list, stat, err = c.ACL(t.Context(), "/a")
		require.NoError(t, err)
		require.EqualValues(t, 1, stat.Aversion)
		require.Equal(t, zk.DigestACL(zk.PermAll, "u", "p")[0].ID, list[1].ID)
	})
}

// TestSetACL_ReplyLost: the version of the list shows whether it was applied, not the version of the data.
func TestSetACL_ReplyLost(t *testing.T) {
	for name, tt := range map[string]struct {
		version int32
		action  zktest.Action
		sent    int
		unknown bool
	}{
		"not applied":              {0, zktest.DropRequest(), 2, false},
		"applied":                  {0, zktest.DropReply(), 1, true},
		"any version, not applied": {-1, zktest.DropRequest(), 1, true},
		"any version, applied":     {-1, zktest.DropReply(), 1, true},
	} {
		trial.Run(t, func(t *testing.T, srv *zktest.Server) {
			trial.Grow(t, srv, "/a")
			require.NoError(t, srv.Set("/a", []byte("x"))) // the data have a different version
			c := trial.Dial(t, srv)
			requests := trial.Requests(srv, zktest.OpSetACL)
			srv.Intercept(zktest.Match{Op: zktest.OpSetACL}, tt.action)
			_, err := c.SetACL(trial.Within(t, time.Minute), "/a", zk.WorldACL(zk.PermRead), tt.version)
			if tt.unknown {
				require.ErrorIs(t, err, zkrecipes.ErrUnknownOutcome, name)
			} else {
				require.NoError(t, err, name)
			}
			require.Len(t, requests.All(), tt.sent, name)
		})
	}
}
