package speed

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// client sends one already encoded request at a time, and reads only the header of a reply, so it takes little of the
// processor time that the servers need.
type client struct {
	conn net.Conn
	in   *bufio.Reader
	buf  []byte
}

// dial opens a session.
func dial(addr string) (*client, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	c := &client{conn: conn, in: bufio.NewReader(conn)}
	var answer []byte
	if _, err = conn.Write(wire.ConnectFrame(0, 40*time.Second, 0, make([]byte, 16))); err == nil {
		answer, err = c.read()
	}
	if err == nil {
		_, err = wire.ConnectReply(answer)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("connect to %s: %w", addr, err), conn.Close())
	}
	return c, nil
}

// do sends requests one after another, and waits for the reply to each.
func (c *client) do(requests ...[]byte) error {
	for _, request := range requests {
		if _, err := c.conn.Write(request); err != nil {
			return err
		}
		reply, err := c.read()
		if err != nil {
			return err
		}
		if h, _, err := wire.ReadHeader(reply); err != nil || h.Code != 0 {
			return errors.Join(err, wire.ErrorOf(h.Code))
		}
	}
	return nil
}

// read reads a frame, which is valid until the next one.
func (c *client) read() ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(c.in, size[:]); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint32(size[:]))
	if n > cap(c.buf) {
		c.buf = make([]byte, n)
	}
	_, err := io.ReadFull(c.in, c.buf[:n])
	return c.buf[:n], err
}

// close ends the session.
func (c *client) close() error {
	_, err := c.conn.Write(wire.CloseFrame())
	return errors.Join(err, c.conn.Close())
}
