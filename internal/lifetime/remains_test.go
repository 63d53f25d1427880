package lifetime_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/trial"
	"github.com/zkrecipes/zkrecipes/sasl"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Servers that require authentication require it of whoever closes a session, too.
func TestOrphan_ServersRequireAuthentication_IsClosed(t *testing.T) {
	bob, err := sasl.Digest("bob", "secret")
	require.NoError(t, err)
	for scheme, shown := range map[string]conn.Option{
		"sasl": conn.WithSASL(bob), "digest": conn.WithAuth("digest", "bob:secret"),
	} {
		t.Run(scheme, func(t *testing.T) {
			trial.Run(t, func(t *testing.T, srv *zktest.Server) {
				c := trial.Dial(t, srv, shown)
				s := trial.Live(t, c)
				srv.Down()
				<-s.Done()
				srv.Up() // each session gets a full timeout
				trial.Live(t, c)
				synctest.Wait()
				require.Len(t, srv.Sessions(), 1)
			}, zktest.WithSASLUsers(map[string]string{"bob": "secret"}), zktest.WithRequiredAuth(scheme))
		})
	}
}
