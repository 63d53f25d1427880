package soak

import (
	"fmt"
	"os"
	"runtime"
	"runtime/metrics"

	"github.com/zkrecipes/zkrecipes/integration/kit/zkserver"
)

// sample takes a sample. If a server does not answer, as during a fault, watches and nodes are copied from the previous
// sample.
func sample(servers []*zkserver.Server, before Sample) Sample {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	s := Sample{Heap: live[0].Value.Uint64(), Resident: resident(), Goroutines: runtime.NumGoroutine()}
	for _, server := range servers {
		now := figures(server)
		nodes := now["zk_znode_count"]
		if nodes == 0 {
			s.Watches, s.Nodes = before.Watches, before.Nodes
			break
		}
		s.Watches += now["zk_watch_count"]
		s.Nodes = max(s.Nodes, nodes)
	}
	return s
}

// figures queries a server, repeatedly if the machine is busy. It returns nil if there is no answer.
func figures(server *zkserver.Server) map[string]int {
	for range 5 {
		if figures, err := server.Figures(); err == nil {
			return figures
		}
	}
	return nil
}

// resident returns the resident memory of this process, or 0 where there is no /proc.
func resident() uint64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	var size, pages uint64
	if _, err := fmt.Sscan(string(text), &size, &pages); err != nil {
		return 0
	}
	return pages * uint64(os.Getpagesize())
}
