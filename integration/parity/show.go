package parity

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// left shows the bytes that a reply has too many or too few.
func (r *reader) left() string {
	switch {
	case r.short:
		return " TRUNCATED"
	case len(r.rest) > 0:
		return fmt.Sprintf(" EXTRA=%x", r.rest)
	default:
		return ""
	}
}

func (r *run) showEvent(in *reader) string {
	zxid, code := in.long(), in.int()
	kind, state, path := in.int(), in.int(), string(in.buffer())
	return fmt.Sprintf("event zxid=%s err=%d type=%d state=%d path=%s%s", r.showZxid(zxid), code, kind, state,
		r.showPath(path), in.left())
}

// showReply formats a reply whose xid has been read.
func (r *run) showReply(o Op, in *reader) string {
	zxid, code := in.long(), in.int()
	r.newest = max(r.newest, zxid)
	line := fmt.Sprintf("%v zxid=%s err=%d", o.Code, r.showZxid(zxid), code)
	if code == 0 {
		line += r.showBody(o, in)
	}
	return line + in.left()
}

func (r *run) showBody(o Op, in *reader) string {
	switch o.Code {
	case opCreate:
		return r.showCreated(o, in)
	case opCreate2, opContainer, opCreateTTL:
		path := r.showCreated(o, in)
		return path + r.showStat("", in)
	case opExists, opSetData:
		return r.showStat(r.path(o.Path), in)
	case opGetData:
		return showData(in) + r.showStat(r.path(o.Path), in)
	case opGetACL:
		return showACL(in) + r.showStat(r.path(o.Path), in)
	case opSetACL:
		return r.showStat(r.path(o.Path), in)
	case opGetChildren:
		return r.showNames(in)
	case opGetEphemerals:
		return r.showPaths(in)
	case opGetChildren2:
		return r.showNames(in) + r.showStat(r.path(o.Path), in)
	case opSync:
		return " path=" + r.showPath(string(in.buffer()))
	case opMulti, opMultiRead:
		return r.showResults(o, in)
	case opAddWatch:
		return fmt.Sprintf(" result=%d", in.int())
	case opChildrenNumber:
		return fmt.Sprintf(" n=%d", in.int())
	case opWhoAmI:
		return showClients(in)
	default:
		return ""
	}
}

func (r *run) showCreated(o Op, in *reader) string {
	path := string(in.buffer())
	if o.Flags == 2 || o.Flags == 3 || o.Flags == 6 {
		r.made[o.Path] = path
	}
	return " path=" + r.showPath(path)
}

// showResults formats the results of a multi. Each has a header with its type.
func (r *run) showResults(o Op, in *reader) string {
	var b strings.Builder
	for i := 0; !in.short; i++ {
		kind, done, code := in.int(), in.bool(), in.int()
		fmt.Fprintf(&b, " [%d %v %d", kind, done, code)
		if done {
			b.WriteString("]")
			break
		}
		sub := Op{}
		if i < len(o.Ops) {
			sub = o.Ops[i]
		}
		switch kind {
		case -1:
			fmt.Fprintf(&b, " err=%d", in.int())
		case int32(opCreate), int32(opCreate2), int32(opSetData), int32(opGetData), int32(opGetChildren):
			sub.Code = Code(kind) // the server decides how it answers
			b.WriteString(r.showBody(sub, in))
		}
		b.WriteString("]")
	}
	return b.String()
}

func showData(in *reader) string {
	data := in.buffer()
	switch {
	case data == nil:
		return " data=null"
	case len(data) > 20:
		return fmt.Sprintf(" data=%q…%d", data[:20], len(data))
	default:
		return fmt.Sprintf(" data=%q", data)
	}
}

// showACL sorts adjacent entries that differ only in their id. The server turns one entry of scheme auth into one for
// each id of the connection, in the order of a hash set.
func showACL(in *reader) string {
	var list []acl
	for n := in.int(); n > 0 && !in.short; n-- {
		list = append(list, acl{in.int(), string(in.buffer()), string(in.buffer())})
	}
	for from, to := 0, 0; from < len(list); from = to {
		for to < len(list) && list[to].perms == list[from].perms && list[to].scheme == list[from].scheme {
			to++
		}
		slices.SortFunc(list[from:to], func(a, b acl) int { return strings.Compare(a.id, b.id) })
	}
	return fmt.Sprintf(" acl=%v", list)
}

func (r *run) showNames(in *reader) string {
	names := in.strings()
	for i, n := range names {
		names[i] = r.showPath(n)
	}
	return fmt.Sprintf(" names=%q", names)
}

// showPaths sorts paths, because their order depends on the name of the root.
func (r *run) showPaths(in *reader) string {
	paths := in.strings()
	for i, p := range paths {
		paths[i] = r.showPath(p)
	}
	slices.Sort(paths)
	return fmt.Sprintf(" paths=%q", paths)
}

func showClients(in *reader) string {
	var clients []string
	for n := in.int(); n > 0 && !in.short; n-- {
		clients = append(clients, fmt.Sprintf("%s:%s", in.buffer(), in.buffer()))
	}
	slices.Sort(clients)
	return fmt.Sprintf(" clients=%q", clients)
}

func (r *run) showPath(p string) string {
	if rest, ok := strings.CutPrefix(p, r.root); ok {
		return fmt.Sprintf("%q", rest)
	}
	return fmt.Sprintf("!%q", p)
}

func (r *run) showZxid(z int64) string {
	if z <= 0 {
		return fmt.Sprint(z)
	}
	return fmt.Sprintf("%+d", z-r.base)
}

func (r *run) showSession(id int64) string {
	if n, ok := r.numbers[id]; ok {
		return fmt.Sprintf("S%d", n)
	}
	if id == 0 {
		return "none"
	}
	return "unknown"
}

type stat struct {
	czxid, mzxid, ctime, mtime   int64
	version, cversion, aversion  int32
	owner                        int64
	dataLength, numberOfChildren int32
	pzxid                        int64
}

func (r *run) showStat(path string, in *reader) string {
	s := stat{
		in.long(), in.long(), in.long(), in.long(), in.int(), in.int(), in.int(), in.long(), in.int(), in.int(), in.long(),
	}
	if path != "" {
		r.stats[path] = s
	}
	return fmt.Sprintf(" stat{cz=%s mz=%s pz=%s v=%d cv=%d av=%d owner=%s len=%d children=%d%s%s}",
		r.showZxid(s.czxid), r.showZxid(s.mzxid), r.showZxid(s.pzxid), s.version, s.cversion, s.aversion,
		r.showSession(s.owner),
		s.dataLength, s.numberOfChildren, r.showTime(" ctime", s.czxid, s.ctime), r.showTime(" mtime", s.mzxid, s.mtime))
}

// showTime shows nothing if a time is correct: all times of a transaction are equal, and within the run.
func (r *run) showTime(name string, zxid, ms int64) string {
	if zxid < r.base { // older than the run
		return ""
	}
	if before, ok := r.times[zxid]; ok && before != ms {
		return name + "=changed"
	}
	r.times[zxid] = ms
	if at := time.UnixMilli(ms); at.Before(r.started.Add(-time.Second)) || at.After(time.Now().Add(time.Second)) {
		return name + "=" + at.String()
	}
	return ""
}
