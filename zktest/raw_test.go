package zktest

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/zktest/internal/proto"
)

// anyone is an ACL that allows everything.
var anyone = []ACL{{proto.PermAll, "world", "anyone"}}

// putACLs writes an ACL.
func putACLs(e *proto.Encoder, list []ACL) {
	e.Int32(int32(len(list)))
	for _, a := range list {
		e.Int32(a.Perms)
		e.Str(a.Scheme)
		e.Str(a.ID)
	}
}

// anyWatches selects all watches of a client on a path.
const anyWatches = 3

// putPart writes the header of an operation of a multi, or the end marker.
func putPart(e *proto.Encoder, op Op, last bool) {
	e.Int32(int32(op))
	e.Bool(last)
	e.Int32(-1)
}

// takeACLs reads an ACL.
func takeACLs(d proto.Decoder) (list []ACL) {
	for _, a := range d.ACLs() {
		list = append(list, ACL(a))
	}
	return list
}

// raw is a client that sees the bytes: frames as they arrive, in order.
type raw struct {
	t       testing.TB
	nc      net.Conn
	in      *bufio.Reader
	xid     int32
	session int64
	passwd  []byte
	timeout time.Duration

	modern, readOnly bool // requested by the handshake, and reported in its answer
}

// frame is a reply or an event.
type frame struct {
	xid  int32
	zxid int64
	code Code
	body proto.Decoder
}

// event is the content of a notification.
type event struct {
	kind Event
	path string
}

// inBubble runs a test in virtual time, with a server that has one client.
func inBubble(t *testing.T, test func(t *testing.T, s *Server, r *raw), options ...Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := Run(t, append(options, InMemory())...)
		test(t, s, attachRaw(t, s, "", 10*time.Second))
	})
}

// dialRaw opens a connection without a handshake.
func dialRaw(tb testing.TB, s *Server, label string) *raw {
	tb.Helper()
	nc, err := s.DialAs(label)(tb.Context(), "tcp", s.Addr())
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = nc.Close() })
	return newRaw(tb, nc)
}

func newRaw(tb testing.TB, nc net.Conn) *raw {
	tb.Helper()
	return &raw{t: tb, nc: nc, in: bufio.NewReader(nc)}
}

// attachRaw opens a connection and a session on it.
func attachRaw(tb testing.TB, s *Server, label string, timeout time.Duration) *raw {
	tb.Helper()
	r := dialRaw(tb, s, label)
	require.True(tb, r.connect(0, timeout, 0, nil))
	return r
}

func attachTCP(tb testing.TB, addr string) *raw {
	tb.Helper()
	r := newRaw(tb, dialTCP(tb, addr))
	require.True(tb, r.connect(0, 10*time.Second, 0, nil))
	return r
}

func dialTCP(tb testing.TB, addr string) net.Conn {
	tb.Helper()
	nc, err := net.Dial("tcp", addr)
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = nc.Close() })
	return nc
}

// connect performs the handshake and reports whether it yielded a session.
func (r *raw) connect(lastZxid int64, timeout time.Duration, id int64, passwd []byte) bool {
	r.t.Helper()
	r.send(func(e *proto.Encoder) {
		e.Int32(0)
		e.Int64(lastZxid)
		e.Int32(int32(timeout.Milliseconds()))
		e.Int64(id)
		e.Bytes(passwd)
		if r.modern {
			e.Bool(true)
		}
	})
	p, err := r.recv()
	if err != nil {
		return false
	}
	d := &proto.Decoder{B: p}
	d.Int32()
	r.timeout = time.Duration(d.Int32()) * time.Millisecond
	r.session, r.passwd = d.Int64(), d.Bytes()
	if r.modern {
		r.readOnly = d.Bool()
	}
	require.False(r.t, d.Bad)
	return r.session != 0
}

// connectReadOnly performs the handshake of a client that accepts a read-only server.
func (r *raw) connectReadOnly() bool {
	r.t.Helper()
	r.modern = true
	return r.connect(0, 10*time.Second, 0, nil)
}

func (r *raw) send(fill func(*proto.Encoder)) {
	var e proto.Encoder
	start := e.Begin()
	fill(&e)
	e.End(start)
	_, err := r.nc.Write(e.B)
	require.NoError(r.t, err)
}

func (r *raw) recv() ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r.in, head[:]); err != nil {
		return nil, err
	}
	p := make([]byte, binary.BigEndian.Uint32(head[:]))
	_, err := io.ReadFull(r.in, p)
	return p, err
}

// ask sends a request without waiting for the reply.
func (r *raw) ask(op Op, fill func(*proto.Encoder)) {
	r.xid++
	r.send(func(e *proto.Encoder) {
		e.Int32(r.xid)
		e.Int32(int32(op))
		if fill != nil {
			fill(e)
		}
	})
}

// next reads one frame.
func (r *raw) next() frame {
	r.t.Helper()
	p, err := r.recv()
	require.NoError(r.t, err)
	return parseFrame(p)
}

func parseFrame(p []byte) frame {
	d := proto.Decoder{B: p}
	f := frame{xid: d.Int32(), zxid: d.Int64(), code: Code(d.Int32())}
	f.body = d
	return f
}

func (f frame) event() event {
	d := f.body
	ev := event{kind: Event(d.Int32())}
	d.Int32()
	ev.path = d.Str()
	return ev
}

// call sends a request and returns its reply and the events that preceded it.
func (r *raw) call(op Op, fill func(*proto.Encoder)) (frame, []event) {
	r.t.Helper()
	r.ask(op, fill)
	var events []event
	for {
		f := r.next()
		if f.xid != proto.XidNotification {
			return f, events
		}
		events = append(events, f.event())
	}
}

// do is call for tests of the error.
func (r *raw) do(op Op, fill func(*proto.Encoder)) Code {
	r.t.Helper()
	f, _ := r.call(op, fill)
	return f.code
}

// run is do for tests of the effects of a request.
func (r *raw) run(op Op, fill func(*proto.Encoder)) {
	r.t.Helper()
	r.call(op, fill)
}

// make creates a node.
func (r *raw) make(path string, mode Mode) {
	r.t.Helper()
	_, code := r.create(path, mode)
	require.Equal(r.t, CodeOK, code)
}

// closed checks that the server ends the connection without sending another frame.
func (r *raw) closed() {
	r.t.Helper()
	p, err := r.recv()
	require.Errorf(r.t, err, "a frame came: %x", p)
}

func (r *raw) create(path string, mode Mode) (string, Code) {
	r.t.Helper()
	f, _ := r.call(OpCreate, createBody(path, mode))
	return f.body.Str(), f.code
}

func createBody(path string, mode Mode) func(*proto.Encoder) {
	return func(e *proto.Encoder) {
		e.Str(path)
		e.Bytes(nil)
		putACLs(e, anyone)
		e.Int32(int32(mode))
	}
}

func createTTLBody(path string, mode Mode, ttl int64) func(*proto.Encoder) {
	return func(e *proto.Encoder) {
		createBody(path, mode)(e)
		e.Int64(ttl)
	}
}

func pathBody(path string) func(*proto.Encoder) { return func(e *proto.Encoder) { e.Str(path) } }

func watchBody(path string, watch bool) func(*proto.Encoder) {
	return func(e *proto.Encoder) {
		e.Str(path)
		e.Bool(watch)
	}
}

func versionBody(path string, version int32) func(*proto.Encoder) {
	return func(e *proto.Encoder) {
		e.Str(path)
		e.Int32(version)
	}
}

func setBody(path string, data []byte, version int32) func(*proto.Encoder) {
	return func(e *proto.Encoder) {
		e.Str(path)
		e.Bytes(data)
		e.Int32(version)
	}
}

func reconfigBody(joining, leaving, members string, version int64) func(*proto.Encoder) {
	return func(e *proto.Encoder) {
		e.Str(joining)
		e.Str(leaving)
		e.Str(members)
		e.Int64(version)
	}
}

// part is one operation of a multi.
type part struct {
	op   Op
	body func(*proto.Encoder)
}

// multiBody encodes a multi.
func multiBody(parts ...part) func(*proto.Encoder) {
	return func(e *proto.Encoder) {
		for _, p := range parts {
			putPart(e, p.op, false)
			p.body(e)
		}
		putPart(e, -1, true)
	}
}

func readStat(d *proto.Decoder) Stat {
	return Stat{
		Czxid: d.Int64(), Mzxid: d.Int64(), Ctime: d.Int64(), Mtime: d.Int64(),
		Version: d.Int32(), Cversion: d.Int32(), Aversion: d.Int32(),
		EphemeralOwner: d.Int64(), DataLength: d.Int32(), NumChildren: d.Int32(), Pzxid: d.Int64(),
	}
}
