package conn_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/trial"
)

// Invalid input is reported at once, even if no server has ever answered.
func TestClient_InvalidInput_DoesNotWaitForASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := conn.New("zk1", conn.WithDialer(trial.Refuse))
		require.NoError(t, err)
		defer c.Close()
		ctx, began := context.Background(), time.Now()
		for name, call := range map[string]func() error{
			"get":       func() error { _, _, err := c.Get(ctx, "a"); return err },
			"exists":    func() error { _, _, err := c.Exists(ctx, "a"); return err },
			"children":  func() error { _, err := c.Children(ctx, "a"); return err },
			"acl":       func() error { _, _, err := c.ACL(ctx, "a"); return err },
			"sync":      func() error { return c.Sync(ctx, "a") },
			"set":       func() error { _, err := c.Set(ctx, "a", nil, 0); return err },
			"delete":    func() error { return c.Delete(ctx, "a", 0) },
			"set acl":   func() error { _, err := c.SetACL(ctx, "a", zk.WorldACL(zk.PermAll), 0); return err },
			"empty acl": func() error { _, err := c.SetACL(ctx, "/a", nil, 0); return err },
			"create":    func() error { _, err := c.Create(ctx, "a", nil, conn.Persistent); return err },
			"mode":      func() error { _, err := c.Create(ctx, "/a", nil, 99); return err },
			"protected": func() error { _, err := c.CreateProtected(ctx, "a", nil, conn.Ephemeral); return err },
			"ttl":       func() error { _, err := c.CreateTTL(ctx, "/a", nil, conn.Persistent, 0); return err },
			"ttl mode":  func() error { _, err := c.CreateTTL(ctx, "/a", nil, conn.Ephemeral, time.Hour); return err },
			"all":       func() error { return c.CreateAll(ctx, "a", nil) },
			"no op":     func() error { _, err := c.Multi(ctx); return err },
			"op":        func() error { _, err := c.Multi(ctx, zkrecipes.OpCheck("a", 0)); return err },
			"kind":      func() error { _, err := c.Multi(ctx, zkrecipes.Op{Path: "/a"}); return err },
			"container": func() error { _, err := c.Multi(ctx, zkrecipes.OpCreate("/a", nil, conn.Container)); return err },
		} {
			done := make(chan error, 1)
			go func() { done <- call() }()
			select {
			case err := <-done:
				require.Error(t, err, name)
			case <-time.After(time.Hour):
				t.Errorf("%s waits", name)
			}
		}
		require.Zero(t, time.Since(began))
	})
}
