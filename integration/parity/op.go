package parity

import (
	"crypto/sha1" //nolint:gosec // what ZooKeeper's digest scheme uses
	"encoding/base64"
	"fmt"
	"strings"
)

// A Code is a ZooKeeper operation, or a step that concerns the connection.
type Code int32

// ZooKeeper's opcodes, and steps. Steps are below -1000; no server receives their codes.
const (
	opCreate         Code = 1
	opDelete         Code = 2
	opExists         Code = 3
	opGetData        Code = 4
	opSetData        Code = 5
	opGetACL         Code = 6
	opSetACL         Code = 7
	opGetChildren    Code = 8
	opSync           Code = 9
	opPing           Code = 11
	opGetChildren2   Code = 12
	opCheck          Code = 13
	opMulti          Code = 14
	opCreate2        Code = 15
	opCheckWatches   Code = 17
	opRemoveWatches  Code = 18
	opContainer      Code = 19
	opCreateTTL      Code = 21
	opMultiRead      Code = 22
	opReconfig       Code = 16
	opAuth           Code = 100
	opSetWatches     Code = 101
	opSASL           Code = 102
	opGetEphemerals  Code = 103
	opChildrenNumber Code = 104
	opSetWatches2    Code = 105
	opAddWatch       Code = 106
	opWhoAmI         Code = 107
	opUnknown        Code = 99
	opClose          Code = -11
	stepConnect      Code = -1001
	stepCut          Code = -1002
	stepOversize     Code = -1003
)

var names = map[Code]string{
	opCreate: "create", opDelete: "delete", opExists: "exists", opGetData: "getData", opSetData: "setData",
	opGetACL: "getACL", opSetACL: "setACL", opGetChildren: "getChildren", opSync: "sync", opPing: "ping",
	opGetChildren2: "getChildren2",
	opCheck:        "check", opMulti: "multi", opCreate2: "create2", opCheckWatches: "checkWatches",
	opRemoveWatches: "removeWatches", opContainer: "createContainer", opCreateTTL: "createTTL", opMultiRead: "multiRead",
	opReconfig: "reconfig",
	opAuth:     "auth", opSASL: "sasl", opSetWatches: "setWatches", opGetEphemerals: "getEphemerals",
	opChildrenNumber: "getAllChildrenNumber",
	opSetWatches2:    "setWatches2", opAddWatch: "addWatch", opWhoAmI: "whoAmI", opUnknown: "unknown",
	opClose:     "closeSession",
	stepConnect: "connect", stepCut: "cut", stepOversize: "oversize",
}

func (c Code) String() string {
	if name, ok := names[c]; ok {
		return name
	}
	return fmt.Sprintf("op%d", int32(c))
}

// A Version is relative to the version that the run has last seen, so that one script fits every run.
type Version int

// The versions that an operation may specify.
const (
	anyVersion Version = iota
	currentVersion
	staleVersion
)

// A Since is the zxid that setWatches claims to have seen.
type Since int

// The points that watches are set from.
const (
	sinceEver Since = iota
	sinceBase
	sinceNow
)

// A Handshake is how stepConnect identifies itself.
type Handshake int

// The handshakes.
const (
	newSession Handshake = iota
	reattach
	wrongPassword
	unknownSession
	fromTheFuture // has seen a zxid that the server has not reached
)

// A Flag is the last byte of a handshake, which older clients do not send.
type Flag int

// The flags.
const (
	noFlag Flag = iota
	refusesReadOnly
	acceptsReadOnly // a server without a majority, which serves only reads
)

// An Op is one request on one connection. Paths are relative to the root of the run; see run.path.
type Op struct {
	Slot    int
	Code    Code
	Path    string
	Data    []byte
	ACL     int
	Flags   int32
	TTL     int64
	Version Version
	Watch   bool
	Mode    int32 // of addWatch, checkWatches and removeWatches
	Scheme  string
	Auth    string
	Since   Since
	Watches [5][]string // data, exist, child, persistent, recursive
	Ops     []Op        // of a multi

	Joining, Leaving, Members string // of reconfig

	Handshake Handshake
	Session   int // number of the session that is opened or resumed
	Timeout   int32
	Flag      Flag
}

// String formats the relevant parts of an operation.
func (o Op) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "C%d %v", o.Slot, o.Code)
	show := func(name string, set bool, v any) {
		if set {
			fmt.Fprintf(&b, " %s=%v", name, v)
		}
	}
	show("path", o.Code > 0, fmt.Sprintf("%q", o.Path))
	show("data", len(o.Data) > 0, fmt.Sprintf("%d bytes", len(o.Data)))
	show("acl", o.ACL > 0, o.ACL)
	show("flags", o.Flags != 0, o.Flags)
	show("ttl", o.TTL != 0, o.TTL)
	show("version", o.Version != anyVersion, o.Version)
	show("watch", o.Watch, true)
	show("mode", o.Mode != 0, o.Mode)
	show("auth", o.Scheme != "", o.Scheme+" "+o.Auth)
	show("since", o.Since != sinceEver, o.Since)
	if o.Code == opSetWatches || o.Code == opSetWatches2 {
		show("watches", true, fmt.Sprintf("%q", o.Watches))
	}
	if o.Code == stepConnect {
		fmt.Fprintf(&b, " handshake=%d S%d timeout=%d flag=%d", o.Handshake, o.Session, o.Timeout, o.Flag)
	}
	for _, sub := range o.Ops {
		fmt.Fprintf(&b, "\n      %v", sub)
	}
	return b.String()
}

type acl struct {
	perms      int32
	scheme, id string
}

// acls are the lists that the generator chooses from; nil is a null vector.
var acls = [][]acl{
	{{31, "world", "anyone"}},
	{{1, "world", "anyone"}},
	{{15, "world", "anyone"}},
	{{31, "digest", digest("u1:p1")}},
	{{31, "auth", ""}},
	{},
	{{31, "foo", "bar"}},
	{{31, "digest", "u1"}},
	{{1, "digest", digest("u2:p2")}, {5, "world", "anyone"}},
	{{31, "ip", "127.0.0.1"}},
	{{31, "ip", "10.0.0.0/8"}, {1, "world", "anyone"}},
	{{31, "world", "anyone"}, {31, "world", "anyone"}},
	{{31, "world", "bob"}},
	nil,
	{{16, "auth", "x"}, {3, "world", "anyone"}},
	{{31, "ip", "nonsense"}},
	{{31, "ip", "::1/64"}, {31, "world", "anyone"}},
	{{31, "ip", "1:2"}, {31, "world", "anyone"}},
	{{0, "world", "anyone"}},
	{{31, "auth", null}},
	{{31, "ip", null}, {31, "world", "anyone"}},
	{{31, "sasl", "joe"}},
}

func digest(userPassword string) string {
	sum := sha1.Sum([]byte(userPassword)) //nolint:gosec // what ZooKeeper's digest scheme uses
	user, _, _ := strings.Cut(userPassword, ":")
	return user + ":" + base64.StdEncoding.EncodeToString(sum[:])
}

func (w *writer) acl(n int) {
	list := acls[n]
	if list == nil {
		w.int(-1)
		return
	}
	w.int(int32(len(list)))
	for _, a := range list {
		w.int(a.perms)
		w.string(a.scheme)
		w.string(a.id)
	}
}

// body writes what follows the request header.
func (r *run) body(w *writer, o Op) {
	switch o.Code {
	case opCreate, opCreate2, opContainer, opCreateTTL:
		w.string(r.path(o.Path))
		w.buffer(o.Data)
		w.acl(o.ACL)
		w.int(o.Flags)
		if o.Code == opCreateTTL {
			w.long(o.TTL)
		}
	case opDelete, opCheck:
		w.string(r.path(o.Path))
		w.int(r.version(o))
	case opExists, opGetData, opGetChildren, opGetChildren2:
		w.string(r.path(o.Path))
		w.bool(o.Watch)
	case opSetData:
		w.string(r.path(o.Path))
		w.buffer(o.Data)
		w.int(r.version(o))
	case opGetACL, opSync, opGetEphemerals, opChildrenNumber:
		w.string(r.path(o.Path))
	case opSetACL:
		w.string(r.path(o.Path))
		w.acl(o.ACL)
		w.int(r.version(o))
	case opCheckWatches, opRemoveWatches, opAddWatch:
		w.string(r.path(o.Path))
		w.int(o.Mode)
	case opReconfig:
		w.string(o.Joining)
		w.string(o.Leaving)
		w.string(o.Members)
		w.long(int64(r.version(o)))
	case opAuth:
		w.int(0)
		w.string(o.Scheme)
		w.string(o.Auth)
	case opSetWatches, opSetWatches2:
		r.watches(w, o)
	case opMulti, opMultiRead:
		for _, sub := range o.Ops {
			w.int(int32(sub.Code))
			w.bool(false)
			w.int(-1)
			r.body(w, sub)
		}
		w.int(-1)
		w.bool(true)
		w.int(-1)
	default: // no body
	}
}

func (r *run) watches(w *writer, o Op) {
	w.long(map[Since]int64{sinceEver: 0, sinceBase: r.base, sinceNow: r.newest}[o.Since])
	lists := o.Watches[:3]
	if o.Code == opSetWatches2 {
		lists = o.Watches[:]
	}
	for _, list := range lists {
		paths := make([]string, len(list))
		for i, p := range list {
			paths[i] = r.path(p)
		}
		w.strings(paths)
	}
}
