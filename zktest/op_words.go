package zktest

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/zkrecipes/zkrecipes/zktest/internal/proto"
)

// words answer ZooKeeper's four-letter words, an administrator's questions in place of a handshake.
//
// Source: the package org.apache.zookeeper.server.command.
var words = map[string]func(f *Front, b *strings.Builder){
	"conf": (*Front).wordConf,
	"cons": (*Front).wordCons,
	"crst": (*Front).wordCrst,
	"dirs": func(_ *Front, b *strings.Builder) { b.WriteString("datadir_size: 0\nlogdir_size: 0\n") },
	"dump": (*Front).wordDump,
	"envi": func(f *Front, b *strings.Builder) {
		fmt.Fprintf(b, "Environment:\nzookeeper.version=%s\njava.version=none\n", f.s.version())
	},
	"gtmk": (*Front).wordMask,
	"hash": func(_ *Front, b *strings.Builder) { b.WriteString("\n") }, // no digests are kept
	"isro": func(f *Front, b *strings.Builder) { b.WriteString(f.writable()) },
	"mntr": (*Front).wordMntr,
	"ruok": func(_ *Front, b *strings.Builder) { b.WriteString("imok") },
	"srst": func(f *Front, b *strings.Builder) {
		f.s.traffic = traffic{}
		b.WriteString("Server stats reset.\n")
	},
	"srvr": func(f *Front, b *strings.Builder) { f.wordStat(b, false) },
	"stat": func(f *Front, b *strings.Builder) { f.wordStat(b, true) },
	"stmk": (*Front).wordMask,
	"wchc": (*Front).wordWchc,
	"wchp": (*Front).wordWchp,
	"wchs": func(f *Front, b *strings.Builder) {
		w := f.dataWatches
		fmt.Fprintf(b, "%d connections watching %d paths\nTotal watches:%d\n", len(w.conns), len(w.paths), w.count())
	},
}

// answerWord answers a four-letter word and closes the connection.
func (s *Server) answerWord(c *conn, word string) {
	s.lock()
	defer s.unlock()
	if c.dead {
		return
	}
	c.received++
	s.received++
	var b strings.Builder
	if s.answers(word) {
		c.front.answer(word, &b)
	} else {
		b.WriteString(word + " is not executed because it is not in the whitelist.\n")
	}
	c.outbox.putText(b.String())
	s.release(c, flush)
}

// answers says whether a word is allowed. Source: FourLetterCommands.isEnabled.
func (s *Server) answers(word string) bool {
	return s.cfg.words == nil || word == "srvr" || word == "isro" && s.cfg.readOnly || slices.Contains(s.cfg.words, word)
}

// wordMask answers with the trace mask. Nothing is traced.
func (f *Front) wordMask(b *strings.Builder) { fmt.Fprint(b, f.s.traceMask) }

// readMask reads the mask that follows the word stmk.
func (s *Server) readMask(r io.Reader) error {
	var both struct {
		Word [4]byte
		Mask int64
	}
	if err := binary.Read(r, binary.BigEndian, &both); err != nil {
		return err
	}
	s.lock()
	defer s.unlock()
	s.traceMask = both.Mask
	return nil
}

func (s *Server) version() string {
	return s.cfg.traits.Number + "-zktest, built on 2000-01-01 00:00 UTC"
}

// traffic counts the packets of a server or of a connection.
type traffic struct{ received, sent int64 }

// connections lists the open connections of the front, oldest first.
func (f *Front) connections() []*conn {
	list := slices.SortedFunc(maps.Keys(f.s.conns), byID)
	return slices.DeleteFunc(list, func(c *conn) bool { return c.dead || c.front != f })
}

// mode is what the front does, in ZooKeeper's words.
func (f *Front) mode() string {
	switch {
	case f.role == readingOnly:
		return "read-only"
	case f.role == leading:
		return "leader"
	case len(f.s.fronts) > 1:
		return "follower"
	}
	return "standalone"
}

func (f *Front) writable() string {
	if f.role == readingOnly {
		return "ro"
	}
	return "rw"
}

// answer writes the answer to a word. A front without a majority answers ruok, envi and isro only.
func (f *Front) answer(word string, b *strings.Builder) {
	switch {
	case f.role != looking || word == "ruok" || word == "envi":
		words[word](f, b)
	case word == "isro":
		b.WriteString("null")
	default:
		b.WriteString("This ZooKeeper instance is not currently serving requests\n")
	}
}

func (f *Front) wordStat(b *strings.Builder, clients bool) {
	s := f.s
	fmt.Fprintf(b, "Zookeeper version: %s\n", s.version())
	list := f.connections()
	if clients {
		b.WriteString("Clients:\n")
		for _, c := range list {
			fmt.Fprintf(b, "%s)\n", c.brief())
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(b, "Latency min/avg/max: 0/0.0/0\nReceived: %d\nSent: %d\nConnections: %d\n", s.received, s.sent, len(list))
	fmt.Fprintf(b, "Outstanding: 0\nZxid: %#x\nMode: %s\nNode count: %d\n", f.zxid(), f.mode(), f.nodeCount())
	if f.role == leading {
		b.WriteString("Proposal sizes last/min/max: -1/-1/-1\n")
	}
}

// nodeCount counts as ZooKeeper does, which has the root twice.
func (f *Front) nodeCount() int { return f.tree().Count() + 1 }

func (f *Front) wordCons(b *strings.Builder) {
	for _, c := range f.connections() {
		b.WriteString(c.brief())
		if ses := c.session; ses != nil {
			fmt.Fprintf(b, ",sid=%#x,lop=%s,est=%d,to=%d", ses.id, c.last.op, c.since.UnixMilli(), ses.timeout.Milliseconds())
			if c.last.xid >= 0 {
				fmt.Fprintf(b, ",lcxid=%#x", c.last.xid)
			}
			fmt.Fprintf(b, ",lzxid=%#x,lresp=%d,llat=0,minlat=0,avglat=0,maxlat=0", uint64(c.last.zxid), c.last.at.UnixMilli())
		}
		b.WriteString(")\n")
	}
	b.WriteString("\n")
}

// brief is a connection in a line without its end.
func (c *conn) brief() string {
	interest := 0
	if c.session != nil {
		interest = 1
	}
	return fmt.Sprintf(" /%v[%d](queued=0,recved=%d,sent=%d", c.nc.RemoteAddr(), interest, c.received, c.sent)
}

// lastRequest is what a connection did last.
type lastRequest struct {
	op   wordOp
	xid  int32
	zxid int64
	at   time.Time
}

// wordOp is an operation as cons names it.
type wordOp proto.Op

func (o wordOp) String() string {
	switch proto.Op(o) {
	case proto.OpAny:
		return "NA"
	case proto.OpConnect:
		return "SESS"
	case proto.OpGetChildren, proto.OpGetChildren2:
		return "GETC"
	case proto.OpGetAllChildrenNumber:
		return "GETACN"
	case proto.OpMultiRead:
		return "MLTR"
	case proto.OpSetWatches2:
		return "STW2"
	case proto.OpWhoAmI:
		return "HOMI"
	case proto.OpCheckWatches:
		return "CHKW"
	default:
		name := strings.ToUpper(proto.Op(o).String())
		return name[:min(4, len(name))]
	}
}

func (f *Front) wordCrst(b *strings.Builder) {
	for _, c := range f.connections() {
		c.traffic, c.last = traffic{}, lastRequest{xid: -1, zxid: -1}
	}
	b.WriteString("Connection stats reset.\n")
}

func (f *Front) wordConf(b *strings.Builder) {
	cfg := f.s.cfg
	_, port, _ := net.SplitHostPort(f.addr)
	fmt.Fprintf(b, "clientPort=%s\nsecureClientPort=-1\ndataDir=\ndataDirSize=0\ndataLogDir=\ndataLogSize=0\n", port)
	fmt.Fprintf(b, "tickTime=%d\nmaxClientCnxns=0\nminSessionTimeout=%d\nmaxSessionTimeout=%d\n",
		cfg.tick.Milliseconds(), cfg.minTimeout.Milliseconds(), cfg.maxTimeout.Milliseconds())
	id := f.id
	if len(f.s.fronts) == 1 {
		id = 0
	}
	fmt.Fprintf(b, "clientPortListenBacklog=-1\nserverId=%d\n", id)
}

func (f *Front) wordMntr(b *strings.Builder) {
	s := f.s
	ephemerals, size := 0, 0
	for _, ses := range s.sessions {
		ephemerals += ses.ephemerals.Len()
	}
	for n := range f.tree().All() {
		size += len(n.Path) + len(n.Data)
	}
	for _, line := range []struct {
		key   string
		value any
	}{
		{"version", s.version()},
		{"server_state", f.mode()},
		{"ephemerals_count", ephemerals},
		{"num_alive_connections", len(f.connections())},
		{"avg_latency", "0.0"},
		{"outstanding_requests", 0},
		{"znode_count", f.nodeCount()},
		{"global_sessions", len(s.sessions)},
		{"packets_sent", s.sent},
		{"packets_received", s.received},
		{"watch_count", f.dataWatches.count() + f.childWatches.count()},
		{"min_latency", 0},
		{"max_latency", 0},
		{"approximate_data_size", size},
		{"local_sessions", 0},
		{"uptime", s.tracker.now().Milliseconds()},
	} {
		fmt.Fprintf(b, "zk_%s\t%v\n", line.key, line.value)
	}
}

// javaDate is the layout of java.util.Date.
const javaDate = "Mon Jan 02 15:04:05 MST 2006"

func (f *Front) wordDump(b *strings.Builder) {
	s := f.s
	b.WriteString("SessionTracker dump:\n")
	fmt.Fprintf(b, "Session Sets (%d)/(%d):\n", len(s.tracker.buckets), len(s.sessions))
	for _, bucket := range slices.Sorted(maps.Keys(s.tracker.buckets)) {
		sessions := s.tracker.buckets[bucket]
		fmt.Fprintf(b, "%d expire at %s:\n", len(sessions), s.tracker.end(bucket).Format(javaDate))
		for _, ses := range slices.SortedFunc(maps.Keys(sessions), bySession) {
			fmt.Fprintf(b, "\t%#x\n", ses.id)
		}
	}
	owners := slices.SortedFunc(maps.Values(s.sessions), bySession)
	owners = slices.DeleteFunc(owners, func(ses *session) bool { return ses.ephemerals.Len() == 0 })
	fmt.Fprintf(b, "ephemeral nodes dump:\nSessions with Ephemerals (%d):\n", len(owners))
	for _, ses := range owners {
		fmt.Fprintf(b, "%#x:\n", ses.id)
		for _, path := range ses.paths() {
			fmt.Fprintf(b, "\t%s\n", path)
		}
	}
	list := f.connections()
	fmt.Fprintf(b, "Connections dump:\nConnections Sets (1)/(%d):\n%d expire at %s:\n",
		len(list), len(list), time.Now().Add(muteLimit).Format(javaDate))
	for _, c := range list {
		fmt.Fprintf(b, "\tip: /%v sessionId: %#x\n", c.nc.RemoteAddr(), c.sessionID())
	}
}

func bySession(a, b *session) int { return cmp.Compare(a.id, b.id) }

func (f *Front) wordWchp(b *strings.Builder) {
	for _, path := range slices.Sorted(maps.Keys(f.dataWatches.paths)) {
		b.WriteString(path + "\n")
		for _, w := range f.dataWatches.paths[path] {
			fmt.Fprintf(b, "\t%#x\n", w.c.sessionID())
		}
	}
	b.WriteString("\n")
}

func (f *Front) wordWchc(b *strings.Builder) {
	for _, c := range slices.SortedFunc(maps.Keys(f.dataWatches.conns), byID) {
		fmt.Fprintf(b, "%#x\n", c.sessionID())
		for _, path := range slices.Sorted(maps.Keys(f.dataWatches.conns[c])) {
			fmt.Fprintf(b, "\t%s\n", path)
		}
	}
	b.WriteString("\n")
}
