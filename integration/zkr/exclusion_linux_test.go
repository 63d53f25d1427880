package zkr

import (
	"flag"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkrecipes/zkrecipes/integration/kit/proxy"
	"github.com/zkrecipes/zkrecipes/integration/kit/zkserver"
	"github.com/zkrecipes/zkrecipes/internal/testkit/exclusion"
)

func init() { exclusion.Main() }

var members = flag.Int("members", 1, "servers of the ensemble for TestExclusion")

// TestExclusion is the test of the same name in cmd/zkr, against real servers. Each zkr is behind its own proxy.
func TestExclusion(t *testing.T) {
	servers := map[time.Duration][]*zkserver.Server{}
	for _, tick := range exclusion.Ticks() { // here, because no subtest may skip its parent
		if *members == 1 {
			servers[tick] = []*zkserver.Server{zkserver.Start(t, zkserver.WithTickTime(tick))}
		} else {
			servers[tick] = zkserver.StartEnsemble(t, *members, zkserver.WithTickTime(tick), zkserver.WithSyncLimit(20)).Servers
		}
	}
	zkr := program(t)
	exclusion.Run(t, func(_ *testing.T, tick time.Duration) exclusion.Setting {
		var links atomic.Int64
		return exclusion.Setting{
			Link: func(t *testing.T) exclusion.Link {
				server := servers[tick][int(links.Add(1))%len(servers[tick])]
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
