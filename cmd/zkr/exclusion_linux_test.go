package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/testkit/exclusion"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func init() { exclusion.Main() }

// TestExclusion checks for each fault that everything one program has started is gone before the next program starts.
// integration/zkr does the same against a real server.
func TestExclusion(t *testing.T) {
	t.Parallel()
	exclusion.Run(t, func(t *testing.T, tick time.Duration) exclusion.Setting {
		srv := zktest.Run(t, zktest.WithTickTime(tick))
		var links atomic.Int64
		return exclusion.Setting{
			Link: func(t *testing.T) exclusion.Link {
				label := fmt.Sprint("zkr", links.Add(1))
				return exclusion.Link{
					Address:   address(t, srv, label),
					Partition: func() { srv.Stall(zktest.Label(label), zktest.Both) },
					Mute:      func() { srv.Stall(zktest.Label(label), zktest.ToServer) },
					Heal:      func() { srv.Heal(zktest.Label(label)) },
				}
			},
			Zkr: func(ctx context.Context, args ...string) *exec.Cmd {
				zkr := exec.CommandContext(ctx, os.Args[0], args...)
				zkr.Env = append(os.Environ(), asZkr+"=1")
				return zkr
			},
			Rounds: 1,
		}
	})
}
