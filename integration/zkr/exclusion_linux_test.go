package zkr

import (
	"testing"
	"time"

	"github.com/zkrecipes/zkrecipes/integration/proxy"
	"github.com/zkrecipes/zkrecipes/integration/zkserver"
	"github.com/zkrecipes/zkrecipes/internal/exclusion"
)

func init() { exclusion.Main() }

// TestExclusion is the test of the same name in cmd/zkr, on a real server. Each zkr has a proxy of its own.
func TestExclusion(t *testing.T) {
	servers := map[time.Duration]*zkserver.Server{}
	for _, tick := range exclusion.Ticks() { // here, since no subtest may skip its parent
		servers[tick] = zkserver.Start(t, zkserver.WithTickTime(tick))
	}
	zkr := program(t)
	exclusion.Run(t, func(_ *testing.T, tick time.Duration) exclusion.Setting {
		server := servers[tick]
		return exclusion.Setting{
			Link: func(t *testing.T) exclusion.Link {
				p := proxy.Start(t, server.Addr())
				return exclusion.Link{
					Address:   p.Addr(),
					Partition: func() { p.Stall(proxy.Both) },
					Mute:      func() { p.Stall(proxy.ToServer) },
					Heal:      p.Heal,
				}
			},
			Zkr:    zkr,
			Rounds: 3,
		}
	})
}
