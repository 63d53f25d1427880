package parity

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"
)

// patience is how long a server may take to answer a request.
const patience = time.Minute

// A writer builds a request body.
type writer []byte

func (w *writer) int(v int32)  { *w = binary.BigEndian.AppendUint32(*w, uint32(v)) }
func (w *writer) long(v int64) { *w = binary.BigEndian.AppendUint64(*w, uint64(v)) }

func (w *writer) bool(v bool) {
	b := byte(0)
	if v {
		b = 1
	}
	*w = append(*w, b)
}

// buffer writes nil as null, which differs from empty.
func (w *writer) buffer(v []byte) {
	if v == nil {
		w.int(-1)
		return
	}
	w.int(int32(len(v)))
	*w = append(*w, v...)
}

// null in place of a string is written as null.
const null = "null"

func (w *writer) string(v string) {
	if v == null {
		w.null()
		return
	}
	w.buffer(append([]byte{}, v...))
}

func (w *writer) null() { w.int(-1) }

func (w *writer) strings(v []string) {
	w.int(int32(len(v)))
	for _, s := range v {
		w.string(s)
	}
}

// A reader parses a reply. If bytes are missing, it returns zeros and sets short.
type reader struct {
	rest  []byte
	short bool
}

func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.rest) {
		r.short, r.rest = true, nil
		return make([]byte, max(0, min(n, 16)))
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) int() int32  { return int32(binary.BigEndian.Uint32(r.take(4))) }
func (r *reader) long() int64 { return int64(binary.BigEndian.Uint64(r.take(8))) }
func (r *reader) bool() bool  { return r.take(1)[0] != 0 }

func (r *reader) buffer() []byte {
	n := r.int()
	if n == -1 {
		return nil
	}
	return r.take(int(n))
}

func (r *reader) strings() []string {
	var v []string
	for n := r.int(); n > 0 && !r.short; n-- {
		v = append(v, string(r.buffer()))
	}
	return v
}

// A wire is one TCP connection to a server.
type wire struct {
	*net.TCPConn
	in *bufio.Reader
}

func dial(addr string) (*wire, error) {
	c, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		return nil, err
	}
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return nil, fmt.Errorf("no TCP connection: %T", c)
	}
	return &wire{tcp, bufio.NewReader(tcp)}, nil
}

// hangUp ends the connection, and waits until the server has noticed. If the session reconnected earlier, ZooKeeper
// would forget the new connection instead of the old one, and both would live. Source: NIOServerCnxnFactory.removeCnxn.
func (w *wire) hangUp() error {
	if err := w.CloseWrite(); err != nil {
		return w.Close()
	}
	for {
		if _, err := w.read(); errors.Is(err, os.ErrDeadlineExceeded) {
			return errors.Join(fmt.Errorf("still open %v after the client has gone", patience), w.Close())
		} else if err != nil {
			return w.Close()
		}
	}
}

func framed(payload []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(payload))), payload...)
}

func (w *wire) read() ([]byte, error) {
	if err := w.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	var head [4]byte
	if _, err := io.ReadFull(w.in, head[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size > 64<<20 {
		return nil, fmt.Errorf("reply of %d bytes", size)
	}
	b := make([]byte, size)
	_, err := io.ReadFull(w.in, b)
	return b, err
}
