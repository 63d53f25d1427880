package speed

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/integration/kit/zkserver"
)

// A program that replaces a real server by zktest must not wait longer for it. Both are measured in turns. On a busy
// machine the clock means little, so the processor time of the servers counts.
func TestZktest_IsNotSlowerThanReal(t *testing.T) {
	if testing.Short() {
		t.Skip("measures for some seconds")
	}
	theirs := zkserver.Start(t)
	if theirs.PID() == 0 {
		t.Skip("the process of a server in a container is not known")
	}
	own, stop, err := startZktestd()
	require.NoError(t, err)
	defer func() { require.NoError(t, stop()) }()
	servers := []server{own, {"zookeeper", theirs.Addr(), theirs.PID()}}
	clients := make([][]*client, len(servers))
	for i, s := range servers {
		clients[i], err = dialMany(s.addr, 8)
		require.NoError(t, err)
	}
	for _, op := range operations {
		var costs [2]cost
		for round := range 3 {
			for i, s := range servers {
				before := zkserver.CPU(s.pid)
				n, _, err := work(clients[i], op, 400*time.Millisecond)
				require.NoError(t, err)
				if round > 0 { // in the first one, the JVM compiles
					costs[i].cpu += zkserver.CPU(s.pid) - before
					costs[i].operations += n
				}
			}
		}
		t.Logf("%s: processor time each: zktest %v, zookeeper %v", op.name, costs[0], costs[1])
		require.LessOrEqual(t, costs[0].each(), costs[1].each(), op.name)
	}
}
