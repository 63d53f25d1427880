package proxy

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// maxFrame bounds the memory for one frame. Servers reject requests above 1 MiB; replies may be larger.
const maxFrame = 64 << 20

// A link is a client's connection paired with its connection to the server.
type link struct {
	proxy          *Proxy
	client, server net.Conn
	done           chan struct{} // closed by cut
	once           sync.Once
	doomed         map[int32]*Trap // by xid of a request with a trapped reply; guarded by proxy.mu
}

type frame struct {
	bytes []byte // with its length prefix
	due   time.Time
}

func (k *link) run() {
	var ways sync.WaitGroup
	ways.Go(func() { k.forward(k.client, k.server, ToServer) })
	ways.Go(func() { k.forward(k.server, k.client, ToClient) })
	ways.Wait()
}

// cut ends both connections at once, even while frames are held.
func (k *link) cut() {
	k.once.Do(func() {
		close(k.done)
		_ = reset(k.client)
		_ = reset(k.server)
	})
}

// forward moves frames from one side to the other until the source ends, then ends the other side. The end travels like
// a frame, so a stall holds it too.
func (k *link) forward(from, to net.Conn, d Direction) {
	frames := make(chan frame, 64)
	go k.read(from, d, frames)
	dead, first := false, true
	for f := range frames {
		if !k.wait(f.due, d) || dead {
			continue // keep reading, so that the reader ends
		}
		pass := k.spring(f.bytes[4:], d, first)
		first = false
		if !pass {
			k.cut()
			continue
		}
		_, err := to.Write(f.bytes)
		dead = err != nil
	}
	k.wait(time.Time{}, d)
	_ = to.Close()
}

func (k *link) read(from io.Reader, d Direction, frames chan<- frame) {
	defer close(frames)
	for r := bufio.NewReader(from); ; {
		b, err := readFrame(r)
		if err != nil {
			return
		}
		frames <- frame{b, time.Now().Add(k.proxy.lane(d).delay)}
	}
}

func readFrame(r io.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size > maxFrame {
		return nil, fmt.Errorf("frame of %d bytes: not ZooKeeper's protocol", size)
	}
	b := append(head[:], make([]byte, size)...)
	_, err := io.ReadFull(r, b[4:])
	return b, err
}

// wait returns true when a frame may pass: its delay is over and its direction is open. It returns false after a cut.
func (k *link) wait(due time.Time, d Direction) bool {
	if left := time.Until(due); left > 0 {
		select {
		case <-time.After(left):
		case <-k.done:
			return false
		}
	}
	select {
	case <-k.proxy.lane(d).open:
	case <-k.done:
		return false
	}
	select {
	case <-k.done:
		return false
	default:
		return true
	}
}

// spring applies the traps to a frame, which may be the first one in its direction. If it returns false, the connection
// must be cut and the frame dropped.
func (k *link) spring(payload []byte, d Direction, first bool) bool {
	switch {
	case first && d == ToServer: // it opens the session, and has no header
		k.trap(Connect, Connect, "")
	case first:
		return k.answer(Connect)
	case d == ToServer:
		k.request(payload)
	default:
		return k.reply(payload)
	}
	return true
}
