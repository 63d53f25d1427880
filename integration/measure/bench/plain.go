package bench

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"
)

// plain is a session without a library. Its single caller writes the five requests of a contended section, and reads
// the answers itself. It does nothing else, so its cost is the minimum.
type plain struct {
	conn   net.Conn
	in     *bufio.Reader
	xid    int32
	frames []byte
}

const (
	opCreate   = 1
	opDelete   = 2
	opGetData  = 4
	opChildren = 12

	plainTimeout = 40 * time.Second // the longest that a server grants; the program sends no pings
)

// plainLock returns sections that queue like go-zookeeper's Lock. The first section opens the session.
func plainLock(addr, parent string) section {
	dial := sync.OnceValues(func() (*plain, error) { return dialPlain(addr) })
	return func(int) error {
		p, err := dial()
		if err != nil {
			return err
		}
		return p.section(parent)
	}
}

func dialPlain(addr string) (*plain, error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	p := &plain{conn: c, in: bufio.NewReader(c)}
	connect := make([]byte, 4+4+8+4+8+4+16) // length, protocol, zxid, timeout, session, password
	binary.BigEndian.PutUint32(connect, uint32(len(connect)-4))
	binary.BigEndian.PutUint32(connect[16:], uint32(plainTimeout.Milliseconds()))
	binary.BigEndian.PutUint32(connect[28:], 16)
	if _, err := c.Write(connect); err != nil {
		return nil, err
	}
	_, err = p.frame()
	return p, err
}

func (p *plain) section(parent string) error {
	create := p.ask(opCreate, parent+bareName, "host/4711", 1, 31, "world", "anyone", 3)
	list := p.ask(opChildren, parent, false)
	created, err := p.answer(create)
	if err != nil {
		return err
	}
	path := text(created)
	ahead, err := p.ahead(list, path)
	for err == nil && ahead != "" {
		if _, err = p.answer(p.ask(opGetData, parent+"/"+ahead, true)); err == nil {
			err = p.event(parent + "/" + ahead)
		}
		if err == nil || errors.Is(err, errNoNode) {
			ahead, err = p.ahead(p.ask(opChildren, parent, false), path)
		}
	}
	if err != nil {
		return err
	}
	_, err = p.answer(p.ask(opDelete, path, -1))
	return err
}

// ahead returns the child just ahead of path, or "" if path is first.
func (p *plain) ahead(list int32, path string) (nearest string, err error) {
	names, err := p.answer(list)
	if err != nil {
		return "", err
	}
	n := binary.BigEndian.Uint32(names)
	names = names[4:]
	for range n {
		name := text(names)
		names = names[4+len(name):]
		if key := number(name); key < number(path) && key > number(nearest) {
			nearest = name
		}
	}
	return nearest, nil
}

func number(name string) string { return name[strings.LastIndexByte(name, '-')+1:] }

// ask queues a request, which is sent with the next read, and returns its xid.
func (p *plain) ask(op int32, fields ...any) int32 {
	p.xid++
	start := len(p.frames)
	b := binary.BigEndian.AppendUint32(p.frames, 0)
	b = binary.BigEndian.AppendUint32(b, uint32(p.xid))
	b = binary.BigEndian.AppendUint32(b, uint32(op))
	for _, field := range fields {
		switch v := field.(type) {
		case string:
			b = append(binary.BigEndian.AppendUint32(b, uint32(len(v))), v...)
		case int:
			b = binary.BigEndian.AppendUint32(b, uint32(v))
		case bool:
			watch := byte(0)
			if v {
				watch = 1
			}
			b = append(b, watch)
		}
	}
	binary.BigEndian.PutUint32(b[start:], uint32(len(b)-start-4))
	p.frames = b
	return p.xid
}

const xidEvent = -1

var errNoNode = errors.New("no node")

// answer returns the body of the reply to the request. Replies arrive in order. Events for other nodes are skipped.
func (p *plain) answer(xid int32) ([]byte, error) {
	for {
		frame, err := p.frame()
		if err != nil {
			return nil, err
		}
		if int32(binary.BigEndian.Uint32(frame)) == xid {
			switch code := int32(binary.BigEndian.Uint32(frame[12:])); code {
			case 0:
				return frame[16:], nil
			case -101:
				return nil, errNoNode
			default:
				return nil, fmt.Errorf("code %d", code)
			}
		}
	}
}

func (p *plain) event(path string) error {
	for {
		frame, err := p.frame()
		if err != nil {
			return err
		}
		if int32(binary.BigEndian.Uint32(frame)) == xidEvent && text(frame[24:]) == path {
			return nil
		}
	}
}

// frame sends the pending requests, and reads one frame.
func (p *plain) frame() ([]byte, error) {
	if len(p.frames) > 0 {
		if _, err := p.conn.Write(p.frames); err != nil {
			return nil, err
		}
		p.frames = p.frames[:0]
	}
	var head [4]byte
	if _, err := io.ReadFull(p.in, head[:]); err != nil {
		return nil, err
	}
	frame := make([]byte, binary.BigEndian.Uint32(head[:]))
	_, err := io.ReadFull(p.in, frame)
	return frame, err
}

func text(b []byte) string { return string(b[4 : 4+binary.BigEndian.Uint32(b)]) }
