package client

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/lifetime"
	"github.com/zkrecipes/zkrecipes/internal/liveness"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/wire"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// The server fails to marshal the reply to a write that it has applied, and the session ends before anybody checks.
func TestVersioned_ServerFaultAndSessionOver_IsNotRepeated(t *testing.T) {
	for _, version := range []int32{-1, 0} {
		synctest.Test(t, func(t *testing.T) {
			srv := zktest.Run(t, zktest.InMemory())
			c, err := Open(t.Context(), configTo(srv))
			require.NoError(t, err)
			t.Cleanup(func() { _ = c.Close() })
			_, err = srv.Create("/a", nil, zktest.Persistent)
			require.NoError(t, err)
			tries := 0
			_, err = writeVersioned(t.Context(), c, "set", "/a", guard{version: version, of: dataVersion}, 0,
				func(s *session.Session) (zk.Stat, error) {
					stat, err := s.Set(t.Context(), "/a", []byte("mine"), version)
					if tries++; tries == 1 {
						require.NoError(t, err) // applied, and this is what the client learns of it:
						err = &session.OpError{
							Op: "set", Path: "/a",
							Err: fmt.Errorf("%w: %w", zkrecipes.ErrUnknownOutcome, wire.ErrorOf(-5)),
						}
						srv.Expire(s.ID())
						<-s.Done()
						require.NoError(t, srv.Set("/a", []byte("another's")))
					}
					return stat, err
				})
			n, _ := srv.Node("/a")
			require.Equal(t, "another's", string(n.Data))
			require.ErrorIs(t, err, zkrecipes.ErrUnknownOutcome)
			require.Equal(t, 1, tries)
			time.Sleep(time.Second)
		})
	}
}

func configTo(srv *zktest.Server) *Config {
	life := lifetime.Config{
		SessionTimeout: 15 * time.Second, ConnectTimeout: 2 * time.Second,
		Terms:      liveness.Terms{Margin: 0.05},
		NewBackOff: func() lifetime.BackOff { return backoff.NewConstantBackOff(time.Second) },
		Log:        slog.New(slog.DiscardHandler),
		Dial: func(ctx context.Context, server lifetime.Server) (net.Conn, error) {
			return srv.DialAs("c")(ctx, "tcp", server.Address)
		},
	}
	return &Config{Config: session.Config{Config: life, ACL: zk.WorldACL(zk.PermAll)}, Servers: []string{srv.Addr()}}
}
