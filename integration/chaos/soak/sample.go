package soak

import (
	"fmt"
	"os"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"

	"github.com/zkrecipes/zkrecipes/integration/kit/zkserver"
)

// sample takes a sample. If a server does not answer, as during a fault, watches and nodes are copied from the previous
// sample.
func sample(servers []*zkserver.Server, before Sample) Sample {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	s := Sample{Heap: live[0].Value.Uint64(), Resident: resident(), Goroutines: runtime.NumGoroutine()}
	for _, server := range servers {
		answer := mntr(server)
		nodes := figure(answer, "zk_znode_count")
		if nodes == 0 {
			s.Watches, s.Nodes = before.Watches, before.Nodes
			break
		}
		s.Watches += figure(answer, "zk_watch_count")
		s.Nodes = max(s.Nodes, nodes)
	}
	return s
}

// mntr queries a server, repeatedly if the machine is busy. It returns "" if there is no answer.
func mntr(server *zkserver.Server) string {
	for range 5 {
		if answer, err := server.FourLetter("mntr"); err == nil {
			return answer
		}
	}
	return ""
}

// figure returns a figure from the answer to mntr, or 0 if it is missing.
func figure(mntr, name string) int {
	for line := range strings.Lines(mntr) {
		if value, found := strings.CutPrefix(line, name+"\t"); found {
			n, _ := strconv.Atoi(strings.TrimSpace(value)) // 0 if it is not a number
			return n
		}
	}
	return 0
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
