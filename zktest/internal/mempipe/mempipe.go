// Package mempipe provides in-memory connections that are buffered and closed like TCP connections.
package mempipe

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// streamSize is how much one direction of an in-memory connection buffers before a writer blocks, as socket buffers do.
const streamSize = 1 << 20

// New returns the two ends of an in-memory connection. Unlike net.Pipe it is buffered, as TCP is: a write does not wait
// for the reader. Waiting uses only channels, so that time in a testing/synctest bubble advances.
func New(client, server net.Addr) (clientEnd, serverEnd *Conn) {
	up, down := &stream{}, &stream{}
	return &Conn{in: down, out: up, local: client, remote: server},
		&Conn{in: up, out: down, local: server, remote: client}
}

// Conn is one end of an in-memory connection.
type Conn struct {
	in, out         *stream
	local, remote   net.Addr
	readBy, writeBy deadline
}

func (c *Conn) Read(p []byte) (int, error) {
	n, err := c.in.read(p, &c.readBy)
	return n, c.wrap("read", err)
}

func (c *Conn) Write(p []byte) (int, error) {
	n, err := c.out.write(p, &c.writeBy)
	return n, c.wrap("write", err)
}

// Close ends both directions. The peer reads what is in flight, then io.EOF.
func (c *Conn) Close() error {
	c.out.shut(false)
	c.in.shut(true)
	c.readBy.set(time.Time{})
	c.writeBy.set(time.Time{})
	return nil
}

// LocalAddr returns the address of this end.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr returns the address of the other end.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline implements net.Conn.
func (c *Conn) SetDeadline(t time.Time) error {
	c.readBy.set(t)
	c.writeBy.set(t)
	return nil
}

// SetReadDeadline implements net.Conn.
func (c *Conn) SetReadDeadline(t time.Time) error {
	c.readBy.set(t)
	return nil
}

// SetWriteDeadline implements net.Conn.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	c.writeBy.set(t)
	return nil
}

func (c *Conn) wrap(op string, err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	return &net.OpError{Op: op, Net: "tcp", Source: c.local, Addr: c.remote, Err: err}
}

// stream is one direction.
type stream struct {
	mu      sync.Mutex
	buf     []byte
	read0   int           // number of bytes of buf that have been read
	fin     bool          // the writer has closed
	gone    bool          // the reader has closed
	changed chan struct{} // closed at the next change; nil while no goroutine waits
}

// wait returns a channel that is closed at the next change. The caller holds mu.
func (s *stream) wait() <-chan struct{} {
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.changed
}

// wake wakes the waiting goroutines. The caller holds mu.
func (s *stream) wake() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

func (s *stream) read(p []byte, by *deadline) (int, error) {
	for {
		s.mu.Lock()
		switch {
		case s.gone:
			s.mu.Unlock()
			return 0, net.ErrClosed
		case by.passed():
			s.mu.Unlock()
			return 0, os.ErrDeadlineExceeded
		case s.read0 < len(s.buf):
			n := copy(p, s.buf[s.read0:])
			if s.read0 += n; s.read0 == len(s.buf) {
				s.buf, s.read0 = s.buf[:0], 0
			}
			s.wake()
			s.mu.Unlock()
			return n, nil
		case s.fin:
			s.mu.Unlock()
			return 0, io.EOF
		}
		changed := s.wait()
		s.mu.Unlock()
		select {
		case <-changed:
		case <-by.changed():
		}
	}
}

func (s *stream) write(p []byte, by *deadline) (written int, err error) {
	for {
		s.mu.Lock()
		switch {
		case s.fin:
			err = net.ErrClosed
		case s.gone:
			err = syscall.EPIPE
		case by.passed():
			err = os.ErrDeadlineExceeded
		}
		if err != nil {
			s.mu.Unlock()
			return written, err
		}
		if s.read0 > len(s.buf)/2 {
			s.buf, s.read0 = s.buf[:copy(s.buf, s.buf[s.read0:])], 0
		}
		n := min(len(p), streamSize-(len(s.buf)-s.read0))
		s.buf = append(s.buf, p[:n]...)
		p, written = p[n:], written+n
		if n > 0 {
			s.wake()
		}
		if len(p) == 0 {
			s.mu.Unlock()
			return written, nil
		}
		changed := s.wait()
		s.mu.Unlock()
		select {
		case <-changed:
		case <-by.changed():
		}
	}
}

func (s *stream) shut(reader bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if reader {
		s.gone, s.buf, s.read0 = true, nil, 0
	} else {
		s.fin = true
	}
	s.wake()
}

// deadline is when an operation gives up.
type deadline struct {
	mu    sync.Mutex
	at    time.Time
	timer *time.Timer
	fired chan struct{} // closed when at passes or is reset
}

func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	d.at = t
	d.fire()
	if !t.IsZero() {
		if wait := time.Until(t); wait > 0 {
			d.timer = time.AfterFunc(wait, func() {
				d.mu.Lock()
				defer d.mu.Unlock()
				d.fire()
			})
		}
	}
}

// fire wakes the waiting goroutines, which check again. The caller holds mu.
func (d *deadline) fire() {
	if d.fired != nil {
		close(d.fired)
		d.fired = nil
	}
}

func (d *deadline) changed() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fired == nil {
		d.fired = make(chan struct{})
	}
	fired := d.fired
	if !d.at.IsZero() && !time.Now().Before(d.at) {
		d.fire() // its timer may have fired before this call
	}
	return fired
}

func (d *deadline) passed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.at.IsZero() && !time.Now().Before(d.at)
}
