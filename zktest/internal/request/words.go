package request

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/zkrecipes/zkrecipes/zktest/internal/ensemble"
	"github.com/zkrecipes/zkrecipes/zktest/internal/proto"
)

// words answer ZooKeeper's four-letter words, which an administrator sends in place of a handshake.
//
// Source: the package org.apache.zookeeper.server.command.
var words = map[string]func(f *ensemble.Front, b *strings.Builder){
	"conf": wordConf,
	"cons": wordCons,
	"crst": wordCrst,
	"dirs": func(_ *ensemble.Front, b *strings.Builder) { b.WriteString("datadir_size: 0\nlogdir_size: 0\n") },
	"dump": wordDump,
	"envi": func(f *ensemble.Front, b *strings.Builder) {
		fmt.Fprintf(b, "Environment:\nzookeeper.version=%s\njava.version=none\n", version(f.Ensemble))
	},
	"gtmk": wordMask,
	"hash": func(_ *ensemble.Front, b *strings.Builder) { b.WriteString("\n") }, // no digests are kept
	"isro": func(f *ensemble.Front, b *strings.Builder) { b.WriteString(writable(f)) },
	"mntr": wordMntr,
	"ruok": func(_ *ensemble.Front, b *strings.Builder) { b.WriteString("imok") },
	"srst": func(f *ensemble.Front, b *strings.Builder) {
		f.Ensemble.Traffic = ensemble.Traffic{}
		b.WriteString("Server stats reset.\n")
	},
	"srvr": func(f *ensemble.Front, b *strings.Builder) { wordStat(f, b, false) },
	"stat": func(f *ensemble.Front, b *strings.Builder) { wordStat(f, b, true) },
	"stmk": wordMask,
	"wchc": wordWchc,
	"wchp": wordWchp,
	"wchs": func(f *ensemble.Front, b *strings.Builder) {
		w := f.DataWatches
		fmt.Fprintf(b, "%d connections watching %d paths\nTotal watches:%d\n", len(w.Clients), len(w.Paths), w.Count())
	},
}

// PeekWord returns the four-letter word with which a connection begins, or "".
func PeekWord(r *bufio.Reader) string {
	head, _ := r.Peek(4) // reading the frame meets the error
	if words[string(head)] == nil {
		return ""
	}
	return string(head)
}

// ReadWord reads what follows a word, and returns the function that answers it. Only words in allowed are answered, or
// all of them if it is nil or contains "*".
func ReadWord(
	word string, r io.Reader, allowed []string, readOnly bool,
) (answer func(f *ensemble.Front) string, err error) {
	always := word == "srvr" || word == "isro" && readOnly
	if allowed != nil && !always && !slices.Contains(allowed, word) && !slices.Contains(allowed, "*") {
		return func(*ensemble.Front) string { return word + " is not executed because it is not in the whitelist.\n" }, nil
	}
	var set struct {
		Word [4]byte
		Mask int64
	}
	if word == "stmk" {
		err = binary.Read(r, binary.BigEndian, &set)
	}
	return func(f *ensemble.Front) string {
		if word == "stmk" {
			f.Ensemble.TraceMask = set.Mask
		}
		var b strings.Builder
		answerWord(f, word, &b)
		return b.String()
	}, err
}

// wordMask answers with the trace mask. Nothing is traced.
func wordMask(f *ensemble.Front, b *strings.Builder) { fmt.Fprint(b, f.Ensemble.TraceMask) }

func version(e *ensemble.Ensemble) string {
	return e.Traits.Number + "-zktest, built on 2000-01-01 00:00 UTC"
}

// mode returns the role of the front in ZooKeeper's terms.
func mode(f *ensemble.Front) string {
	switch {
	case f.Role == ensemble.ReadingOnly:
		return "read-only"
	case f.Role == ensemble.Leading:
		return "leader"
	case len(f.Ensemble.Fronts) > 1:
		return "follower"
	}
	return "standalone"
}

func writable(f *ensemble.Front) string {
	if f.Role == ensemble.ReadingOnly {
		return "ro"
	}
	return "rw"
}

// answerWord writes the answer to a word. A front without a majority only answers ruok, envi and isro.
func answerWord(f *ensemble.Front, word string, b *strings.Builder) {
	switch {
	case f.Role != ensemble.Looking || word == "ruok" || word == "envi":
		words[word](f, b)
	case word == "isro":
		b.WriteString("null")
	default:
		b.WriteString("This ZooKeeper instance is not currently serving requests\n")
	}
}

func wordStat(f *ensemble.Front, b *strings.Builder, clients bool) {
	e := f.Ensemble
	fmt.Fprintf(b, "Zookeeper version: %s\n", version(e))
	list := f.Connected()
	if clients {
		b.WriteString("Clients:\n")
		for _, c := range list {
			fmt.Fprintf(b, "%s)\n", brief(c))
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(b, "Latency min/avg/max: 0/0.0/0\nReceived: %d\nSent: %d\nConnections: %d\n", e.Received, e.Sent,
		len(list))
	fmt.Fprintf(b, "Outstanding: 0\nZxid: %#x\nMode: %s\nNode count: %d\n", f.LastZxid(), mode(f), nodeCount(f))
	if f.Role == ensemble.Leading {
		b.WriteString("Proposal sizes last/min/max: -1/-1/-1\n")
	}
}

// nodeCount counts like ZooKeeper, which counts the root twice.
func nodeCount(f *ensemble.Front) int { return f.Nodes().Count() + 1 }

func wordCons(f *ensemble.Front, b *strings.Builder) {
	for _, c := range f.Connected() {
		b.WriteString(brief(c))
		if ses := c.Session; ses != nil {
			fmt.Fprintf(b, ",sid=%#x,lop=%s,est=%d,to=%d", uint64(ses.ID), wordOp(c.Last.Op), c.Since.UnixMilli(),
				ses.Timeout.Milliseconds())
			if c.Last.Xid >= 0 {
				fmt.Fprintf(b, ",lcxid=%#x", c.Last.Xid)
			}
			fmt.Fprintf(b, ",lzxid=%#x,lresp=%d,llat=0,minlat=0,avglat=0,maxlat=0", uint64(c.Last.Zxid), c.Last.At.UnixMilli())
		}
		b.WriteString(")\n")
	}
	b.WriteString("\n")
}

// brief formats a connection as a line without its end.
func brief(c *ensemble.Client) string {
	interest := 0
	if c.Session != nil {
		interest = 1
	}
	return fmt.Sprintf(" /%v[%d](queued=0,recved=%d,sent=%d", c.Remote, interest, c.Received, c.Sent)
}

// wordOp is an operation as cons names it.
type wordOp proto.Op

// String returns the operation as cons names it.
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

func wordCrst(f *ensemble.Front, b *strings.Builder) {
	for _, c := range f.Connected() {
		c.Traffic, c.Last = ensemble.Traffic{}, ensemble.LastRequest{Xid: -1, Zxid: -1}
	}
	b.WriteString("Connection stats reset.\n")
}

func wordConf(f *ensemble.Front, b *strings.Builder) {
	cfg := f.Ensemble.Settings
	_, port, _ := net.SplitHostPort(f.Addr)
	fmt.Fprintf(b, "clientPort=%s\nsecureClientPort=-1\ndataDir=\ndataDirSize=0\ndataLogDir=\ndataLogSize=0\n", port)
	fmt.Fprintf(b, "tickTime=%d\nmaxClientCnxns=0\nminSessionTimeout=%d\nmaxSessionTimeout=%d\n",
		cfg.Tick.Milliseconds(), cfg.MinTimeout.Milliseconds(), cfg.MaxTimeout.Milliseconds())
	id := f.ID
	if len(f.Ensemble.Fronts) == 1 {
		id = 0
	}
	fmt.Fprintf(b, "clientPortListenBacklog=-1\nserverId=%d\n", id)
}

func wordMntr(f *ensemble.Front, b *strings.Builder) {
	e := f.Ensemble
	ephemerals, size := 0, 0
	for _, ses := range e.Sessions {
		ephemerals += ses.Ephemerals.Len()
	}
	for n := range f.Nodes().All() {
		size += len(n.Path) + len(n.Data)
	}
	for _, line := range []struct {
		key   string
		value any
	}{
		{"version", version(e)},
		{"server_state", mode(f)},
		{"ephemerals_count", ephemerals},
		{"num_alive_connections", len(f.Connected())},
		{"avg_latency", "0.0"},
		{"outstanding_requests", 0},
		{"znode_count", nodeCount(f)},
		{"global_sessions", len(e.Sessions)},
		{"packets_sent", e.Sent},
		{"packets_received", e.Received},
		{"watch_count", f.DataWatches.Count() + f.ChildWatches.Count()},
		{"min_latency", 0},
		{"max_latency", 0},
		{"approximate_data_size", size},
		{"local_sessions", 0},
		{"uptime", e.Tracker.Uptime().Milliseconds()},
	} {
		fmt.Fprintf(b, "zk_%s\t%v\n", line.key, line.value)
	}
}

// javaDate is the layout of java.util.Date.
const javaDate = "Mon Jan 02 15:04:05 MST 2006"

func wordDump(f *ensemble.Front, b *strings.Builder) {
	e := f.Ensemble
	b.WriteString("SessionTracker dump:\n")
	fmt.Fprintf(b, "Session Sets (%d)/(%d):\n", len(e.Tracker.Buckets), len(e.Sessions))
	for _, bucket := range slices.Sorted(maps.Keys(e.Tracker.Buckets)) {
		sessions := e.Tracker.Buckets[bucket]
		fmt.Fprintf(b, "%d expire at %s:\n", len(sessions), e.Tracker.End(bucket).Format(javaDate))
		for _, ses := range slices.SortedFunc(maps.Keys(sessions), bySession) {
			fmt.Fprintf(b, "\t%#x\n", uint64(ses.ID))
		}
	}
	owners := slices.SortedFunc(maps.Values(e.Sessions), bySession)
	owners = slices.DeleteFunc(owners, func(ses *ensemble.Session) bool { return ses.Ephemerals.Len() == 0 })
	fmt.Fprintf(b, "ephemeral nodes dump:\nSessions with Ephemerals (%d):\n", len(owners))
	for _, ses := range owners {
		fmt.Fprintf(b, "%#x:\n", uint64(ses.ID))
		for _, path := range ses.Paths() {
			fmt.Fprintf(b, "\t%s\n", path)
		}
	}
	list := f.Connected()
	fmt.Fprintf(b, "Connections dump:\nConnections Sets (1)/(%d):\n%d expire at %s:\n",
		len(list), len(list), time.Now().Add(HandshakeLimit).Format(javaDate))
	for _, c := range list {
		fmt.Fprintf(b, "\tip: /%v sessionId: %#x\n", c.Remote, uint64(c.SessionID()))
	}
}

func bySession(a, b *ensemble.Session) int { return cmp.Compare(a.ID, b.ID) }

func wordWchp(f *ensemble.Front, b *strings.Builder) {
	for _, path := range slices.Sorted(maps.Keys(f.DataWatches.Paths)) {
		b.WriteString(path + "\n")
		for _, w := range f.DataWatches.Paths[path] {
			fmt.Fprintf(b, "\t%#x\n", uint64(w.Client.SessionID()))
		}
	}
	b.WriteString("\n")
}

func wordWchc(f *ensemble.Front, b *strings.Builder) {
	for _, c := range slices.SortedFunc(maps.Keys(f.DataWatches.Clients), ensemble.ByID) {
		fmt.Fprintf(b, "%#x\n", uint64(c.SessionID()))
		for _, path := range slices.Sorted(maps.Keys(f.DataWatches.Clients[c])) {
			fmt.Fprintf(b, "\t%s\n", path)
		}
	}
	b.WriteString("\n")
}
