package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/testkit/need"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// TestOutage_WhenTheProgramIsStopped prints the table in docs/guides/zkr-reference.md: how long after the loss of all
// servers the program is asked to stop, and is killed. Both depend on where between two pings the servers are lost.
func TestOutage_WhenTheProgramIsStopped(t *testing.T) {
	need.Asked(t, "a quiet machine")
	const runs = 6
	type loss struct {
		*told
		timeout time.Duration
		down    chan time.Time
	}
	var all []loss
	for _, timeout := range []time.Duration{
		4 * time.Second, 6 * time.Second, 10 * time.Second, 15 * time.Second,
		30 * time.Second,
	} {
		for i := range runs {
			srv := zktest.Run(t)
			z := start(t, srv, "a", "lock", "--session-timeout="+timeout.String(), "/p", "--", "sh", "-c",
				`trap "" TERM; sleep 300`)
			z.until(t, "started")
			one := loss{z, timeout, make(chan time.Time, 1)}
			time.AfterFunc(timeout/2+timeout*time.Duration(i)/(2*runs), func() {
				srv.Down()
				one.down <- time.Now()
			})
			all = append(all, one)
		}
	}
	for len(all) > 0 {
		timeout, asked, killed := all[0].timeout, [runs]time.Duration{}, [runs]time.Duration{}
		for i, one := range all[:runs] {
			down := <-one.down
			after := func(event string) time.Duration {
				text, _ := one.until(t, event)["time"].(string)
				at, err := time.Parse(time.RFC3339Nano, text)
				require.NoError(t, err)
				return at.Sub(down)
			}
			asked[i], killed[i] = after("term"), after("kill")
		}
		least, most := extremes(asked[:])
		first, last := extremes(killed[:])
		t.Logf("| %v | %s to %s | %s to %s |", timeout, seconds(least), seconds(most), seconds(first), seconds(last))
		require.Greater(t, least, timeout/5-timeout/20,
			"a healthy deadline is 0.45 of the timeout ahead, and a quarter of it is grace")
		require.Less(t, last, timeout, "no server has ended the session")
		all = all[runs:]
	}
}

func extremes(list []time.Duration) (least, most time.Duration) {
	least = list[0]
	for _, one := range list {
		least, most = min(least, one), max(most, one)
	}
	return least, most
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }
