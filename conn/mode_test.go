package conn_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Each mode creates the kind of node that it names, by Create and in a transaction.
func TestCreate_Modes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory())
		c := bubble.Dial(t, srv, "a")
		create := func(path string, mode int32) (string, error) { return c.Create(t.Context(), path, nil, mode) }
		multi := func(path string, mode int32) (string, error) {
			results, err := c.Multi(t.Context(), zkrecipes.OpCreate(path, nil, mode))
			if err != nil {
				return "", err
			}
			return results[0].Path, nil
		}
		for name, m := range map[string]struct {
			mode                  int32
			ephemeral, sequential bool
		}{
			"persistent":            {conn.Persistent, false, false},
			"persistent-sequential": {conn.PersistentSequential, false, true},
			"ephemeral":             {conn.Ephemeral, true, false},
			"ephemeral-sequential":  {conn.EphemeralSequential, true, true},
		} {
			for way, made := range map[string]func(string, int32) (string, error){"create": create, "multi": multi} {
				asked := "/" + way + "-" + name
				path, err := made(asked, m.mode)
				require.NoError(t, err)
				require.Equal(t, m.sequential, path != asked, path)
				_, stat, err := c.Get(t.Context(), path)
				require.NoError(t, err)
				require.Equal(t, m.ephemeral, stat.EphemeralOwner != 0, path)
			}
		}
		_, err := multi("/container", conn.Container)
		require.ErrorContains(t, err, "container")
		_, err = create("/container", conn.Container)
		require.NoError(t, err)
		_, err = create("/container/child", conn.Persistent)
		require.NoError(t, err)
		require.NoError(t, c.Delete(t.Context(), "/container/child", -1))
		time.Sleep(time.Hour)
		exists, _, err := c.Exists(t.Context(), "/container")
		require.NoError(t, err)
		require.False(t, exists, "the server has deleted it")
	})
}
