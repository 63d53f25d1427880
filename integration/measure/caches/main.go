// Package caches compares cache.Tree with Curator's CuratorCache on one tree of a real server. The two take turns. It
// prints the time, the heap and the requests that loading the tree takes, the lag of changes, and the time until a
// cache is up to date after its connection was lost.
//
//	go run ./measure caches            from integration/
package caches

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	_ "embed"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/integration/kit/peer"
	"github.com/zkrecipes/zkrecipes/integration/kit/proxy"
	"github.com/zkrecipes/zkrecipes/integration/kit/zkserver"
)

//go:embed testdata/CacheBench.java
var source []byte

const (
	root    = "/tree"
	rounds  = 3
	rate    = 1000      // changes per second
	changes = 10 * rate // in a round
)

// Run runs the command with its flags.
func Run(args []string) error {
	flags := flag.NewFlagSet("caches", flag.ExitOnError)
	nodes := flags.Int("nodes", 100_000, "`number` of nodes")
	serving := flags.Bool("serve", false, "keep a cache.Tree, by order of another process")
	_ = flags.Parse(args) // exits on error
	if *serving {
		serve(context.Background(), os.Stdin, os.Stdout)
		return nil
	}
	return run(context.Background(), *nodes)
}

func run(ctx context.Context, nodes int) (err error) {
	server, err := zkserver.Open(zkserver.WithTickTime(2*time.Second),
		zkserver.WithJVM("-Xms512m", "-Xmx1g", "-XX:TieredStopAtLevel=4"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	writer, err := conn.Dial(ctx, server.Addr())
	if err != nil {
		return err
	}
	defer func() { _ = writer.Close() }() // it never fails
	paths, err := plant(ctx, writer, nodes)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "caches-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // in the temporary directory
	java, err := peer.StartCurator(dir, "CacheBench", source, []string{"-Xmx1g"})
	if err != nil {
		return err
	}
	defer java.Stop()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	ours, err := peer.StartProgram(exec.Command(self, "caches", "-serve"))
	if err != nil {
		return err
	}
	defer ours.Stop()
	b := &bench{server: server, writer: writer, paths: paths}
	fmt.Printf("%-10s %10s %12s %12s %10s %10s %10s %12s %12s\n", "", "load", "bytes a node", "requests", "lag p50",
		"lag p99", "write p99", "reconnect", "requests")
	for range rounds {
		for _, c := range []struct {
			name string
			*peer.Program
		}{{"cache.Tree", ours}, {"Curator", java}} {
			if err := b.measure(ctx, c.name, c.Program); err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
		}
	}
	return nil
}

// plant creates the nodes: directories of a thousand, with some data.
func plant(ctx context.Context, c *conn.Client, nodes int) (paths []string, err error) {
	var ops []zkrecipes.Op
	add := func(path string) {
		ops = append(ops, zkrecipes.OpCreate(path, []byte("thirty-two bytes of some content"), 0))
		paths = append(paths, path)
	}
	add(root)
	for dir := 0; len(paths) < nodes; dir++ {
		parent := fmt.Sprintf("%s/directory-%04d", root, dir)
		add(parent)
		for i := 0; i < 1000 && len(paths) < nodes; i++ {
			add(fmt.Sprintf("%s/node-%06d", parent, i))
		}
	}
	for part := range slices.Chunk(ops, 1000) {
		if _, err := c.Multi(ctx, part...); err != nil {
			return nil, err
		}
	}
	return paths, nil
}

type bench struct {
	server *zkserver.Server
	writer *conn.Client
	paths  []string
	turn   int
}

func (b *bench) measure(ctx context.Context, name string, p *peer.Program) error {
	before, err := b.received()
	if err != nil {
		return err
	}
	opened, err := ask(p, "open", b.server.Addr(), root)
	if err != nil {
		return err
	}
	took, heap := time.Duration(opened[0])*time.Millisecond, opened[1]
	after, err := b.received()
	if err != nil {
		return err
	}
	if err := b.collect(ctx); err != nil {
		return err
	}
	n, median, p99, write, err := b.change(ctx, p)
	if err != nil {
		return err
	}
	if n < changes*9/10 {
		return fmt.Errorf("only %d of %d changes were told", n, changes)
	}
	if _, err := ask(p, "close"); err != nil {
		return err
	}
	again, requests, err := b.reconnect(ctx, p)
	fmt.Printf("%-10s %10v %12d %12d %10v %10v %10v %12v %12d\n", name, took.Round(time.Millisecond),
		heap/int64(len(b.paths)), after-before,
		median.Round(10*time.Microsecond), p99.Round(10*time.Microsecond), write.Round(10*time.Microsecond),
		again.Round(time.Millisecond), requests)
	return err
}

// collect makes the server collect its garbage. Otherwise a pause of a tenth of a second, for the watches left over
// from loading, would count as lag of the cache that happens to be measured.
func (b *bench) collect(ctx context.Context) error {
	out, err := exec.CommandContext(ctx, "jcmd", strconv.Itoa(b.server.PID()), "GC.run").CombinedOutput()
	if err != nil {
		return fmt.Errorf("jcmd (apt-get install default-jdk-headless): %w\n%s", err, out)
	}
	return nil
}

// change sets nodes at the rate. Each carries the time when it was set, so the lag of a change includes the time that
// the write took; write is the 99th percentile of that.
func (b *bench) change(ctx context.Context, p *peer.Program) (n int, median, p99, write time.Duration, err error) {
	if _, err := ask(p, "follow"); err != nil {
		return 0, 0, 0, 0, err
	}
	var writes sync.WaitGroup
	took := make([]time.Duration, changes)
	var failed error
	var once sync.Once
	tick := time.NewTicker(time.Second / rate)
	defer tick.Stop()
	room := make(chan struct{}, 100)
	for i := range took {
		<-tick.C
		b.turn += 7919
		path := b.paths[b.turn%len(b.paths)]
		room <- struct{}{}
		writes.Go(func() {
			begin := time.Now()
			if _, err := b.writer.Set(ctx, path, fmt.Appendf(nil, "at %d", begin.UnixMicro()), -1); err != nil {
				once.Do(func() { failed = err })
			}
			took[i] = time.Since(begin)
			<-room
		})
	}
	writes.Wait()
	if failed != nil {
		return 0, 0, 0, 0, failed
	}
	slices.Sort(took)
	write = took[len(took)*99/100]
	for patience := 20; ; patience-- {
		time.Sleep(time.Second)
		lags, err := ask(p, "lags")
		if err != nil {
			return 0, 0, 0, 0, err
		}
		n, median, p99 = int(lags[0]), time.Duration(lags[1])*time.Microsecond, time.Duration(lags[2])*time.Microsecond
		if n >= changes || patience == 0 {
			return n, median, p99, write, nil
		}
	}
}

// reconnect cuts the connection, and measures how long the cache takes to learn what was changed meanwhile.
func (b *bench) reconnect(ctx context.Context, p *peer.Program) (took time.Duration, requests int, err error) {
	between, err := proxy.Open(b.server.Addr())
	if err != nil {
		return 0, 0, err
	}
	defer between.Close()
	if _, err := ask(p, "open", between.Addr(), root); err != nil {
		return 0, 0, err
	}
	between.Refuse()
	between.Cut()
	text := fmt.Sprintf("turn-%d", b.turn)
	path := b.paths[len(b.paths)-1]
	if _, err := b.writer.Set(ctx, path, []byte(text), -1); err != nil {
		return 0, 0, err
	}
	before, err := b.received()
	if err != nil {
		return 0, 0, err
	}
	start := time.Now()
	if err := between.Accept(); err != nil {
		return 0, 0, err
	}
	if _, err := ask(p, "await", path, text); err != nil {
		return 0, 0, err
	}
	took = time.Since(start)
	time.Sleep(3 * time.Second) // for the remaining requests
	after, err := b.received()
	_, closed := ask(p, "close")
	return took, after - before, errors.Join(err, closed)
}

// received returns how many requests the server has received, including pings.
func (b *bench) received() (int, error) {
	figures, err := b.server.Figures()
	return figures["zk_packets_received"], err
}

// ask sends an order to a program that keeps a cache of the tree, and reads the numbers of the answer; see serve.
func ask(p *peer.Program, order ...any) (numbers []int64, err error) {
	answer, err := p.Do(order...)
	if err != nil {
		return nil, err
	}
	for word := range strings.FieldsSeq(answer) {
		n, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			return nil, errors.New(answer)
		}
		numbers = append(numbers, n)
	}
	return numbers, nil
}
