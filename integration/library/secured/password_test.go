package secured

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/integration/kit/zkserver"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
	"github.com/zkrecipes/zkrecipes/sasl"
)

// TestDigest_PasswordChanged follows the procedure of the guide: the clients learn the new password once the first
// server knows it, and before the last one is restarted. Every server and client always accepts what one of the others
// has, so no hold is lost.
func TestDigest_PasswordChanged(t *testing.T) {
	releases(t, func(t *testing.T, release string) {
		jaas := filepath.Join(t.TempDir(), "jaas.conf")
		serversKnow := func(password string) {
			text := fmt.Sprintf("Server {\n  org.apache.zookeeper.server.auth.DigestLoginModule required\n  user_bob=%q;\n};\n",
				password)
			require.NoError(t, os.WriteFile(jaas, []byte(text), 0o600))
		}
		serversKnow("old")
		opts := []zkserver.Option{
			zkserver.WithRelease(release),
			zkserver.WithSetting("authProvider.sasl", "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"),
			zkserver.WithSetting("sessionRequireClientSASLAuth", "true"),
		}
		if release != "debian" {
			opts = append(opts, zkserver.WithProperty("zookeeper.fips-mode", "false"))
		}
		e := zkserver.StartEnsemble(t, 3, append(opts, zkserver.WithProperty("java.security.auth.login.config", jaas))...)

		var changed atomic.Bool
		who, err := sasl.DigestFunc("bob", func(context.Context) (string, error) {
			if changed.Load() {
				return "new", nil
			}
			return "old", nil
		})
		require.NoError(t, err)
		const clients = 8
		var holds []*zkrecipes.Hold
		for i := range clients {
			c, err := conn.Dial(t.Context(), e.Addr(), conn.WithSASL(who), conn.WithSessionTimeout(30*time.Second), silent)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, c.Close()) })
			m, err := mutex.New(c, fmt.Sprintf("/jobs/%d", i))
			require.NoError(t, err)
			h, err := m.Lock(t.Context())
			require.NoError(t, err)
			holds = append(holds, h)
		}
		serversKnow("new") // when they start
		for i, s := range e.Servers {
			require.NoError(t, s.Restart())
			require.NoError(t, e.WaitReady())
			if i == 0 {
				time.Sleep(5 * time.Second)
				changed.Store(true)
			}
			time.Sleep(10 * time.Second) // until all clients are connected, a hold is proven, and the next server may be stopped
			for _, h := range holds {
				require.NoError(t, h.Err(), "after server %d", i+1)
				require.NoError(t, h.Check(t.Context()))
			}
		}
		changed.Store(false)
		_, err = conn.Dial(t.Context(), e.Addr(), conn.WithSASL(who), silent)
		require.ErrorIs(t, err, zkrecipes.ErrAuthFailed, "no server knows the old password")
		for _, h := range holds {
			require.NoError(t, h.Err())
		}
	})
}
