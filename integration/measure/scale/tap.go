package scale

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// tap counts what passes through the connections that it has dialed, and can cut them.
type tap struct {
	pings, syncs, asked atomic.Int64 // asked: all other requests
	bytes, sent         atomic.Int64 // received and sent

	mu    sync.Mutex
	down  bool
	conns map[*tapped]struct{}
}

func (t *tap) dial(ctx context.Context, network, address string) (net.Conn, error) {
	raw, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.down {
		return nil, errors.Join(syscall.ECONNREFUSED, raw.Close())
	}
	if t.conns == nil {
		t.conns = map[*tapped]struct{}{}
	}
	c := &tapped{Conn: raw, tap: t}
	t.conns[c] = struct{}{}
	return c, nil
}

// dialWithin is dial for go-zookeeper.
func (t *tap) dialWithin(network, address string, within time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	return t.dial(ctx, network, address)
}

// upkeep returns how many pings and syncs were sent.
func (t *tap) upkeep() int64 { return t.pings.Load() + t.syncs.Load() }

// outage cuts all connections, and refuses new ones for a while.
func (t *tap) outage(lasts time.Duration) {
	t.mu.Lock()
	t.down = true
	for c := range t.conns {
		_ = c.Conn.Close() // its reader is notified
	}
	clear(t.conns)
	t.mu.Unlock()
	time.Sleep(lasts)
	t.mu.Lock()
	t.down = false
	t.mu.Unlock()
}

// tapped is a connection under a tap.
type tapped struct {
	net.Conn
	tap  *tap
	skip int    // bytes of a frame that was already seen
	head []byte // the first bytes of a frame, up to twelve
	sent bool   // the handshake was sent
}

const opPing, opSync = 11, 9

func (c *tapped) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		if c.skip > 0 {
			n := min(c.skip, len(rest))
			c.skip, rest = c.skip-n, rest[n:]
			continue
		}
		n := min(12-len(c.head), len(rest))
		c.head, rest = append(c.head, rest[:n]...), rest[n:]
		if len(c.head) == 12 {
			c.count(int32(binary.BigEndian.Uint32(c.head[8:])))
			c.skip = int(binary.BigEndian.Uint32(c.head)) - 8
			c.head = c.head[:0]
		}
	}
	n, err := c.Conn.Write(p)
	c.tap.sent.Add(int64(n))
	return n, err
}

func (c *tapped) count(op int32) {
	switch {
	case !c.sent:
		c.sent = true
	case op == opPing:
		c.tap.pings.Add(1)
	case op == opSync:
		c.tap.syncs.Add(1)
	default:
		c.tap.asked.Add(1)
	}
}

// Close also makes the tap forget the connection.
func (c *tapped) Close() error {
	c.tap.mu.Lock()
	delete(c.tap.conns, c)
	c.tap.mu.Unlock()
	return c.Conn.Close()
}

func (c *tapped) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.tap.bytes.Add(int64(n))
	return n, err
}
