package parity

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/zkrecipes/zkrecipes/integration/kit/zkserver"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// An oddity is a request that the generator never creates. Each gets its own session on both servers.
type oddity struct {
	name string
	code Code
	body func(w *writer, root string)
}

func (w *writer) openACL() {
	w.int(1)
	w.int(31)
	w.string("world")
	w.string("anyone")
}

// oddCreate writes the body of a create with one entry in its list.
func oddCreate(scheme, id func(w *writer)) func(w *writer, root string) {
	return func(w *writer, root string) {
		w.string(root + "/new")
		w.buffer(nil)
		w.int(1)
		w.int(31)
		scheme(w)
		id(w)
		w.int(1) // ephemeral: it disappears with the session
	}
}

func text(s string) func(w *writer) { return func(w *writer) { w.string(s) } }

func nullPath(rest ...func(w *writer)) func(w *writer, root string) {
	return func(w *writer, _ string) {
		w.null()
		for _, f := range rest {
			f(w)
		}
	}
}

func path(suffix string, rest ...func(w *writer)) func(w *writer, root string) {
	return func(w *writer, root string) {
		w.string(root + suffix)
		for _, f := range rest {
			f(w)
		}
	}
}

func long(v int64) func(w *writer)   { return func(w *writer) { w.long(v) } }
func number(v int32) func(w *writer) { return func(w *writer) { w.int(v) } }
func flag(v bool) func(w *writer)    { return func(w *writer) { w.bool(v) } }

func multi(kind Code, body func(w *writer, root string)) func(w *writer, root string) {
	return func(w *writer, root string) {
		w.int(int32(kind))
		w.bool(false)
		w.int(-1)
		body(w, root)
		w.int(-1)
		w.bool(true)
		w.int(-1)
	}
}

var oddities = []oddity{
	{"create: scheme auth, id null, no identity", opCreate, oddCreate(text("auth"), (*writer).null)},
	{"create: scheme world, id null", opCreate, oddCreate(text("world"), (*writer).null)},
	{"create: scheme digest, id null", opCreate, oddCreate(text("digest"), (*writer).null)},
	{"create: scheme ip, id null", opCreate, oddCreate(text("ip"), (*writer).null)},
	{"create: scheme sasl, id null", opCreate, oddCreate(text("sasl"), (*writer).null)},
	{"create: scheme sasl", opCreate, oddCreate(text("sasl"), text("bob"))},
	{"create: scheme unknown, id null", opCreate, oddCreate(text("foo"), (*writer).null)},
	{"create: scheme null", opCreate, oddCreate((*writer).null, text("anyone"))},
	{"create: scheme x509", opCreate, oddCreate(text("x509"), text("CN=a"))},
	{"create: id with invalid UTF-8", opCreate, oddCreate(text("digest"), text("\xff:x"))},
	{"create: null path", opCreate, nullPath((*writer).null, (*writer).openACL, number(1))},
	{"create: null path, container", opContainer, nullPath((*writer).null, (*writer).openACL, number(4))},
	{"create: bad flags, null path", opCreate, nullPath((*writer).null, (*writer).openACL, number(9))},
	{"create: negative count of ACL", opCreate, path("/new", (*writer).null, number(-7), number(1))},
	{"delete: null path", opDelete, nullPath(number(-1))},
	{"setData: null path", opSetData, nullPath((*writer).null, number(-1))},
	{"setACL: null path", opSetACL, nullPath((*writer).openACL, number(-1))},
	{
		"setACL: null id of scheme auth", opSetACL,
		path("", number(1), number(31), text("auth"), (*writer).null, number(-1)),
	},
	{"exists: null path", opExists, nullPath(flag(false))},
	{"exists: null path, watch", opExists, nullPath(flag(true))},
	{"getData: null path", opGetData, nullPath(flag(true))},
	{"getChildren: null path", opGetChildren, nullPath(flag(true))},
	{"getChildren2: null path", opGetChildren2, nullPath(flag(true))},
	{"getACL: null path", opGetACL, nullPath()},
	{"sync: null path", opSync, nullPath()},
	{"getEphemerals: null path", opGetEphemerals, nullPath()},
	{"getAllChildrenNumber: null path", opChildrenNumber, nullPath()},
	{"getAllChildrenNumber: empty path", opChildrenNumber, func(w *writer, _ string) { w.string("") }},
	{"getAllChildrenNumber: quota", opChildrenNumber, func(w *writer, _ string) { w.string("/zookeeper") }},
	{"addWatch: null path", opAddWatch, nullPath(number(0))},
	{"addWatch: null path, recursive", opAddWatch, nullPath(number(1))},
	{"checkWatches: null path", opCheckWatches, nullPath(number(1))},
	{"checkWatches: null path, any", opCheckWatches, nullPath(number(3))},
	{"removeWatches: null path", opRemoveWatches, nullPath(number(1))},
	{"removeWatches: null path, any", opRemoveWatches, nullPath(number(3))},
	{"setWatches: null lists", opSetWatches, func(w *writer, _ string) { w.long(0); w.null(); w.null(); w.null() }},
	{"setWatches: null data list", opSetWatches, func(w *writer, _ string) { w.long(0); w.null(); w.int(0); w.int(0) }},
	{
		"setWatches: null exist list", opSetWatches,
		func(w *writer, root string) { w.long(0); w.strings([]string{root}); w.null(); w.int(0) },
	},
	{"setWatches: null child list", opSetWatches, func(w *writer, root string) {
		w.long(0)
		w.strings([]string{root})
		w.strings([]string{root})
		w.null()
	}},
	{"setWatches: null path in the middle", opSetWatches, func(w *writer, root string) {
		w.long(0)
		w.strings([]string{root, null, root + "/none"})
		w.int(0)
		w.int(0)
	}},
	{"setWatches2: null data list", opSetWatches2, func(w *writer, root string) {
		w.long(0)
		w.null()
		for range 4 {
			w.strings([]string{root})
		}
	}},
	{"setWatches2: null recursive list", opSetWatches2, func(w *writer, root string) {
		w.long(0)
		for range 4 {
			w.strings([]string{root})
		}
		w.null()
	}},
	{
		"setWatches: null data path", opSetWatches,
		func(w *writer, _ string) { w.long(0); w.int(1); w.null(); w.int(0); w.int(0) },
	},
	{
		"setWatches: null exist path", opSetWatches,
		func(w *writer, _ string) { w.long(0); w.int(0); w.int(1); w.null(); w.int(0) },
	},
	{
		"setWatches: null child path", opSetWatches,
		func(w *writer, _ string) { w.long(0); w.int(0); w.int(0); w.int(1); w.null() },
	},
	{"setWatches: invalid UTF-8", opSetWatches, func(w *writer, _ string) {
		w.long(0)
		w.strings([]string{"/\xff\xfe"})
		w.int(0)
		w.int(0)
	}},
	{"setWatches2: null persistent path", opSetWatches2, func(w *writer, _ string) {
		w.long(0)
		for range 3 {
			w.int(0)
		}
		w.int(1)
		w.null()
		w.int(0)
	}},
	{"multi: create with a null path", opMulti, multi(opCreate, nullPath((*writer).null, (*writer).openACL, number(1)))},
	{"multi: delete with a null path", opMulti, multi(opDelete, nullPath(number(-1)))},
	{"multi: check with a null path", opMulti, multi(opCheck, nullPath(number(-1)))},
	{"multi: create, scheme auth, id null", opMulti, multi(opCreate, oddCreate(text("auth"), (*writer).null))},
	{"multi: create, scheme world, id null", opMulti, multi(opCreate, oddCreate(text("world"), (*writer).null))},
	{"multiRead: null path", opMultiRead, multi(opGetData, nullPath(flag(false)))},
	{"multiRead: null path, children", opMultiRead, multi(opGetChildren, nullPath(flag(false)))},
	{"multiRead: create", opMultiRead, multi(opCreate, oddCreate(text("world"), text("anyone")))},
	{"multiRead: delete", opMultiRead, multi(opDelete, path("", number(-1)))},
	{"multiRead: check", opMultiRead, multi(opCheck, path("", number(-1)))},
	{"multiRead: getData and create", opMultiRead, func(w *writer, root string) {
		w.int(int32(opGetData))
		w.bool(false)
		w.int(-1)
		path("", flag(false))(w, root)
		multi(opCreate, oddCreate(text("world"), text("anyone")))(w, root)
	}},
	{"multiRead: create and getData", opMultiRead, func(w *writer, root string) {
		w.int(int32(opCreate))
		w.bool(false)
		w.int(-1)
		oddCreate(text("world"), text("anyone"))(w, root)
		multi(opGetData, path("", flag(false)))(w, root)
	}},
	{"multiRead: unknown operation", opMultiRead, multi(99, path(""))},
	{"multiRead: empty", opMultiRead, func(w *writer, _ string) { w.int(-1); w.bool(true); w.int(-1) }},
	{"multi: getData", opMulti, multi(opGetData, path("", flag(false)))},
	{"createTTL: -1", opCreateTTL, path("/new", (*writer).null, (*writer).openACL, number(5), long(-1))},
	{"createTTL: -1, sequential", opCreateTTL, path("/new", (*writer).null, (*writer).openACL, number(6), long(-1))},
	{"createTTL: -2", opCreateTTL, path("/new", (*writer).null, (*writer).openACL, number(5), long(-2))},
	{"createTTL: 1, not of that mode", opCreateTTL, path("/new", (*writer).null, (*writer).openACL, number(1), long(1))},
	{"multi: createTTL of -1", opMulti, multi(opCreateTTL,
		path("/new", (*writer).null, (*writer).openACL, number(5), long(-1)))},
	{"sasl: null token", opSASL, func(w *writer, _ string) { w.null() }},
	{"sasl: empty body", opSASL, func(*writer, string) {}},
	{"sasl: token", opSASL, func(w *writer, _ string) { w.string("x") }},
	{"auth: null scheme", opAuth, func(w *writer, _ string) { w.int(0); w.null(); w.string("a:b") }},
	{"auth: null credential", opAuth, func(w *writer, _ string) { w.int(0); w.string("digest"); w.null() }},
	{"auth: empty credential", opAuth, func(w *writer, _ string) { w.int(0); w.string("digest"); w.string("") }},
	{"auth: null credential of scheme ip", opAuth, func(w *writer, _ string) { w.int(0); w.string("ip"); w.null() }},
	{"auth: world", opAuth, func(w *writer, _ string) { w.int(0); w.string("world"); w.null() }},
	{"auth: sasl", opAuth, func(w *writer, _ string) { w.int(0); w.string("sasl"); w.string("x") }},
	{"sasl: not configured", opSASL, func(w *writer, _ string) { w.buffer([]byte{}) }},
	{"reconfig: complete", 16, func(w *writer, _ string) { w.null(); w.null(); w.null(); w.long(-1) }},
	{"reconfig: truncated", 16, func(w *writer, _ string) { w.null() }},
	{"reconfig: empty", 16, func(*writer, string) {}},
	{"opcode -10", -10, func(*writer, string) {}},
	{"opcode 0", 0, func(*writer, string) {}},
	{"opcode -1", -1, func(*writer, string) {}},
	{"deleteContainer: no node", 20, path("/none")},
	{"deleteContainer: a persistent node", 20, path("")},
	{"deleteContainer: a node that cannot be deleted", 20, func(w *writer, _ string) { w.string("/zookeeper/quota") }},
	{"deleteContainer: the root", 20, func(w *writer, _ string) { w.string("/") }},
	{"deleteContainer: no path", 20, func(w *writer, _ string) { w.string("x") }},
	{"deleteContainer: null path", 20, nullPath()},
	{"deleteContainer: empty body", 20, func(*writer, string) {}},
	{"getData: negative length of the path", opGetData, func(w *writer, _ string) { w.int(-2) }},
	{"getData: path longer than the frame", opGetData, func(w *writer, _ string) { w.int(1 << 30) }},
	{"getData: no watch", opGetData, path("")},
	{"exists: empty body", opExists, func(*writer, string) {}},
	{"create: more entries than the frame", opCreate, path("/new", (*writer).null, number(1<<28))},
	{"create: truncated", opCreate, path("/new")},
	{"create2: empty body", opCreate2, func(*writer, string) {}},
	{"createContainer: truncated", opContainer, path("/new")},
	{"createTTL: truncated", opCreateTTL, path("/new", (*writer).null, (*writer).openACL, number(5))},
	{"delete: truncated", opDelete, path("")},
	{"setData: truncated", opSetData, path("")},
	{"setACL: truncated", opSetACL, path("")},
	{"setWatches: more paths than the frame", opSetWatches, func(w *writer, _ string) { w.long(0); w.int(0x7fffffff) }},
	{"setWatches: truncated", opSetWatches, func(w *writer, _ string) { w.long(0) }},
	{"multi: truncated", opMulti, func(w *writer, _ string) { w.int(1) }},
	{"multi: no end", opMulti, func(w *writer, root string) { w.int(2); w.bool(false); w.int(-1) }},
	{"multi: unknown operation", opMulti, multi(99, path(""))},
	{"auth: truncated", opAuth, func(w *writer, _ string) { w.int(0) }},
	{"closeSession: with a body", opClose, func(w *writer, _ string) { w.int(0) }},
	{"sync: character above U+FFFF", opSync, path("/\U0001F600é")},
	{"exists: character above U+FFFF", opExists, path("/\U0001F600", flag(false))},
	{"create: character above U+FFFF", opCreate, path("/\U0001F600", (*writer).null, (*writer).openACL, number(1))},
	{"create: invalid UTF-8", opCreate, path("/\xc3", (*writer).null, (*writer).openACL, number(1))},
	{"delete: invalid UTF-8", opDelete, path("/\xc3", number(-1))},
	{"sync: a lone lead byte", opSync, path("/\xc3")},
	{"sync: a lone continuation", opSync, path("/\x80\x80a")},
	{"sync: an overlong slash", opSync, path("/\xc0\xafa")},
	{"sync: a truncated sequence of three", opSync, path("/\xe2\x82a")},
	{"sync: a truncated sequence at the end", opSync, path("/\xe2\x82")},
	{"sync: a surrogate", opSync, path("/\xed\xa0\x80a")},
	{"sync: a truncated sequence of four", opSync, path("/\xf0\x9f\x98a")},
	{"sync: a truncated sequence of four at the end", opSync, path("/\xf0\x9f\x98")},
	{"sync: beyond Unicode", opSync, path("/\xf5\x80\x80\x80a")},
	{"sync: overlong four", opSync, path("/\xf0\x80\x80\x80a")},
	{"sync: overlong three", opSync, path("/\xe0\x80\x80a")},
}

// checks come last: before 3.8.5 and 3.9.3 they do damage, and the real server could not start again.
var checks = []oddity{
	{"check: a node", opCheck, path("", number(0))},
	{"check: any version", opCheck, path("", number(-1))},
	{"check: another version", opCheck, path("", number(7))},
	{"check: no node", opCheck, path("/none", number(-1))},
	{"check: bad path", opCheck, path("/", number(-1))},
	{"check: null path", opCheck, nullPath(number(-1))},
	{"check: truncated", opCheck, path("")},
	{"check: empty body", opCheck, func(*writer, string) {}},
}

func TestOddities_ZktestAgreesWithReal(t *testing.T) {
	for _, p := range profiles {
		t.Run(p.name, func(t *testing.T) {
			// No session may expire meanwhile, because that takes a zxid.
			s := zkserver.Start(t, zkserver.WithProperty("zookeeper.extendedTypesEnabled", fmt.Sprint(p.extended)),
				zkserver.WithSessionTimeouts(time.Second, time.Hour))
			opts := []zktest.Option{zktest.WithRelease(release(t, s)), zktest.WithSessionTimeouts(time.Second, time.Hour)}
			if p.extended {
				opts = append(opts, zktest.WithExtendedTypes())
			}
			addrs := []string{s.Addr(), zktest.Run(t, opts...).Addr()}
			for _, o := range slices.Concat(oddities, checks) {
				var got [2][]string
				for i, addr := range addrs {
					got[i] = o.play(t, addr)
				}
				if !slices.Equal(got[0], got[1]) {
					t.Errorf("%s:\nzookeeper %q\nzktest    %q", o.name, got[0], got[1])
				}
			}
		})
	}
}

// play sends the request, and returns the replies and how many zxids were used from one root to the next.
func (o oddity) play(t *testing.T, addr string) []string {
	t.Helper()
	r, after := newRun(addr), newRun(addr)
	defer r.finish()
	defer after.finish()
	if err := r.makeRoot(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.connect(Op{Code: stepConnect, Timeout: 3_600_000}); err != nil {
		t.Fatal(err)
	}
	got := o.ask(t, r)
	if err := after.makeRoot(); err != nil {
		t.Fatalf("%s: %v", o.name, err)
	}
	return append(got, fmt.Sprintf("zxids=%d", after.base-r.base))
}

// ask sends the request, then a ping, and returns the replies.
func (o oddity) ask(t *testing.T, r *run) (got []string) {
	t.Helper()
	s := r.slots[0]
	var w writer
	w.int(1)
	w.int(int32(o.code))
	o.body(&w, r.root)
	_, _ = s.Write(framed(w))
	s.send(r, Op{Code: opPing})
	for {
		frame, err := s.read()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("%s: %s does not answer", o.name, r.addr)
		}
		if err != nil {
			return append(got, "closed")
		}
		in := reader{rest: frame}
		xid, _, code := in.int(), in.long(), in.int()
		if xid == pingXid {
			if o.code == opClose { // the server closes the connection some time after its answer
				continue
			}
			return append(got, "alive")
		}
		got = append(got, fmt.Sprintf("xid=%d err=%d body=%q", xid, code,
			bytes.ReplaceAll(in.rest, []byte(r.root), []byte("ROOT"))))
		if code == -6 { // the server is about to close, which may or may not overtake the ping
			return got
		}
	}
}
