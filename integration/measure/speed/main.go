// Package speed compares zktest with a real ZooKeeper: how many operations per second each serves, and how much memory
// each takes. Both run as separate processes, and are measured in turns, with clients that cost next to nothing.
// ZooKeeper keeps its log in memory where /dev/shm exists, and has production settings.
//
// A rate is the median of the rounds. A ratio is the median of the ratios within one round, so other load on the
// machine affects both sides. The processor time of a server for one operation says more if the machine has other work.
// `cd integration && go run ./measure speed` runs the command, and docs/measurements.md has its table.
package speed

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/integration/kit/zkserver"
	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// Run runs the command with its flags.
func Run(args []string) (err error) {
	flags := flag.NewFlagSet("speed", flag.ExitOnError)
	rounds := flags.Int("rounds", 5, "`number` of rounds")
	_ = flags.Parse(args) // exits on error
	theirs, err := zkserver.Open(zkserver.WithTickTime(2*time.Second),
		zkserver.WithJVM("-Xms256m", "-Xmx512m", "-XX:TieredStopAtLevel=4"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, theirs.Close()) }()
	version, err := theirs.Version()
	if err != nil {
		return err
	}
	own, stop, err := startZktestd()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	number, _, _ := strings.Cut(version, "-")
	fmt.Printf("zktest and ZooKeeper %s, %s, %d cores\n\n", number, runtime.Version(), runtime.NumCPU())
	servers := []server{own, {"zookeeper", theirs.Addr(), theirs.PID()}}
	if err := compareMemory(servers); err != nil {
		return err
	}
	return compareSpeed(servers, *rounds)
}

// server is a measured server. The first one is zktest.
type server struct {
	name, addr string
	pid        int
}

// startZktestd builds the program and starts it.
func startZktestd() (s server, stop func() error, err error) {
	dir, err := os.MkdirTemp("", "speed")
	if err != nil {
		return s, nil, err
	}
	remove := func() error { return os.RemoveAll(dir) }
	program := filepath.Join(dir, "zktestd")
	build := exec.Command("go", "build", "-o", program, "github.com/zkrecipes/zkrecipes/cmd/zktestd")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return s, nil, errors.Join(err, remove())
	}
	cmd := exec.Command(program)
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		return s, nil, errors.Join(err, remove())
	}
	stop = func() error { return errors.Join(in.Close(), cmd.Wait(), remove()) }
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return s, nil, errors.Join(fmt.Errorf("zktestd: %w", err), stop())
	}
	go func() { _, _ = io.Copy(io.Discard, out) }() // until it ends
	return server{"zktest", strings.TrimSpace(strings.TrimPrefix(line, "ready ")), cmd.Process.Pid}, stop, nil
}

// operation is what a client repeats on its own node.
type operation struct {
	name     string
	requests func(path string) [][]byte
}

var operations = []operation{
	{"create and delete", func(path string) [][]byte {
		return [][]byte{create(path+"/x", nil, zk.FlagEphemeral), wire.DeleteFrame(path+"/x", -1)}
	}},
	{"get", func(path string) [][]byte { return [][]byte{wire.ReadFrame(wire.OpGetData, path, false)} }},
	{"set", func(path string) [][]byte { return [][]byte{wire.SetFrame(path, data, -1)} }},
	{"multi of check and set", func(path string) [][]byte {
		return [][]byte{wire.MultiFrame([]any{
			&zk.CheckVersionRequest{Path: "/", Version: -1}, &zk.SetDataRequest{Path: path, Data: data, Version: -1},
		})}
	}},
}

func create(path string, data []byte, flags int32) []byte {
	return wire.CreateFrame(wire.OpCreate, &zk.CreateRequest{
		Path: path, Data: data,
		Acl: zk.WorldACL(zk.PermAll), Flags: flags,
	})
}

var data = make([]byte, 100)

func compareSpeed(servers []server, rounds int) error {
	const slice = 500 * time.Millisecond // for each server in a round
	fmt.Printf("| operations a second | clients | %[1]s | %[2]s | ratio | processor time each: %[1]s | %[2]s |\n"+
		"| --- | --- | --- | --- | --- | --- | --- |\n", servers[0].name, servers[1].name)
	for _, clients := range []int{1, 8, 64} {
		all := make([][]*client, len(servers))
		for i, s := range servers {
			var err error
			if all[i], err = dialMany(s.addr, clients); err != nil {
				return err
			}
		}
		for _, op := range operations {
			rates := make([][]float64, len(servers))
			costs := make([]cost, len(servers))
			var ratios []float64
			for round := range rounds + 1 {
				for i := range servers {
					before := zkserver.CPU(servers[i].pid)
					n, took, err := work(all[i], op, slice)
					if err != nil {
						return fmt.Errorf("%s: %s: %w", servers[i].name, op.name, err)
					}
					if round > 0 { // in the first one, the JVM compiles
						rates[i] = append(rates[i], float64(n)/took.Seconds())
						costs[i].cpu += zkserver.CPU(servers[i].pid) - before
						costs[i].operations += n
					}
				}
				if round > 0 {
					ratios = append(ratios, rates[0][round-1]/rates[1][round-1])
				}
			}
			fmt.Printf("| %s | %d | %.0f | %.0f | %.1f | %v | %v |\n",
				op.name, clients, median(rates[0]), median(rates[1]), median(ratios), costs[0], costs[1])
		}
		for _, c := range slices.Concat(all...) {
			if err := c.close(); err != nil {
				return err
			}
		}
	}
	return nil
}

// cost is what a server has spent on operations.
type cost struct {
	cpu        time.Duration
	operations int
}

func (c cost) each() time.Duration { return c.cpu / time.Duration(max(1, c.operations)) }

func (c cost) String() string { return fmt.Sprintf("%d µs", c.each().Microseconds()) }

func median(v []float64) float64 { return slices.Sorted(slices.Values(v))[len(v)/2] }

// dialMany connects clients, and creates a node for each.
func dialMany(addr string, clients int) ([]*client, error) {
	all := make([]*client, clients)
	for i := range all {
		c, err := dial(addr)
		if err == nil {
			err = c.do(create(node(i), data, 0))
		}
		if err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return nil, err
		}
		all[i] = c
	}
	return all, nil
}

func node(i int) string { return "/speed-" + strconv.Itoa(i) }

// work makes every client repeat the operation for about a slice of time.
func work(clients []*client, op operation, slice time.Duration) (operations int, took time.Duration, err error) {
	var all sync.WaitGroup
	var done atomic.Int64
	errs := make([]error, len(clients))
	start := time.Now()
	for i, c := range clients {
		requests := op.requests(node(i))
		all.Go(func() {
			for time.Since(start) < slice {
				if errs[i] = c.do(requests...); errs[i] != nil {
					return
				}
				done.Add(1)
			}
		})
	}
	all.Wait()
	return int(done.Load()), time.Since(start), errors.Join(errs...)
}

const (
	nodes   = 100_000
	watches = 10_000
)

// compareMemory prints what the processes use: empty, with many nodes, and with many watches. That includes what a
// process once used for garbage.
func compareMemory(servers []server) error {
	table := make([][]string, len(servers))
	for i, s := range servers {
		c, err := dial(s.addr)
		if err != nil {
			return err
		}
		show := func() { table[i] = append(table[i], fmt.Sprintf("%d MB", resident(s.pid)>>20)) }
		show()
		for n := 0; n < nodes; n += 100 {
			batch := make([]any, 100)
			for k := range batch {
				batch[k] = &zk.CreateRequest{Path: fmt.Sprintf("/n%06d", n+k), Data: data, Acl: zk.WorldACL(zk.PermAll)}
			}
			if err := c.do(wire.MultiFrame(batch)); err != nil {
				return err
			}
		}
		show()
		for n := range watches {
			if err := c.do(wire.ReadFrame(wire.OpGetData, fmt.Sprintf("/n%06d", n), true)); err != nil {
				return err
			}
		}
		show()
		if err := c.close(); err != nil {
			return err
		}
	}
	fmt.Printf("| resident memory | %s | %s |\n| --- | --- | --- |\n", servers[0].name, servers[1].name)
	for row, name := range []string{"empty", "100,000 nodes of 100 bytes", "and 10,000 watches"} {
		fmt.Printf("| %s | %s | %s |\n", name, table[0][row], table[1][row])
	}
	fmt.Println()
	return nil
}

// resident returns the resident memory of a process in bytes, or 0 on systems without /proc.
func resident(pid int) int {
	statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	pages, _ := strconv.Atoi(strings.Fields(string(statm))[1]) // always digits
	return pages * os.Getpagesize()
}
