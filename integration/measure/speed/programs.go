package speed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/zkrecipes/zkrecipes/integration/kit/zkserver"
)

// contestant is a command, and what its runs have cost.
type contestant struct {
	name      string
	args      []string
	wall, cpu []time.Duration
	memory    int64 // the maximum of all runs, in KiB
}

// comparePrograms measures the cost of running a program that does nothing under a lock: flock, zkr and etcdctl. The
// servers are a real ZooKeeper and a real etcd, which write to memory where the system has such a directory. flock has
// no server. The memory is never less than 7 MiB, because a process begins as a copy of this one.
func comparePrograms(rounds int) (err error) {
	if rounds < 1 {
		return fmt.Errorf("%d rounds: want 1 or more", rounds)
	}
	dir, err := os.MkdirTemp("/dev/shm", "startup-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	zkr := filepath.Join(dir, "zkr")
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s", "-o", zkr, ".")
	build.Dir, build.Env = "../cmd/zkr", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build zkr: %w\n%s", err, out)
	}
	srv, err := zkserver.Open(zkserver.WithTickTime(2 * time.Second))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, srv.Close()) }()
	etcd, stop, err := startEtcd(filepath.Join(dir, "etcd"))
	if err != nil {
		return err
	}
	defer stop()
	all := []*contestant{
		{name: "true", args: []string{"true"}},
		{name: "flock FILE true", args: []string{"flock", filepath.Join(dir, "lock"), "true"}},
		{name: "zkr lock PATH -- true", args: []string{zkr, "lock", "--servers", srv.Addr(), "/p", "--", "true"}},
		{name: "etcdctl lock NAME true", args: []string{"etcdctl", "--endpoints", etcd, "lock", "p", "true"}},
	}
	const warmUp = 3
	for round := range warmUp + rounds {
		for _, c := range all {
			if err := c.measure(round >= warmUp); err != nil {
				return err
			}
		}
	}
	fmt.Printf("%d runs each, median (least)\n%-24s %18s %18s %12s\n", rounds, "", "wall", "CPU", "peak memory")
	for _, c := range all {
		fmt.Printf("%-24s %18s %18s %8.1f MiB\n", c.name, spread(c.wall), spread(c.cpu), float64(c.memory)/1024)
	}
	return nil
}

// measure runs the command once. The CPU time covers all its processes, the memory the largest.
func (c *contestant) measure(counts bool) error {
	cmd := exec.Command(c.args[0], c.args[1:]...) //nolint:gosec // of the list above
	cmd.Env = append(os.Environ(), "ETCDCTL_API=3")
	began := time.Now()
	out, err := cmd.CombinedOutput()
	took := time.Since(began)
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", c.name, err, out)
	}
	if !counts {
		return nil
	}
	c.wall, c.cpu = append(c.wall, took), append(c.cpu, cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
	if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		c.memory = max(c.memory, usage.Maxrss)
	}
	return nil
}

func spread(all []time.Duration) string {
	slices.Sort(all)
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	return fmt.Sprintf("%.1f ms (%.1f)", ms(all[len(all)/2]), ms(all[0]))
}

// startEtcd starts a server, and waits until it answers.
func startEtcd(dir string) (address string, stop func(), err error) {
	client, err := freeAddress()
	if err != nil {
		return "", nil, err
	}
	peer, err := freeAddress()
	if err != nil {
		return "", nil, err
	}
	var log bytes.Buffer
	cmd := exec.Command("etcd", "--data-dir", dir, //nolint:gosec // its arguments are fixed
		"--listen-client-urls", "http://"+client, "--advertise-client-urls", "http://"+client,
		"--listen-peer-urls", "http://"+peer, "--initial-advertise-peer-urls", "http://"+peer, "--initial-cluster",
		"default=http://"+peer)
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		return "", nil, fmt.Errorf("%w: install Debian's etcd-server and etcd-client", err)
	}
	stop = func() {
		_ = cmd.Process.Kill() // it may already have ended
		_ = cmd.Wait()
	}
	for range 100 {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		//nolint:gosec // the address is ours
		ask := exec.CommandContext(ctx, "etcdctl", "--endpoints", client, "endpoint", "health")
		ask.Env = append(os.Environ(), "ETCDCTL_API=3")
		err := ask.Run()
		cancel()
		if err == nil {
			return client, stop, nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	stop()
	return "", nil, fmt.Errorf("etcd does not answer:\n%s", log.String())
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
