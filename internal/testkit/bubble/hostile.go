package bubble

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync"
)

// Hostile is a server that grants a session of 10 s to each client, and then answers each frame as the test chooses.
type Hostile struct {
	// Answer returns what the server sends in answer to the n-th frame after the handshake of a connection, counted
	// from 0, whose xid is given. If it is nil, the server sends nothing; if it is empty, the server closes the
	// connection.
	Answer func(n int, xid uint32) []byte

	mu    sync.Mutex
	seen  [][]byte
	taken int
}

// Seen returns all frames that clients have sent, without their length prefix.
func (h *Hostile) Seen() [][]byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.seen
}

// Taken returns how many bytes a client has read from one connection at most.
func (h *Hostile) Taken() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.taken
}

// Dial connects to the server, whatever the address.
func (h *Hostile) Dial(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	go h.serve(theirs)
	return ours, nil
}

func (h *Hostile) serve(c net.Conn) {
	defer c.Close()             //nolint:errcheck // the other side sees it
	granted := make([]byte, 37) // version, timeout, session, password, read-only
	binary.BigEndian.PutUint32(granted[4:], 10_000)
	binary.BigEndian.PutUint64(granted[8:], 7)
	binary.BigEndian.PutUint32(granted[16:], 16)
	for n, sent := -1, 0; ; n++ {
		frame, err := readFrame(c)
		if err != nil {
			return
		}
		h.mu.Lock()
		h.seen = append(h.seen, frame)
		h.mu.Unlock()
		reply := Frame(granted)
		if n >= 0 {
			if reply = h.Answer(n, binary.BigEndian.Uint32(frame)); reply != nil && len(reply) == 0 {
				return
			}
		}
		written, err := c.Write(reply) // a pipe has no buffer: the client has read what was written
		sent += written
		h.mu.Lock()
		h.taken = max(h.taken, sent)
		h.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func readFrame(r io.Reader) ([]byte, error) {
	var size uint32
	if err := binary.Read(r, binary.BigEndian, &size); err != nil {
		return nil, err
	}
	frame := make([]byte, min(size, 1<<20))
	_, err := io.ReadFull(r, frame)
	return frame, err
}

// Frame returns a body prefixed with its length.
func Frame(body []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

// Token returns the frame that answers a SASL token with another token, or with none if it is nil.
func Token(xid uint32, token []byte) []byte {
	body := binary.BigEndian.AppendUint32(nil, xid)
	body = append(body, make([]byte, 12)...) // zxid, code
	if token == nil {
		return Frame(binary.BigEndian.AppendUint32(body, 0xffffffff))
	}
	return Frame(append(binary.BigEndian.AppendUint32(body, uint32(len(token))), token...))
}

// Refusal returns the frame that answers a SASL token with an error code.
func Refusal(xid uint32, code int32) []byte {
	body := append(binary.BigEndian.AppendUint32(nil, xid), make([]byte, 8)...) // zxid
	return Frame(append(binary.BigEndian.AppendUint32(body, uint32(code)), 0xff, 0xff, 0xff, 0xff))
}
