package faults_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/internal/testkit/trial"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// outage is one outage of all servers, which many clients live through, each with some holds.
type outage struct {
	clients, holds int
	timeout        time.Duration // of the sessions
	lasts          time.Duration

	lost  int
	dials map[int]int // in each tenth of a second since it began
}

// run dials the clients at different times, as if their processes had started one by one, and counts what they lose.
// Each answer takes 10 ms.
func (o *outage) run(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory(), zktest.WithTickTime(tick))
		srv.Intercept(zktest.Match{Times: -1}, zktest.Delay(10*time.Millisecond))
		var mu sync.Mutex
		var down time.Time
		o.dials = map[int]int{}
		counted := func(dial conn.DialFunc) conn.DialFunc {
			return func(ctx context.Context, network, address string) (net.Conn, error) {
				mu.Lock()
				if !down.IsZero() {
					o.dials[int(time.Since(down)/(100*time.Millisecond))]++
				}
				mu.Unlock()
				return dial(ctx, network, address)
			}
		}
		holds := make([][]*zkrecipes.Hold, o.clients)
		var all sync.WaitGroup
		for i := range holds {
			label := fmt.Sprint("c", i)
			begin := rand.N(o.timeout)
			all.Go(func() {
				time.Sleep(begin)
				c := bubble.Dial(t, srv, label, conn.WithSessionTimeout(o.timeout), conn.WithDialer(counted(srv.DialAs(label))))
				for j := range o.holds {
					m, err := mutex.New(c, fmt.Sprintf("/locks/%d-%d", i, j))
					require.NoError(t, err)
					h, err := m.Lock(t.Context())
					require.NoError(t, err)
					holds[i] = append(holds[i], h)
				}
			})
		}
		all.Wait()
		time.Sleep(3 * o.timeout)
		mu.Lock()
		down = time.Now()
		mu.Unlock()
		srv.Down()
		time.Sleep(o.lasts)
		srv.Up()
		time.Sleep(o.timeout)
		for _, hs := range holds {
			for _, h := range hs {
				if h.Err() != nil {
					o.lost++
				}
			}
		}
	})
}

// TestOutage_LessThanHalfTheTimeout_HoldsSurvive: a hold survives even if its client's proof was old when the outage
// began, or if the client was in a long pause when it ended. Clients return at different times, so that a restored
// server is not overrun.
func TestOutage_LessThanHalfTheTimeout_HoldsSurvive(t *testing.T) {
	const clients = 80
	for _, lasts := range []time.Duration{4 * time.Second, 6700 * time.Millisecond} {
		o := &outage{clients: clients, holds: 10, timeout: 15 * time.Second, lasts: lasts}
		o.run(t)
		perSecond, together := 0, 0
		for tenth := 30; tenth < 10*int(o.timeout/time.Second); tenth++ { // by then the pauses have grown
			sum := 0
			for i := range 10 {
				sum += o.dials[tenth+i]
			}
			perSecond, together = max(perSecond, sum), max(together, o.dials[tenth])
		}
		t.Logf("after an outage of %v: %d of %d holds lost; at most %d attempts in a second, %d in a tenth of one",
			o.lasts, o.lost, clients*o.holds, perSecond, together)
		require.Zero(t, o.lost)
		require.LessOrEqual(t, perSecond, clients*5/4, "0.8 in a second each, on average")
		require.LessOrEqual(t, together, clients/3)
	}
}

// TestOutage_JustAfterAConnect: a connect proves the most, because the server counts the whole timeout from then on.
func TestOutage_JustAfterAConnect(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c := bubble.Dial(t, srv, "a", conn.WithSessionTimeout(15*time.Second))
		m, err := mutex.New(c, "/m")
		require.NoError(t, err)
		h, err := m.Lock(t.Context())
		require.NoError(t, err)
		began := time.Now()
		srv.Down()
		<-h.Done()
		require.Equal(t, 15*time.Second*19/20, time.Since(began))
	})
}
