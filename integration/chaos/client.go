package chaos

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/zkrecipes/zkrecipes/integration/chaos/journal"
	"github.com/zkrecipes/zkrecipes/integration/kit/proxy"
	"github.com/zkrecipes/zkrecipes/integration/kit/zkserver"
)

// A client is one place in a group, occupied by one process at a time: a killed process is replaced. It has its own
// network path to each server.
type client struct {
	group   Group
	place   int
	proxies []*proxy.Proxy // by server
	history *history
	command func(id string, c *client) *exec.Cmd

	incarnation int
	id          string
	process     *exec.Cmd
	orders      io.WriteCloser
	ended       chan struct{} // closed when the process has ended and its journal has been read
}

// start runs the next process in this place.
func (c *client) start() error {
	c.incarnation++
	c.id = fmt.Sprintf("%s-%d.%d", c.group.Recipe, c.place, c.incarnation)
	p := c.command(c.id, c)
	p.Stderr = os.Stderr
	var err error
	if c.orders, err = p.StdinPipe(); err != nil {
		return err
	}
	out, err := p.StdoutPipe()
	if err != nil {
		return err
	}
	if err := p.Start(); err != nil {
		return fmt.Errorf("start %s: %w", c.id, err)
	}
	ended, id := make(chan struct{}), c.id
	go func() {
		defer close(ended)
		c.history.read(c.group.Recipe, id, out)
		_ = p.Wait() // fails if it was killed, which is expected
	}()
	c.process, c.ended = p, ended
	return nil
}

// path returns where the client's recipe works. The clients of a group share it, but nodes that do not contend have one
// each.
func (c *client) path() string {
	path := Root + "/" + c.group.Recipe
	switch c.group.Recipe {
	case "register", "guarded":
		return Registers
	case "node":
		return fmt.Sprint(path, "/", c.place)
	case "cache":
		return path + "/tree"
	case "claim", "value", "counter":
		return path + "/it"
	default:
		return path
	}
}

func (c *client) connect() string {
	addrs := make([]string, len(c.proxies))
	for i, p := range c.proxies {
		addrs[i] = p.Addr()
	}
	return strings.Join(addrs, ",")
}

func (c *client) order(word string) error {
	_, err := io.WriteString(c.orders, word+"\n")
	return err
}

// kill kills the process.
func (c *client) kill() error {
	c.history.act(c.id, killed)
	if err := c.process.Process.Kill(); err != nil {
		return err
	}
	<-c.ended
	return nil
}

func (c *client) pause() error {
	c.history.act(c.id, paused)
	return c.process.Process.Signal(syscall.SIGSTOP)
}

func (c *client) resume() error {
	c.history.act(c.id, resumed)
	return c.process.Process.Signal(syscall.SIGCONT)
}

// leave ends the process gracefully.
func (c *client) leave(limit time.Duration) error {
	_ = c.orders.Close()
	select {
	case <-c.ended:
		return nil
	case <-time.After(limit):
		return fmt.Errorf("%s: still runs %v after it was told to end", c.id, limit)
	}
}

// attach connects the client to one server only, until detach.
func (c *client) attach(server int) error {
	for i, p := range c.proxies {
		if i != server {
			p.Refuse()
			p.Cut()
		}
	}
	open := make([]int, len(c.proxies))
	err := poll(patience, fmt.Sprintf("%s attached to server %d", c.id, server), func() bool {
		attached := true
		for i, p := range c.proxies {
			open[i] = p.Conns()
			attached = attached && (open[i] > 0) == (i == server)
		}
		return attached
	})
	if err != nil {
		return fmt.Errorf("%w: connections by server: %v", err, open)
	}
	return nil
}

func (c *client) detach() error {
	for _, p := range c.proxies {
		if err := p.Accept(); err != nil {
			return err
		}
	}
	return nil
}

func (c *client) openProxies(e *zkserver.Ensemble) error {
	for _, s := range e.Servers {
		p, err := proxy.Open(s.Addr())
		if err != nil {
			return err
		}
		c.proxies = append(c.proxies, p)
	}
	return nil
}

func (c *client) close() {
	if c.process != nil {
		select {
		case <-c.ended:
		default:
			_ = c.kill()
		}
	}
	for _, p := range c.proxies {
		p.Close()
	}
}

// poll waits until ok returns true.
func poll(limit time.Duration, what string, ok func() bool) error {
	for deadline := journal.Now() + int64(limit); !ok(); time.Sleep(5 * time.Millisecond) {
		if journal.Now() > deadline {
			return fmt.Errorf("not within %v: %s", limit, what)
		}
	}
	return nil
}
