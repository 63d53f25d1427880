package faults_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
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
// server is not overrun. OUTAGES turns this into a measurement: OUTAGES="1000 4s 5s 6s" runs 1,000 clients.
func TestOutage_LessThanHalfTheTimeout_HoldsSurvive(t *testing.T) {
	clients, lasts := 80, []string{"4s", "6700ms"}
	measure := strings.Fields(os.Getenv("OUTAGES"))
	if len(measure) > 0 {
		clients, _ = strconv.Atoi(measure[0])
		lasts = measure[1:]
	}
	for _, d := range lasts {
		long, err := time.ParseDuration(d)
		require.NoError(t, err)
		o := &outage{clients: clients, holds: 10, timeout: 15 * time.Second, lasts: long}
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
		if len(measure) == 0 {
			require.Zero(t, o.lost)
			require.LessOrEqual(t, perSecond, clients*5/4, "0.8 in a second each, on average")
			require.LessOrEqual(t, together, clients/3)
		}
	}
}

// TestOutage_JustAfterAConnect: a connect proves the most, because the server counts the whole timeout from then on.
func TestOutage_JustAfterAConnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory())
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

// TestOutage_Picture: the picture in the production checklist shows these times.
func TestOutage_Picture(t *testing.T) {
	const timeout, perSecond = 15 * time.Second, 4
	const first, last = timeout - timeout/20 - 4*timeout/11, timeout - timeout/20 - 3*timeout/11
	const connected = timeout - timeout/20
	const survived = timeout * 45 / 100
	var picture strings.Builder
	line := func(what string, from, to time.Duration, mark, says string) {
		column := func(at time.Duration) int { return int(at * perSecond / time.Second) }
		bar := strings.Repeat(" ", column(from)) + strings.Repeat(mark, max(1, column(to)-column(from)))
		fmt.Fprintf(&picture, "%-24s%-60s%s\n", what, bar, says)
	}
	seconds := func(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }
	line("seconds", 0, 0, "0       2       4       6       8       10      12      14", "")
	line("no server", 0, survived, "=", seconds(survived)+": holds survive that")
	line("the last client is back", survived, survived+timeout/8, "-", "an eighth of the timeout later at most")
	line("the first hold ends", first, first, "x", seconds(first)+": its proof was old")
	line("most holds have ended", last, last, "x", seconds(last)+": its proof was fresh")
	line("the last hold ends", connected, connected, "x", seconds(connected)+": its client had just connected")
	page, err := os.ReadFile("../../../docs/guides/production.md")
	require.NoError(t, err)
	lines := strings.Split(picture.String(), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	require.Contains(t, string(page), "```text\n"+strings.Join(lines, "\n")+"```\n")
}
