package secured

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/conn"
)

// A server accepts clients with an identity of the required scheme, which can use the recipes. It rejects all others: a
// password of the scheme digest does not count for the scheme sasl, and neither does an identity of another scheme. For
// certificates see rotate.
func TestEnforced_EachScheme(t *testing.T) {
	plain := conn.WithAuth("digest", "bob:secret")
	releases(t, func(t *testing.T, release string) {
		bob := as(t, "bob", "secret")
		for scheme, c := range map[string]struct{ in, out [][]conn.Option }{
			"digest": {in: [][]conn.Option{{plain}, {bob, plain}}, out: [][]conn.Option{{}, {bob}}},
			"sasl":   {in: [][]conn.Option{{bob}, {bob, plain}}, out: [][]conn.Option{{}, {plain}}},
		} {
			s := digestServer(t, release, "enforce.auth.enabled", "enforce.auth.schemes="+scheme)
			for _, opts := range c.in {
				l := &line{addr: s.Addr()}
				insider := dial(t, s, append(opts, long, conn.WithDialer(l.dial))...)
				for range 3 {
					lock(t, insider, "/lock")
					l.cut() // the connection that resumes the session needs the identity as well
				}
			}
			for _, opts := range c.out {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				outsider, err := conn.Dial(ctx, s.Addr(), append(opts, silent)...)
				require.NoError(t, err, "the session is there before the identity")
				_, _, err = outsider.Get(ctx, "/")
				require.ErrorContains(t, err, "the server requires SASL", scheme)
				cancel()
				require.NoError(t, outsider.Close())
			}
		}
	})
}
