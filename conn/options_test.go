package conn_test

import (
	"context"
	"errors"
	"math"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/conn"
)

// The documented limits are accepted. Values beyond them are rejected with an error that names the limits.
func TestOptions_Limits(t *testing.T) {
	dead, cancel := context.WithCancel(t.Context())
	cancel()
	dial := func(opt conn.Option) error {
		_, err := conn.Dial(dead, "h1:2181", opt, conn.WithDialer(func(context.Context, string, string) (net.Conn, error) {
			return nil, errors.New("no server here")
		}))
		return err
	}
	for name, tt := range map[string]struct{ good, bad []conn.Option }{
		"session timeout": {
			[]conn.Option{conn.WithSessionTimeout(10 * time.Millisecond), conn.WithSessionTimeout(24 * time.Hour)},
			[]conn.Option{conn.WithSessionTimeout(10*time.Millisecond - 1), conn.WithSessionTimeout(24*time.Hour + 1)},
		},
		"connect timeout": {[]conn.Option{conn.WithConnectTimeout(1)}, []conn.Option{conn.WithConnectTimeout(0)}},
		"tick time":       {[]conn.Option{conn.WithTickTime(1)}, []conn.Option{conn.WithTickTime(0)}},
		"safety margin": {
			[]conn.Option{conn.WithSafetyMargin(0), conn.WithSafetyMargin(0.3)},
			[]conn.Option{conn.WithSafetyMargin(-0.001), conn.WithSafetyMargin(0.301), conn.WithSafetyMargin(math.NaN())},
		},
		"request size": {
			[]conn.Option{conn.WithMaxRequestSize(4 << 10), conn.WithMaxRequestSize(1 << 30)},
			[]conn.Option{conn.WithMaxRequestSize(4<<10 - 1), conn.WithMaxRequestSize(1<<30 + 1)},
		},
		"reply size": {
			[]conn.Option{conn.WithMaxReplySize(4 << 10), conn.WithMaxReplySize(1 << 30)},
			[]conn.Option{conn.WithMaxReplySize(4<<10 - 1), conn.WithMaxReplySize(1<<30 + 1)},
		},
	} {
		for i, opt := range tt.good {
			require.ErrorIs(t, dial(opt), context.Canceled, "%s %d", name, i)
		}
		for i, opt := range tt.bad {
			err := dial(opt)
			require.ErrorContains(t, err, name, "%d", i)
			require.ErrorContains(t, err, "want ", "%s %d", name, i)
		}
	}
}
