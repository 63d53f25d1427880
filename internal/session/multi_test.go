package session_test

import (
	"bytes"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/trial"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// atVersion runs a test on a node /a with the given data version.
func atVersion(t *testing.T, version int32, test func(t *testing.T, srv *zktest.Server, c *conn.Client)) {
	t.Helper()
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		trial.Create(t, srv, "/a", "old")
		require.NoError(t, srv.SetVersion("/a", version))
		test(t, srv, trial.Dial(t, srv))
	})
}

func requireNode(t *testing.T, srv *zktest.Server, data string, version int32) {
	t.Helper()
	n, ok := srv.Node("/a")
	require.True(t, ok)
	require.Equal(t, data, string(n.Data))
	require.Equal(t, version, n.Stat.Version)
}

// TestSet_OverMinusTwo_LeavesZero: whichever call writes. The result is that of the second write.
func TestSet_OverMinusTwo_LeavesZero(t *testing.T) {
	set := zkrecipes.OpSet("/a", []byte("new"), -2)
	for name, write := range map[string]func(t *testing.T, c *conn.Client) (zk.Stat, error){
		"Set": func(t *testing.T, c *conn.Client) (zk.Stat, error) {
			return c.Set(t.Context(), "/a", []byte("new"), -2)
		},
		"Multi": func(t *testing.T, c *conn.Client) (zk.Stat, error) {
			results, err := c.Multi(t.Context(), zkrecipes.OpCreate("/b", nil, 0), set,
				zkrecipes.OpCreate("/c", nil, zk.FlagSequence))
			if err != nil {
				return zk.Stat{}, err
			}
			require.Len(t, results, 3)
			require.Equal(t, "/b", results[0].Path)
			require.Equal(t, "/a", results[1].Path)
			require.Equal(t, "/c0000000002", results[2].Path)
			return results[1].Stat, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			atVersion(t, -2, func(t *testing.T, srv *zktest.Server, c *conn.Client) {
				stat, err := write(t, c)
				require.NoError(t, err)
				require.Zero(t, stat.Version)
				requireNode(t, srv, "new", 0)
			})
			atVersion(t, -3, func(t *testing.T, srv *zktest.Server, c *conn.Client) {
				_, err := write(t, c)
				require.ErrorIs(t, err, zk.ErrBadVersion)
				require.ErrorContains(t, err, "set /a:")
				requireNode(t, srv, "old", -3)
			})
		})
	}
}

// TestSet_OverMinusTwo_ReplyLost: it is applied once.
func TestSet_OverMinusTwo_ReplyLost(t *testing.T) {
	for _, lost := range []zktest.Action{zktest.DropReply(), zktest.DropRequest()} {
		atVersion(t, -2, func(t *testing.T, srv *zktest.Server, c *conn.Client) {
			srv.Intercept(zktest.Match{Op: zktest.OpMulti, Path: "^/a$"}, lost)
			_, err := c.Set(t.Context(), "/a", []byte("new"), -2)
			if err != nil {
				require.ErrorIs(t, err, zkrecipes.ErrUnknownOutcome)
			}
			requireNode(t, srv, "new", 0)
		})
	}
}

// TestMulti_ExactMinusOne: the version -1 was read. If it has changed since, nothing is applied.
func TestMulti_ExactMinusOne(t *testing.T) {
	exact := func(kind zkrecipes.OpKind) zkrecipes.Op {
		return zkrecipes.Op{Kind: kind, Path: "/a", Data: []byte("new"), Version: -1, Exact: true}
	}
	for _, kind := range []zkrecipes.OpKind{zkrecipes.KindSet, zkrecipes.KindDelete} {
		for _, version := range []int32{-3, -2, 0, 1, 5} {
			atVersion(t, version, func(t *testing.T, srv *zktest.Server, c *conn.Client) {
				_, err := c.Multi(t.Context(), zkrecipes.OpCreate("/b", nil, 0), exact(kind))
				require.ErrorIs(t, err, zk.ErrBadVersion)
				require.ErrorContains(t, err, "multi: "+string(kind)+" /a:")
				requireNode(t, srv, "old", version)
				_, exists := srv.Node("/b")
				require.False(t, exists)
			})
		}
	}
	atVersion(t, -1, func(t *testing.T, srv *zktest.Server, c *conn.Client) {
		results, err := c.Multi(t.Context(), exact(zkrecipes.KindSet), zkrecipes.OpSet("/a", []byte("newer"), 0))
		require.NoError(t, err)
		require.Len(t, results, 2)
		require.Zero(t, results[0].Stat.Version)
		require.Equal(t, int32(1), results[1].Stat.Version)
		requireNode(t, srv, "newer", 1)
	})
	atVersion(t, -1, func(t *testing.T, srv *zktest.Server, c *conn.Client) {
		_, err := c.Multi(t.Context(), exact(zkrecipes.KindDelete))
		require.NoError(t, err)
		_, exists := srv.Node("/a")
		require.False(t, exists)
	})
	atVersion(t, -1, func(t *testing.T, srv *zktest.Server, c *conn.Client) {
		_, err := c.Multi(t.Context(), exact(zkrecipes.KindCheck))
		require.ErrorContains(t, err, "multi: check /a: the data version is -1")
	})
}

// A server that was closing the session reported that for the first operation of a transaction, and an inconsistency for
// the others. The error did not match the loss, so callers did not go on in the next session.
func TestMulti_SessionEndsInAnOperation_IsALoss(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		noNode, expired := []byte{0xff, 0xff, 0xff, 0x9b}, []byte{0xff, 0xff, 0xff, 0x90}
		c := trial.Dial(t, srv, trial.Through(srv, trial.Pipe{OnRead: func(frame []byte) {
			copy(frame, bytes.ReplaceAll(frame, noNode, expired))
		}}))
		_, err := trial.Live(t, c).Multi(t.Context(), zkrecipes.OpCheck("/gone", 1), zkrecipes.OpCheck("/", 0))
		require.ErrorIs(t, err, zkrecipes.ErrLost)
		require.NotErrorIs(t, err, zkrecipes.ErrUnknownOutcome)
	})
}
