package zktest

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// raw is a client that sees the bytes: frames as they come, in the order they come.
type raw struct {
	t       testing.TB
	nc      net.Conn
	in      *bufio.Reader
	xid     int32
	session int64
	passwd  []byte
	timeout time.Duration

	modern, readOnly bool // what the handshake asks for, and what it says
}

// frame is a reply or an event.
type frame struct {
	xid  int32
	zxid int64
	code Code
	body decoder
}

// event is what a notification says.
type event struct {
	kind Event
	path string
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

// connect does the handshake and says whether a session came of it.
func (r *raw) connect(lastZxid int64, timeout time.Duration, id int64, passwd []byte) bool {
	r.t.Helper()
	r.send(func(e *encoder) {
		e.int32(0)
		e.int64(lastZxid)
		e.int32(int32(timeout.Milliseconds()))
		e.int64(id)
		e.bytes(passwd)
		if r.modern {
			e.bool(true)
		}
	})
	p, err := r.recv()
	if err != nil {
		return false
	}
	d := &decoder{b: p}
	d.int32()
	r.timeout = time.Duration(d.int32()) * time.Millisecond
	r.session, r.passwd = d.int64(), d.bytes()
	if r.modern {
		r.readOnly = d.bool()
	}
	require.False(r.t, d.bad)
	return r.session != 0
}

// connectReadOnly does the handshake of a client that accepts a read-only server.
func (r *raw) connectReadOnly() bool {
	r.t.Helper()
	r.modern = true
	return r.connect(0, 10*time.Second, 0, nil)
}

func (r *raw) send(fill func(*encoder)) {
	var e encoder
	start := e.begin()
	fill(&e)
	e.end(start)
	_, err := r.nc.Write(e.b)
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

// ask sends a request and does not wait.
func (r *raw) ask(op Op, fill func(*encoder)) {
	r.xid++
	r.send(func(e *encoder) {
		e.int32(r.xid)
		e.int32(int32(op))
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
	d := decoder{b: p}
	f := frame{xid: d.int32(), zxid: d.int64(), code: Code(d.int32())}
	f.body = d
	return f
}

func (f frame) event() event {
	d := f.body
	ev := event{kind: Event(d.int32())}
	d.int32()
	ev.path = d.str()
	return ev
}

// call sends a request and returns its reply and the events that came before it.
func (r *raw) call(op Op, fill func(*encoder)) (frame, []event) {
	r.t.Helper()
	r.ask(op, fill)
	var events []event
	for {
		f := r.next()
		if f.xid != xidNotification {
			return f, events
		}
		events = append(events, f.event())
	}
}

// do is call for tests of the error.
func (r *raw) do(op Op, fill func(*encoder)) Code {
	r.t.Helper()
	f, _ := r.call(op, fill)
	return f.code
}

// run is do for tests of what the request leaves behind.
func (r *raw) run(op Op, fill func(*encoder)) {
	r.t.Helper()
	r.call(op, fill)
}

// make creates a node.
func (r *raw) make(path string, mode Mode) {
	r.t.Helper()
	_, code := r.create(path, mode)
	require.Equal(r.t, CodeOK, code)
}

// closed checks that the server ends the connection without another frame.
func (r *raw) closed() {
	r.t.Helper()
	p, err := r.recv()
	require.Errorf(r.t, err, "a frame came: %x", p)
}

func (r *raw) create(path string, mode Mode) (string, Code) {
	r.t.Helper()
	f, _ := r.call(OpCreate, createBody(path, mode))
	return f.body.str(), f.code
}

func createBody(path string, mode Mode) func(*encoder) {
	return func(e *encoder) {
		e.str(path)
		e.bytes(nil)
		e.acls(openACL)
		e.int32(int32(mode))
	}
}

func createTTLBody(path string, mode Mode, ttl int64) func(*encoder) {
	return func(e *encoder) {
		createBody(path, mode)(e)
		e.int64(ttl)
	}
}

func pathBody(path string) func(*encoder) { return func(e *encoder) { e.str(path) } }

func watchBody(path string, watch bool) func(*encoder) {
	return func(e *encoder) {
		e.str(path)
		e.bool(watch)
	}
}

func versionBody(path string, version int32) func(*encoder) {
	return func(e *encoder) {
		e.str(path)
		e.int32(version)
	}
}

func setBody(path string, data []byte, version int32) func(*encoder) {
	return func(e *encoder) {
		e.str(path)
		e.bytes(data)
		e.int32(version)
	}
}

func reconfigBody(joining, leaving, members string, version int64) func(*encoder) {
	return func(e *encoder) {
		e.str(joining)
		e.str(leaving)
		e.str(members)
		e.int64(version)
	}
}

// part is one operation of a multi.
type part struct {
	op   Op
	body func(*encoder)
}

// multiBody joins operations.
func multiBody(parts ...part) func(*encoder) {
	return func(e *encoder) {
		for _, p := range parts {
			multiHeader(e, p.op, false, opErrorCode)
			p.body(e)
		}
		endMulti(e)
	}
}

func readStat(d *decoder) Stat {
	return Stat{
		Czxid: d.int64(), Mzxid: d.int64(), Ctime: d.int64(), Mtime: d.int64(),
		Version: d.int32(), Cversion: d.int32(), Aversion: d.int32(),
		EphemeralOwner: d.int64(), DataLength: d.int32(), NumChildren: d.int32(), Pzxid: d.int64(),
	}
}
