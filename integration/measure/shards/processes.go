package shards

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/recipes/shard"
)

// root is the path of the shards of a team of processes.
const root = "/processes"

// belong makes this process a member of a team of processes. It prints "start shard" and "stop shard". It reads
// "leave", or "count", to which it prints "sent op n" for each kind of request since the last time, and "counted". At
// the end of the input it stops, and is expected back.
func belong(ctx context.Context, id, servers string) (err error) {
	var sent counter
	// A warning, such as that of a lost session on an overloaded machine, means that the figures are disturbed.
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})).With("member", id)
	client, err := conn.Dial(ctx, servers, conn.WithSessionTimeout(timeout), conn.WithIdentity(id),
		conn.WithLogger(log),
		conn.WithTracer(&zkrecipes.Tracer{Request: func(_ context.Context, r zkrecipes.Request) { sent.add(r.Op, 1) }}))
	if err != nil {
		return err
	}
	defer client.Close()
	s, err := shard.New(client, root, shard.WithID(id), shard.WithSettle(settle, 10*settle),
		shard.WithReturnGrace(time.Minute))
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	go func() {
		defer stop()
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			switch lines.Text() {
			case "leave":
				_ = s.Leave(running) // an error means that it has stopped otherwise
			case "count":
				sent.tell()
				fmt.Println("counted")
			}
		}
	}()
	err = s.Run(running, shard.List(names(crashShards)...), func(ctx context.Context, s *shard.Shard) error {
		fmt.Println("start", s.Name)
		<-ctx.Done()
		fmt.Println("stop", s.Name)
		return nil
	})
	sent.tell()
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// counter counts requests by kind.
type counter struct {
	mu sync.Mutex
	n  map[string]int
}

func (c *counter) add(op string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = map[string]int{}
	}
	c.n[op] += n
}

// take returns the counts, and resets them.
func (c *counter) take() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.n
	c.n = nil
	return n
}

func (c *counter) tell() {
	for op, n := range c.take() {
		fmt.Println("sent", op, n)
	}
}

// processes is a team of recipes/shard whose members are processes.
type processes struct {
	servers string
	tally   *tally
	sent    counter // what members have reported when asked, or when they ended; a killed one reports nothing
	members map[string]*process
}

type process struct {
	*exec.Cmd
	in      io.WriteCloser
	counted chan struct{}
	ended   chan error
}

func (p *processes) join(id string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	m := &process{
		Cmd:     exec.Command(self, "shards", "-member", id, "-servers", p.servers),
		counted: make(chan struct{}), ended: make(chan error, 1),
	}
	m.Stderr = os.Stderr
	if m.in, err = m.StdinPipe(); err != nil {
		return err
	}
	out, err := m.StdoutPipe()
	if err != nil {
		return err
	}
	if err := m.Start(); err != nil {
		return err
	}
	p.members[id] = m
	go func() {
		p.follow(id, m, out)
		m.ended <- m.Wait()
	}()
	return nil
}

// follow reads the output of a member. When that ends, the member no longer serves anything.
func (p *processes) follow(id string, m *process, out io.Reader) {
	for lines := bufio.NewScanner(out); lines.Scan(); {
		words := strings.Fields(lines.Text())
		switch words[0] {
		case "start":
			p.tally.start(id, words[1])
		case "stop":
			p.tally.stop(id, words[1])
		case "sent":
			n, _ := strconv.Atoi(words[2]) // it is our child
			p.sent.add(words[1], n)
		case "counted":
			m.counted <- struct{}{}
		}
	}
	p.tally.gone(id)
}

// end waits until a member that is ending has ended.
func (p *processes) end(id string) error {
	m := p.members[id]
	delete(p.members, id)
	return <-m.ended
}

func (p *processes) leave(id string) error {
	if _, err := fmt.Fprintln(p.members[id].in, "leave"); err != nil {
		return err
	}
	return p.end(id)
}

func (p *processes) stop(id string) error {
	_ = p.members[id].in.Close() // it may already have ended
	return p.end(id)
}

// kill kills a member with SIGKILL.
func (p *processes) kill(id string) error {
	if err := p.members[id].Process.Kill(); err != nil {
		return err
	}
	_ = p.end(id) // which reports that it was killed
	return nil
}

// asked returns the requests that the members have sent since the last time, by kind.
func (p *processes) asked() (map[string]int, error) {
	for id, m := range p.members {
		if _, err := fmt.Fprintln(m.in, "count"); err != nil {
			return nil, err
		}
		select {
		case <-m.counted:
		case err := <-m.ended:
			return nil, fmt.Errorf("%s has ended: %w", id, err)
		}
	}
	return p.sent.take(), nil
}

func (p *processes) close() {
	for id := range p.members {
		_ = p.stop(id) // it is over
	}
}
