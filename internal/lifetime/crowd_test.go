package lifetime_test

import (
	"context"
	"net"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/trial"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// busy is a server that serves one new connection after the other, including those whose client has left.
type busy struct {
	takes time.Duration

	mu   sync.Mutex
	free time.Time
}

func (b *busy) dial(next conn.DialFunc) conn.DialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		raw, err := next(ctx, network, address)
		if err != nil {
			return nil, err
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		if now := time.Now(); b.free.Before(now) {
			b.free = now
		}
		b.free = b.free.Add(b.takes)
		turn, leave := context.WithDeadline(context.Background(), b.free)
		return &queued{Conn: raw, turn: turn, leave: leave}, nil
	}
}

// queued is a connection from which nothing is read before its turn.
type queued struct {
	net.Conn
	turn  context.Context
	leave context.CancelFunc
}

func (q *queued) Read(p []byte) (int, error) {
	<-q.turn.Done()
	return q.Conn.Read(p)
}

func (q *queued) Close() error {
	defer q.leave() // only then, or Read might return an answer that has come too late
	return q.Conn.Close()
}

// TestReconnect_MoreClientsThanTheServerTakesInTime: all connections are cut, and the server needs more than three
// times the connect timeout to take all clients back. If each client always left after that and came back, the server
// would serve clients that have left, forever.
func TestReconnect_MoreClientsThanTheServerTakesInTime(t *testing.T) {
	const many, takes = 60, 100 * time.Millisecond
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		crowd := busy{takes: time.Microsecond}
		var all []*conn.Client
		for range many {
			all = append(all, trial.Dial(t, srv, conn.WithDialer(crowd.dial(srv.DialAs(trial.Label)))))
		}
		crowd.mu.Lock()
		crowd.takes = takes
		crowd.mu.Unlock()
		srv.Cut(trial.Ours)
		synctest.Wait()
		time.Sleep(time.Minute)
		for i, c := range all {
			require.Equal(t, zkrecipes.Connected, c.Status().State, i)
		}
	})
}

// TestConnect_SilentServers_GetMoreTime: only if there is no other server to try, and only by default.
func TestConnect_SilentServers_GetMoreTime(t *testing.T) {
	const sixth = 2500 * time.Millisecond // of 15 s
	for name, c := range map[string]struct {
		servers string
		opts    []conn.Option
		want    []time.Duration
	}{
		"alone":           {"10.0.0.1", nil, []time.Duration{sixth, 2 * sixth, 4 * sixth, 4 * sixth}},
		"another refuses": {"10.0.0.1,10.0.0.2", nil, []time.Duration{sixth, sixth, sixth, sixth}},
		"with a given bound": {
			"10.0.0.1", []conn.Option{conn.WithConnectTimeout(sixth)}, []time.Duration{sixth, sixth, sixth, sixth},
		},
		"with a longer bound": {
			"10.0.0.1", []conn.Option{conn.WithConnectTimeout(time.Minute)}, []time.Duration{time.Minute},
		},
	} {
		trial.Run(t, func(t *testing.T, _ *zktest.Server) {
			var told attempts
			dial := func(_ context.Context, _, address string) (net.Conn, error) {
				if address != "10.0.0.1:2181" {
					return nil, syscall.ECONNREFUSED
				}
				return trial.Silent(), nil
			}
			client, err := conn.New(c.servers, append(c.opts, conn.WithDialer(dial), told.option())...)
			require.NoError(t, err)
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			var took []time.Duration
			for _, a := range told.Values() {
				if a.Outcome == "timeout" && len(took) < len(c.want) {
					took = append(took, a.Took)
				}
			}
			require.Equal(t, c.want, took, name)
			require.NoError(t, client.Close())
		})
	}
}
