package proxy_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/zkrecipes/zkrecipes/integration/kit/awake"
	"github.com/zkrecipes/zkrecipes/integration/kit/proxy"
)

func TestProxy_CutEndsBothSides(t *testing.T) {
	peer, p := setup(t)
	c := dial(t, p)
	p.Cut()
	c.expectEnd()
	eventually(t, func() bool { return peer.conns() == 0 && p.Conns() == 0 })
	dial(t, p) // a new connection is accepted
}

// Refuse followed by Cut also reaches a client that was accepted just before. Otherwise a partition would miss a
// connection.
func TestProxy_RefuseAndCutLeaveNoConnection(t *testing.T) {
	_, p := setup(t)
	for range 100 {
		const dials = 4
		dialed := make(chan net.Conn, dials)
		for range dials {
			go func() {
				c, _ := net.Dial("tcp", p.Addr()) // nil if refused
				dialed <- c
			}()
		}
		time.Sleep(rand.N(time.Millisecond))
		p.Refuse()
		p.Cut()
		var open []net.Conn
		for range dials {
			if c := <-dialed; c != nil {
				open = append(open, c)
			}
		}
		time.Sleep(2 * time.Millisecond) // for a connection that is still being made
		eventually(t, func() bool { return p.Conns() == 0 })
		for _, c := range open {
			_ = c.Close()
		}
		if err := p.Accept(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestProxy_RefusesAndAcceptsOnTheSameAddress(t *testing.T) {
	_, p := setup(t)
	c := dial(t, p)
	addr := p.Addr()
	p.Refuse()
	if conn, err := net.Dial("tcp", addr); err == nil {
		t.Errorf("refusing proxy let %v in", conn.LocalAddr())
	}
	c.send(1, 4, "/a")
	c.expect(1) // existing connections stay
	if err := p.Accept(); err != nil {
		t.Fatal(err)
	}
	dial(t, p)
	if p.Addr() != addr {
		t.Errorf("address changed from %s to %s", addr, p.Addr())
	}
}

func TestProxy_StallToServerHoldsRequests(t *testing.T) {
	peer, p := setup(t)
	c := dial(t, p)
	p.Stall(proxy.ToServer)
	c.send(1, 4, "/a")
	c.expectSilence()
	if n := peer.count(4); n != 0 {
		t.Errorf("server saw %d requests through a stall", n)
	}
	p.Heal()
	c.expect(1)
}

func TestProxy_StallToClientHoldsReplies(t *testing.T) {
	peer, p := setup(t)
	c := dial(t, p)
	p.Stall(proxy.ToClient)
	c.send(1, 4, "/a")
	eventually(t, func() bool { return peer.count(4) == 1 })
	c.expectSilence()
	p.Heal()
	c.expect(1)
}

// A partition also hides the end of a connection. A server must continue until its own timeout.
func TestProxy_StallHidesTheEndOfAConnection(t *testing.T) {
	peer, p := setup(t)
	c, d := dial(t, p), dial(t, p)
	p.Stall(proxy.Both)
	_ = c.conn.Close()
	d.expectSilence()
	if n := peer.conns(); n != 2 {
		t.Errorf("server has %d connections, want 2", n)
	}
	peer.hangUp()
	d.expectSilence()
	p.Heal()
	d.expectEnd()
	eventually(t, func() bool { return p.Conns() == 0 })
}

func TestProxy_CutReachesThroughAStall(t *testing.T) {
	peer, p := setup(t)
	c := dial(t, p)
	p.Stall(proxy.Both)
	c.send(1, 4, "/a")
	p.Cut()
	c.expectEnd()
	eventually(t, func() bool { return peer.conns() == 0 })
	p.Heal()
	if n := peer.count(4); n != 0 {
		t.Error("a request that was held when the connection was cut arrived")
	}
}

func TestProxy_DelayKeepsOrderAndRate(t *testing.T) {
	_, p := setup(t)
	c := dial(t, p)
	p.Delay(proxy.ToServer, 50*time.Millisecond)
	p.Delay(proxy.ToClient, 50*time.Millisecond)
	start := time.Now()
	for xid := range int32(20) {
		c.send(xid, 4, "/a")
	}
	for xid := range int32(20) {
		c.expect(xid)
	}
	d := time.Since(start)
	if ran := awake.Between(start, start.Add(d)); d < 100*time.Millisecond || ran > time.Second {
		t.Errorf("20 requests with 50 ms each way took %v, of which the machine ran %v", d, ran)
	}
}

func TestTrap_PicksByOperationAndPath(t *testing.T) {
	_, p := setup(t)
	c := dial(t, p)
	trap := p.Trap(proxy.Match{Ops: proxy.Creates, Path: "/lock/"}, proxy.DropReply)
	c.send(2, 4, "/lock/b")
	c.expect(2)
	c.send(3, 1, "/other/c")
	c.expect(3)
	c.send(4, 19, "/lock/d")
	c.expectEnd()
	wait(t, trap)
	c = dial(t, p)
	c.send(5, 19, "/lock/d") // a trap acts only once
	c.expect(5)
}

func TestTrap_DropReplyLetsTheServerSeeTheRequest(t *testing.T) {
	peer, p := setup(t)
	c := dial(t, p)
	trap := p.Trap(proxy.Match{Ops: proxy.Creates}, proxy.DropReply)
	c.send(1, 4, "/a")
	c.send(2, 1, "/a")
	c.expect(1)
	c.expectEnd()
	wait(t, trap)
	if n := peer.count(1); n != 1 {
		t.Errorf("server saw %d creates, want 1", n)
	}
}

func TestDisarm_TrapsThatHaveNotActedNeverDo(t *testing.T) {
	peer, p := setup(t)
	c := dial(t, p)
	for range 3 {
		p.Trap(proxy.Match{Ops: proxy.Creates}, proxy.DropReply)
	}
	p.Disarm()
	c.send(1, 1, "/a")
	c.expect(1)
	if n := peer.count(1); n != 1 {
		t.Errorf("server saw %d creates, want 1", n)
	}
}

func TestTrap_HoldReplyHoldsWhatIsBehindToo(t *testing.T) {
	peer, p := setup(t)
	c := dial(t, p)
	trap := p.Trap(proxy.Match{Ops: []int32{2}}, proxy.HoldReply)
	c.send(1, 2, "/a")
	c.send(2, 4, "/a")
	wait(t, trap)
	eventually(t, func() bool { return peer.count(4) == 1 })
	c.expectSilence()
	p.Cut()
	c.expectEnd()
}

func TestTrap_HoldsTheReplyToAConnectRequest(t *testing.T) {
	peer, p := setup(t)
	trap := p.Trap(proxy.Match{Ops: []int32{proxy.Connect}}, proxy.HoldReply)
	c := open(t, p)
	wait(t, trap)
	eventually(t, func() bool { return peer.conns() == 1 })
	c.expectSilence()
	p.Cut()
	c.expectEnd()
}

// A peer answers every request with its xid, like a server without data.
type peer struct {
	listener net.Listener
	mu       sync.Mutex
	ops      []int32
	open     []net.Conn
}

func setup(t *testing.T) (*peer, *proxy.Proxy) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &peer{listener: l}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() { s.serve(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		s.hangUp()
		running.Wait()
	})
	return s, proxy.Start(t, l.Addr().String())
}

func (s *peer) serve(c net.Conn) {
	s.mu.Lock()
	s.open = append(s.open, c)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.open = slices.DeleteFunc(s.open, func(o net.Conn) bool { return o == c })
		s.mu.Unlock()
		_ = c.Close()
	}()
	for first := true; ; first = false {
		b, err := read(c)
		if err != nil {
			return
		}
		if first {
			_, err = c.Write(framed(make([]byte, 36)))
		} else {
			s.mu.Lock()
			s.ops = append(s.ops, int32(binary.BigEndian.Uint32(b[4:])))
			s.mu.Unlock()
			_, err = c.Write(framed(append(b[:4:4], make([]byte, 12)...)))
		}
		if err != nil {
			return
		}
	}
}

func (s *peer) count(op int32) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.ops {
		if o == op {
			n++
		}
	}
	return n
}

func (s *peer) conns() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

func (s *peer) hangUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.open {
		_ = c.Close()
	}
}

type client struct {
	t    *testing.T
	conn net.Conn
}

func dial(t *testing.T, p *proxy.Proxy) *client {
	t.Helper()
	c := open(t, p)
	if _, err := read(c.conn); err != nil {
		t.Fatal(err)
	}
	return c
}

// open sends a connect request.
func open(t *testing.T, p *proxy.Proxy) *client {
	t.Helper()
	conn, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := conn.Write(framed(make([]byte, 44))); err != nil {
		t.Fatal(err)
	}
	return &client{t, conn}
}

func (c *client) send(xid, op int32, path string) {
	c.t.Helper()
	b := binary.BigEndian.AppendUint32(nil, uint32(xid))
	b = binary.BigEndian.AppendUint32(b, uint32(op))
	b = binary.BigEndian.AppendUint32(b, uint32(len(path)))
	if _, err := c.conn.Write(framed(append(b, path...))); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) expect(xid int32) {
	c.t.Helper()
	c.deadline(time.Minute)
	b, err := read(c.conn)
	if err != nil {
		c.t.Fatalf("reply to %d: %v", xid, err)
	}
	if want := binary.BigEndian.AppendUint32(nil, uint32(xid)); !bytes.HasPrefix(b, want) {
		c.t.Fatalf("reply %x, want xid %d", b, xid)
	}
}

func (c *client) expectSilence() {
	c.t.Helper()
	c.deadline(100 * time.Millisecond)
	if b, err := read(c.conn); !errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Fatalf("got %x, %v through a stall", b, err)
	}
}

func (c *client) expectEnd() {
	c.t.Helper()
	c.deadline(time.Minute)
	if b, err := read(c.conn); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Fatalf("got %x, %v; want the end of the connection", b, err)
	}
}

func (c *client) deadline(d time.Duration) {
	c.t.Helper()
	if err := c.conn.SetReadDeadline(time.Now().Add(d)); err != nil {
		c.t.Fatal(err)
	}
}

func read(r io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	b := make([]byte, binary.BigEndian.Uint32(size[:]))
	_, err := io.ReadFull(r, b)
	return b, err
}

func framed(b []byte) []byte { return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...) }

func wait(t *testing.T, trap *proxy.Trap) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := trap.Wait(ctx); err != nil {
		t.Fatal(err)
	}
}

func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the condition is still false after a minute")
		}
	}
}
