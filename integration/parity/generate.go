package parity

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
)

// slots is the number of connections that a script uses.
const slots = 4

// A Script is a list of steps. The operations of one step are sent together on one connection.
type Script [][]Op

// Generate creates the script of a seed with n operations. In pipelined scripts most steps are bursts of two to eight.
func Generate(seed uint64, n int, pipelined bool) Script {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 0))}
	var s Script
	for slot := range slots {
		s = append(s, []Op{g.connect(slot)})
	}
	for len(s) < n+slots && n > 0 {
		step := g.step(pipelined)
		n -= len(step) - 1
		s = append(s, step)
	}
	return s
}

// A generator knows which connections are open, so that it does not waste steps on closed ones.
type generator struct {
	*rand.Rand

	sessions int
	closed   []bool // by session
	attached [slots]int
	alive    [slots]bool
}

func pick[T any](g *generator, from ...T) T { return from[g.IntN(len(from))] }

func (g *generator) step(pipelined bool) []Op {
	slot := g.IntN(slots)
	if !g.alive[slot] {
		return []Op{g.reconnect(slot)}
	}
	if g.IntN(100) < 5 {
		return []Op{g.session(slot)}
	}
	burst := 1
	if pipelined {
		burst = 2 + g.IntN(7)
	}
	ops := make([]Op, burst)
	for i := range ops {
		ops[i] = g.op(slot)
		for ops[i].lagging() && i < burst-1 {
			ops[i] = g.op(slot)
		}
	}
	return ops
}

// lagging reports whether the answers to the next requests depend on when they arrive. A real server checks the old ACL
// until it has applied the new one. After a multi that it cannot parse, it drops the changes it had prepared late.
func (o Op) lagging() bool {
	return o.Code == opSetACL || slices.ContainsFunc(o.Ops,
		func(sub Op) bool { return sub.Flags == 5 || sub.Flags == 6 || unreadable(sub.ACL) })
}

// unreadable reports whether the server fails on a list because an id is null and not of scheme auth.
func unreadable(list int) bool {
	return slices.ContainsFunc(acls[list], func(a acl) bool { return a.id == null && a.scheme != "auth" })
}

// session generates an operation that changes a connection or its identities. It is never part of a burst: auth
// overtakes earlier requests, and the others end the connection.
func (g *generator) session(slot int) Op {
	n := g.IntN(100)
	switch {
	case n < 5: // after some of these, the server closes the connection
		g.alive[slot] = false
		o := g.op(slot)
		if o.Code != opMulti && o.Code != opMultiRead {
			o.Path = "!" + null
		}
		return o
	case n < 35:
		o := Op{Slot: slot, Code: opAuth, Scheme: "digest", Auth: pick(g, "u1:p1", "u2:p2", "u3", "u1:wrong")}
		if g.IntN(10) == 0 {
			o.Scheme = pick(g, "foo", "ip", "world")
			g.alive[slot] = o.Scheme == "ip"
		}
		return o
	case n < 50:
		g.alive[slot], g.closed[g.attached[slot]] = false, true
		return Op{Slot: slot, Code: opClose}
	case n < 65:
		g.alive[slot] = false
		return Op{Slot: slot, Code: stepCut}
	case n < 70:
		g.alive[slot] = false
		return Op{Slot: slot, Code: opUnknown}
	case n < 75:
		g.alive[slot] = false
		return Op{Slot: slot, Code: stepOversize}
	default:
		return g.reconnect(slot)
	}
}

// reconnect drops the connection of a slot, if there is one, and makes another.
func (g *generator) reconnect(slot int) Op {
	n := g.IntN(100)
	if n < 40 || g.sessions == 0 {
		return g.connect(slot)
	}
	o := Op{
		Slot: slot, Code: stepConnect, Handshake: reattach, Session: g.IntN(g.sessions), Timeout: 1_200_000,
		Flag: Flag(g.IntN(3)),
	}
	if n > 85 {
		o.Handshake = pick(g, wrongPassword, unknownSession, fromTheFuture)
	}
	g.alive[slot] = false
	if o.Handshake == reattach || o.Handshake == wrongPassword { // the server closes the earlier connection of the session
		for other := range slots {
			g.alive[other] = g.alive[other] && g.attached[other] != o.Session
		}
	}
	if o.Handshake == reattach && !g.closed[o.Session] {
		g.alive[slot], g.attached[slot] = true, o.Session
	}
	return o
}

func (g *generator) connect(slot int) Op {
	o := Op{
		Slot: slot, Code: stepConnect, Session: g.sessions, Timeout: pick[int32](g, 1_200_000, 3_600_000),
		Flag: Flag(g.IntN(3)),
	}
	g.alive[slot], g.attached[slot] = true, g.sessions
	g.sessions++
	g.closed = append(g.closed, false)
	return o
}

// weights are the relative frequencies of the operations.
var weights = []struct {
	code   Code
	weight int
}{
	{opCreate, 14},
	{opCreate2, 8},
	{opContainer, 4},
	{opCreateTTL, 2},
	{opDelete, 10},
	{opSetData, 8},
	{opExists, 7},
	{opGetData, 7},
	{opGetACL, 3},
	{opSetACL, 4},
	{opSync, 1},
	{opGetChildren, 3},
	{opGetChildren2, 4},
	{opMulti, 8},
	{opMultiRead, 3},
	{opSetWatches, 3},
	{opSetWatches2, 2},
	{opAddWatch, 3},
	{opCheckWatches, 1},
	{opRemoveWatches, 3},
	{opGetEphemerals, 1},
	{opChildrenNumber, 1},
	{opWhoAmI, 1},
	{opReconfig, 1},
}

func (g *generator) op(slot int) Op {
	total := 0
	for _, w := range weights {
		total += w.weight
	}
	n := g.IntN(total)
	for _, w := range weights {
		if n -= w.weight; n < 0 {
			return g.fill(Op{Slot: slot, Code: w.code})
		}
	}
	panic("bug: weights do not add up")
}

func (g *generator) fill(o Op) Op {
	if o.Path = g.path(); strings.HasPrefix(o.Path, "!/") && o.Code.changes() {
		o.Path = "/a" // all runs share the nodes outside their roots
	}
	switch o.Code {
	case opCreate, opCreate2, opContainer, opCreateTTL:
		g.create(&o)
	case opDelete, opCheck:
		o.Version = g.version()
	case opSetData:
		o.Data, o.Version = g.data(), g.version()
	case opSetACL:
		o.ACL, o.Version = g.acl(), g.version()
		if o.Path == "" { // every client must be able to use the root
			o.Path = "/a"
		}
	case opExists, opGetData, opGetChildren, opGetChildren2:
		o.Watch = g.IntN(2) == 0
	case opCheckWatches, opRemoveWatches:
		o.Mode = pick[int32](g, 1, 1, 2, 2, 3, 3, 3, 0, 4, 4, 5, 5, 6)
	case opAddWatch:
		o.Mode = pick[int32](g, 0, 0, 0, 1, 1, 1, 2)
	case opSetWatches, opSetWatches2:
		o.Path, o.Since = "", Since(g.IntN(3))
		for i := range o.Watches {
			for range g.IntN(3) {
				o.Watches[i] = append(o.Watches[i], g.node())
			}
		}
	case opMulti:
		o.Path = ""
		for range g.IntN(6) {
			code := pick(g, opCreate, opCreate, opCreate2, opContainer, opDelete, opSetData, opSetData, opCheck)
			o.Ops = append(o.Ops, g.fill(Op{Code: code}))
		}
	case opReconfig:
		o.Path, o.Version = "", g.version()
		o.Joining, o.Leaving = pick(g, null, "", "server.9=127.0.0.1:1:2;3", "nonsense"), pick(g, null, "", "9", "x")
		o.Members = pick(g, null, null, "", "server.9=127.0.0.1:1:2;3")
	case opMultiRead:
		o.Path = ""
		for range g.IntN(6) {
			o.Ops = append(o.Ops, Op{Code: pick(g, opGetData, opGetChildren), Path: g.node()})
		}
	default: // only the path matters
	}
	return o
}

// changes reports whether an operation could change one of ZooKeeper's own nodes.
func (c Code) changes() bool {
	switch c {
	case opCreate, opCreate2, opContainer, opCreateTTL, opSetData, opSetACL:
		return true
	default:
		return false // the server refuses to delete its own nodes
	}
}

// create chooses flags that usually fit the operation.
func (g *generator) create(o *Op) {
	o.Data, o.ACL = g.data(), g.acl()
	switch o.Code {
	case opContainer:
		o.Flags = 4
	case opCreateTTL:
		o.Flags, o.TTL = pick[int32](g, 5, 6), pick[int64](g, 0, -1, 86_400_000, 1<<40)
	default:
		o.Flags = pick[int32](g, 0, 0, 0, 0, 1, 1, 2, 3, 3)
	}
	if g.IntN(25) == 0 && o.Code != opCreateTTL {
		o.Flags = pick[int32](g, 0, 1, 2, 3, 4, 5, 6, 9, -1)
	}
	if o.Flags == 2 || o.Flags == 3 || o.Flags == 6 {
		o.Path = pick(g, "/s-", "/a/s-", "/b/", "/a/x/s-", "/a/x", "/c/s-")
	}
}

func (g *generator) version() Version {
	return pick(g, anyVersion, anyVersion, currentVersion, staleVersion)
}

func (g *generator) data() []byte {
	return pick(g, nil, []byte{}, []byte("x"), []byte("some data"), bytes.Repeat([]byte("d"), 2048))
}

func (g *generator) acl() int {
	if g.IntN(10) < 8 {
		return 0
	}
	return g.IntN(len(acls))
}

// path returns the path of a node, and occasionally an invalid path.
func (g *generator) path() string {
	if g.IntN(25) == 0 {
		return pick(g, badPaths...)
	}
	return g.node()
}

var badPaths = []string{
	"/a/", "/a//x", "/a/.", "/a/../b", "/./a", "/a/\x00", "/a/\x1f", "/a/\x7f", "/a/\ue000", "/a/\ufff5", "/é", "/a/…",
	"!no-slash", "!/zookeeper", "!/zookeeper/quota", "!/zookeeper/config",
}

func (g *generator) node() string {
	return pick(g, "", "/a", "/a", "/b", "/b", "/c", "/a/x", "/a/x", "/a/y", "/b/x", "/b/y", "/c/x", "/a/x/1",
		"/a/x/2", "/b/x/1",
		"/s-~", "/a/s-~", "/b/~", "/a/x/s-~", "/a/x~", "/c/s-~")
}

// Len returns the number of operations in a script.
func (s Script) Len() (n int) {
	for _, step := range s {
		n += len(step)
	}
	return n
}
