// Package proxy is a TCP proxy between ZooKeeper clients and a server. It breaks connections on command: it can cut,
// refuse, stall in either direction, delay, or lose one chosen reply.
//
// It understands frames, so a fault falls between requests and never inside one. One proxy is one network path. To
// partition clients separately, give each its own proxy. Four-letter words and TLS do not pass.
package proxy

import (
	"net"
	"sync"
	"testing"
	"time"

	"github.com/zkrecipes/zkrecipes/integration/kit/loopback"
)

// A Direction is one direction through the proxy.
type Direction int

// The directions; Both is their union.
const (
	ToServer Direction = 1 << iota
	ToClient
	Both = ToServer | ToClient
)

// A Proxy forwards connections to one server. Its methods are safe for concurrent use.
type Proxy struct {
	upstream string
	addr     string
	running  sync.WaitGroup

	mu       sync.Mutex
	listener net.Listener // nil while refusing
	closed   bool
	cuts     int // how often Cut was called
	links    map[*link]bool
	lanes    map[Direction]*lane
	traps    []*Trap
}

// A lane is the state of one direction of all connections.
type lane struct {
	open  chan struct{} // closed while frames pass
	delay time.Duration
}

// Start runs a proxy in front of the server at upstream until the end of the test.
func Start(tb testing.TB, upstream string) *Proxy {
	tb.Helper()
	p, err := Open(upstream)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(p.Close)
	return p
}

// Open is Start for programs, which must close the proxy.
func Open(upstream string) (*Proxy, error) {
	p := &Proxy{
		upstream: upstream,
		addr:     net.JoinHostPort(loopback.Block()(1), "0"),
		links:    map[*link]bool{},
		lanes:    map[Direction]*lane{ToServer: {open: closedChan()}, ToClient: {open: closedChan()}},
	}
	if err := p.Accept(); err != nil {
		return nil, err
	}
	return p, nil
}

func closedChan() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// Addr returns the address for clients.
func (p *Proxy) Addr() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.addr
}

// Refuse refuses new connections, like a host without a server. Existing connections stay.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		_ = p.listener.Close() // an error would only report that it is closed
		p.listener = nil
	}
}

// Accept ends Refuse.
func (p *Proxy) Accept() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return net.ErrClosed
	}
	if p.listener != nil {
		return nil
	}
	l, err := net.Listen("tcp", p.addr)
	if err != nil {
		return err
	}
	p.listener, p.addr = l, l.Addr().String()
	p.running.Go(func() { p.serve(l) })
	return nil
}

func (p *Proxy) serve(l net.Listener) {
	for {
		client, err := l.Accept()
		if err != nil {
			return // refused or closed
		}
		p.running.Go(func() { p.connect(l, client) })
	}
}

// connect creates a link for a client that l has accepted. Refuse and Cut also reach links that are not yet complete.
func (p *Proxy) connect(l net.Listener, client net.Conn) {
	p.mu.Lock()
	refused, cuts := p.listener != l, p.cuts
	p.mu.Unlock()
	if refused {
		_ = reset(client)
		return
	}
	server, err := net.Dial("tcp", p.upstream)
	if err != nil {
		_ = reset(client)
		return
	}
	k := &link{proxy: p, client: client, server: server, done: make(chan struct{}), doomed: map[int32]*Trap{}}
	p.mu.Lock()
	if p.cuts != cuts {
		p.mu.Unlock()
		k.cut()
		return
	}
	p.links[k] = true
	p.mu.Unlock()
	k.run()
	p.mu.Lock()
	delete(p.links, k)
	p.mu.Unlock()
}

// Cut resets all connections, on both sides.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cuts++
	for k := range p.links {
		k.cut()
	}
}

// Stall holds everything in direction d, including the end of a connection. Connections stay open, and clients can make
// new ones. It acts like a network that loses packets: neither side notices.
func (p *Proxy) Stall(d Direction) {
	p.each(d, func(l *lane) {
		select {
		case <-l.open:
			l.open = make(chan struct{})
		default: // already stalled
		}
	})
}

// Heal ends Stall and Delay. Held frames continue in order.
func (p *Proxy) Heal() {
	p.each(Both, func(l *lane) {
		l.delay = 0
		select {
		case <-l.open:
		default:
			close(l.open)
		}
	})
}

// Delay delays each frame that arrives in direction d from now on.
func (p *Proxy) Delay(d Direction, by time.Duration) { p.each(d, func(l *lane) { l.delay = by }) }

func (p *Proxy) each(d Direction, change func(*lane)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for way, l := range p.lanes {
		if d&way != 0 {
			change(l)
		}
	}
}

func (p *Proxy) lane(d Direction) lane {
	p.mu.Lock()
	defer p.mu.Unlock()
	return *p.lanes[d]
}

// Conns returns the number of connections that are open on either side.
func (p *Proxy) Conns() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}

// Close cuts all connections, and waits until the proxy has ended.
func (p *Proxy) Close() {
	p.Refuse()
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.Cut()
	p.running.Wait()
}

func reset(c net.Conn) error {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // makes Close reset the connection
	}
	return c.Close()
}
