package zkr

import (
	"testing"

	"github.com/zkrecipes/zkrecipes/integration/proxy"
	"github.com/zkrecipes/zkrecipes/integration/zkserver"
	"github.com/zkrecipes/zkrecipes/internal/exclusion"
)

func init() { exclusion.Main() }

// TestExclusion is the test of the same name in cmd/zkr, on a real server. Each zkr has a proxy of its own.
func TestExclusion(t *testing.T) {
	server := zkserver.Start(t, zkserver.WithTickTime(exclusion.Tick))
	zkr := program(t)
	exclusion.Run(t, func(*testing.T) exclusion.Setting {
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
