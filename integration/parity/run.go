// Package parity runs the same script of operations against two ZooKeeper servers, and compares every reply and every
// event byte for byte. It ignores what must differ: session IDs, the first zxid, clocks, and orders that ZooKeeper does
// not define.
package parity

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// roots gives every run its own root node, so that one server can serve many.
var roots atomic.Int64

// A Transcript holds, for each step of a script, what each connection received.
type Transcript [][]string

// Play runs a script against a server.
func Play(target Target, s Script) (Transcript, error) {
	r := newRun(target.Addr)
	defer r.finish()
	if target.before != nil {
		r.follow(target.before)
	} else if err := r.makeRoot(); err != nil {
		return nil, err
	}
	t := make(Transcript, len(s))
	for i, step := range s {
		lines, err := r.step(step)
		if err != nil {
			return t, fmt.Errorf("step %d, %v: %w", i, step, err)
		}
		t[i] = lines
	}
	if target.before != nil {
		return t, nil // on a read-only server sessions take no zxid, and earlier ones cannot be closed
	}
	return t, r.closeSessions()
}

// A run is one script on one server, with what its replies have revealed.
type run struct {
	addr    string
	root    string
	started time.Time
	slots   [slots]*slot // nil without a connection
	base    int64        // zxid of the create of the root; other zxids are shown relative to it
	newest  int64

	sessions map[int]session
	numbers  map[int64]int     // session id → its number in the script
	made     map[string]string // prefix → newest sequential node
	stats    map[string]stat   // path → newest seen
	times    map[int64]int64   // zxid → the time that stats show for it
}

func newRun(addr string) *run {
	return &run{
		addr: addr, started: time.Now(), sessions: map[int]session{}, numbers: map[int64]int{},
		made: map[string]string{}, stats: map[string]stat{}, times: map[int64]int64{},
	}
}

// follow continues with the nodes and sessions of a run that is over.
func (r *run) follow(before *run) {
	r.root, r.base, r.newest, r.started = before.root, before.base, before.newest, before.started
	r.sessions, r.numbers = maps.Clone(before.sessions), maps.Clone(before.numbers)
	r.made, r.stats, r.times = maps.Clone(before.made), maps.Clone(before.stats), maps.Clone(before.times)
}

type session struct {
	id       int64
	password []byte
}

type slot struct {
	*wire
	xid     int32
	session int
}

// own is the number of the session that creates the root. It ends before the script begins.
const own = -1

func (r *run) makeRoot() error {
	name := fmt.Sprintf("/d%08d", roots.Add(1)) // of constant length, so that replies have constant length
	if _, err := r.connect(Op{Code: stepConnect, Session: own, Timeout: 30_000}); err != nil {
		return err
	}
	s := r.slots[0]
	s.send(r, Op{Code: opCreate, Path: "!" + name})
	reply, err := s.read()
	if err != nil {
		return fmt.Errorf("create %s: %w", name, err)
	}
	head := reader{rest: reply}
	_, zxid, code := head.int(), head.long(), head.int()
	if code != 0 {
		return fmt.Errorf("create %s: error %d", name, code)
	}
	r.root, r.base, r.newest = name, zxid, zxid
	return r.endSession(0)
}

// step plays one step, then sends a ping on every connection. Once the pings are answered, all events have arrived.
func (r *run) step(ops []Op) ([]string, error) {
	var got [slots][]string
	if err := r.perform(ops, &got[ops[0].Slot]); err != nil {
		return nil, err
	}
	for _, s := range r.slots {
		if s != nil {
			s.send(r, Op{Code: opPing})
		}
	}
	var all []string
	for i := range r.slots {
		if err := r.receive(i, []Op{{Code: opPing}}, []int32{pingXid}, &got[i]); err != nil {
			return nil, err
		}
		if ops[0].Code == opClose {
			slices.Sort(got[i]) // the order in which a session's nodes disappear depends on the name of the root
		}
		for _, line := range got[i] {
			all = append(all, fmt.Sprintf("C%d %s", i, line))
		}
	}
	return all, nil
}

func (r *run) perform(ops []Op, got *[]string) error {
	first := ops[0]
	if first.Code == stepConnect {
		line, err := r.connect(first)
		*got = append(*got, line)
		return err
	}
	s := r.slots[first.Slot]
	if s == nil {
		*got = append(*got, "dead")
		return nil
	}
	switch first.Code {
	case stepCut:
		r.slots[first.Slot] = nil
		return s.hangUp()
	case stepOversize:
		// The server closes the connection, so a failed write does not matter.
		_, _ = s.Write([]byte{0, 0x10, 0, 0, 0, 0, 0, 1})
		return r.receive(first.Slot, ops, []int32{1}, got)
	default:
	}
	if err := r.receive(first.Slot, ops, s.send(r, ops...), got); err != nil {
		return err
	}
	if first.ends((*got)[len(*got)-1]) {
		return r.receive(first.Slot, ops, []int32{noXid}, got)
	}
	return nil
}

// ends reports whether the server closes the connection after the reply. A ping may or may not still be answered before
// that.
func (o Op) ends(reply string) bool {
	if strings.HasSuffix(reply, "err=-119") { // a read-only server refuses
		return false
	}
	return o.Code == opClose || o.Code == opUnknown || o.Code == opCheck || // outside a multi
		strings.HasSuffix(reply, "err=-115") ||
		strings.HasSuffix(reply, "err=-124") // the client has not authenticated as it must
}

const (
	pingXid = -2
	noXid   = math.MinInt32 // for a reply that never comes
)

// send writes requests at once, and returns their xids. A broken connection is detected by the next read.
func (s *slot) send(r *run, ops ...Op) []int32 {
	var out []byte
	xids := make([]int32, len(ops))
	for i, o := range ops {
		if xids[i] = pingXid; o.Code != opPing {
			s.xid++
			xids[i] = s.xid
		}
		var w writer
		w.int(xids[i])
		w.int(int32(o.Code))
		r.body(&w, o)
		out = append(out, framed(w)...)
	}
	_, _ = s.Write(out)
	return xids
}

// receive reads the replies to ops in their order, with the events in between.
func (r *run) receive(i int, ops []Op, xids []int32, got *[]string) error {
	s := r.slots[i]
	for len(xids) > 0 && s != nil {
		frame, err := s.read()
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return fmt.Errorf("connection %d: no reply to %v after %v", i, ops[0], patience)
		case err != nil:
			*got = append(*got, "closed")
			r.slots[i] = nil
			return s.Close()
		}
		head := reader{rest: frame}
		switch xid := head.int(); xid {
		case -1:
			*got = append(*got, r.showEvent(&head))
		case xids[0]:
			*got = append(*got, r.showReply(ops[0], &head))
			ops, xids = ops[1:], xids[1:]
		default:
			return fmt.Errorf("connection %d: reply with xid %d, want %d to %v", i, xid, xids[0], ops[0])
		}
	}
	return nil
}

// connect replaces the connection of a slot, and shows the server's answer.
func (r *run) connect(o Op) (string, error) {
	if old := r.slots[o.Slot]; old != nil {
		r.slots[o.Slot] = nil
		if err := old.hangUp(); err != nil {
			return "", err
		}
	}
	c, err := dial(r.addr)
	if err != nil {
		return "", err
	}
	if _, err := c.Write(framed(r.handshake(o))); err != nil {
		return "", errors.Join(err, c.Close())
	}
	answer, err := c.read()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return "", errors.Join(fmt.Errorf("%v: no answer after %v", o, patience), c.Close())
	}
	if err != nil {
		return "closed", c.Close()
	}
	in := reader{rest: answer}
	version, timeout, id, password := in.int(), in.int(), in.long(), in.buffer()
	if id == 0 {
		// Until the server has closed the old connection, it counts it as a connection of the session.
		if err := c.hangUp(); err != nil {
			return "", err
		}
	} else {
		r.slots[o.Slot] = &slot{wire: c, session: o.Session}
		r.sessions[o.Session], r.numbers[id] = session{id, password}, o.Session
	}
	return fmt.Sprintf("connected version=%d timeout=%d session=%s password=%d%s",
		version, timeout, r.showSession(id), len(password), in.left()), nil
}

func (r *run) handshake(o Op) []byte {
	var w writer
	resumed := session{password: make([]byte, 16)}
	seen := int64(0)
	switch o.Handshake {
	case newSession:
	case reattach:
		resumed = r.sessions[o.Session]
	case wrongPassword:
		resumed.id = r.sessions[o.Session].id
	case unknownSession:
		resumed.id = 0x1234567
	case fromTheFuture:
		seen = r.newest + 1_000_000
	}
	w.int(0)
	w.long(seen)
	w.int(o.Timeout)
	w.long(resumed.id)
	w.buffer(resumed.password)
	if o.Flag != noFlag {
		w.bool(o.Flag == acceptsReadOnly)
	}
	return w
}

// closeSessions ends every session. A session that expires later would use a zxid of another script.
func (r *run) closeSessions() error {
	for n := range r.sessions {
		i := slices.IndexFunc(r.slots[:], func(s *slot) bool { return s != nil && s.session == n })
		if i < 0 {
			i = 0
			if _, err := r.connect(Op{Code: stepConnect, Handshake: reattach, Session: n, Timeout: 30_000}); err != nil {
				return err
			}
		}
		if err := r.endSession(i); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) endSession(i int) error {
	s := r.slots[i]
	if s == nil { // the script has closed it
		return nil
	}
	defer func() { _ = s.Close() }()
	r.slots[i] = nil
	delete(r.sessions, s.session)
	s.send(r, Op{Code: opClose})
	for {
		if _, err := s.read(); errors.Is(err, os.ErrDeadlineExceeded) {
			return fmt.Errorf("connection still open %v after closeSession", patience)
		} else if err != nil {
			return nil
		}
	}
}

// finish closes the connections that are still open after an error.
func (r *run) finish() {
	for _, s := range r.slots {
		if s != nil {
			_ = s.Close()
		}
	}
}

// path turns a path of the script into one of the server. It is below the root of the run, unless it begins with "!". A
// path that ends in "~" is the newest sequential node with that prefix.
func (r *run) path(p string) string {
	if p, literal := strings.CutPrefix(p, "!"); literal {
		return p
	}
	if prefix, sequential := strings.CutSuffix(p, "~"); sequential && r.made[prefix] != "" {
		return r.made[prefix]
	}
	return r.root + p
}

func (r *run) version(o Op) int32 {
	seen := r.stats[r.path(o.Path)]
	v := seen.version
	if o.Code == opSetACL {
		v = seen.aversion
	}
	switch o.Version {
	case anyVersion:
		return -1
	case currentVersion:
		return v
	default:
		return v + 1
	}
}
