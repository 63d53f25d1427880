package ensemble

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/zkrecipes/zkrecipes/zktest/internal/proto"
	"github.com/zkrecipes/zkrecipes/zktest/internal/tree"
)

// ConfigPath is the node that describes the ensemble.
const ConfigPath = "/zookeeper/config"

// member is one server of the ensemble that /zookeeper/config describes.
//
// Source: QuorumPeer.QuorumServer.
type member struct {
	host, quorum, election string
	observer               bool
	client                 string // host:port; empty if not given
}

// members is the ensemble by server number.
type members map[int64]member

// voters counts the voting members.
func (m members) voters() (n int) {
	for _, x := range m {
		if !x.observer {
			n++
		}
	}
	return n
}

// votes reports whether a front is a voting member.
func (m members) votes(f *Front) bool {
	x, ok := m[int64(f.ID)]
	return ok && !x.observer
}

// membersOf returns the fronts as voting members. Their quorum ports are those of ZooKeeper's documentation, and
// nothing listens there.
func (e *Ensemble) membersOf(fronts []*Front) members {
	m := members{}
	for _, f := range fronts {
		_, port, _ := net.SplitHostPort(f.Addr)
		host := strings.TrimSuffix(f.Addr, ":"+port) // with the brackets of an IPv6 address
		m[int64(f.ID)] = member{host: host, quorum: "2888", election: "3888", client: f.Addr}
	}
	return m
}

// MembersOf returns the text of a reconfiguration that makes the fronts the members.
func (e *Ensemble) MembersOf(fronts []*Front) string { return string(e.membersOf(fronts).format(0)) }

// IsMember reports whether the front is a member, voting or observing.
func (f *Front) IsMember() bool {
	_, ok := f.Ensemble.members[int64(f.ID)]
	return ok
}

// Adopt puts the configuration into effect that the last reconfiguration has written. A server that has left keeps
// serving, but does not vote. If it was the leader, another one leads, and all connections end after what is queued for
// them: the event of the change, and its reply.
//
// Source: QuorumPeer.processReconfig, Follower.processPacket (COMMITANDACTIVATE), Leader.tryToCommit.
func (e *Ensemble) Adopt() {
	e.members, _, _ = parseMembers(string(e.Tree.Get(ConfigPath).Data))
	e.elect(Link.Kick)
}

// fillConfig describes the members in /zookeeper/config, as an ensemble does.
func (e *Ensemble) fillConfig() {
	version := int64(0) // stays 0 without reconfig
	if e.Reconfig {
		version = e.Zxid
	}
	n := e.Tree.Get(ConfigPath)
	n.Data, n.Version, n.Mzxid, n.Mtime = e.members.format(version), -1, version, e.Now().UnixMilli()
}

// format writes the configuration of a version as ZooKeeper does.
//
// Source: QuorumMaj.toString.
func (m members) format(version int64) []byte {
	var b strings.Builder
	for _, id := range slices.Sorted(maps.Keys(m)) {
		x := m[id]
		role := "participant"
		if x.observer {
			role = "observer"
		}
		fmt.Fprintf(&b, "server.%d=%s:%s:%s:%s", id, x.host, x.quorum, x.election, role)
		if x.client != "" {
			b.WriteString(";" + x.client)
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "version=%x", version)
	return []byte(b.String())
}

// parseMembers parses the output of format. Commas may replace line ends.
func parseMembers(text string) (m members, version int64, ok bool) {
	m = members{}
	for line := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' || r == '\n' }) {
		if number, isVersion := strings.CutPrefix(line, "version="); isVersion {
			v, err := strconv.ParseInt(number, 16, 64)
			if err != nil {
				return nil, 0, false
			}
			version = v
			continue
		}
		id, x, ok := parseMember(line)
		if !ok {
			return nil, 0, false
		}
		m[id] = x
	}
	return m, version, true
}

// parseMember parses "server.4=host:2888:3888:participant;host:2181". The role and what follows it are optional.
func parseMember(text string) (id int64, x member, ok bool) {
	key, value, _ := strings.Cut(text, "=")
	number, isServer := strings.CutPrefix(strings.TrimSpace(key), "server.")
	id, err := strconv.ParseInt(number, 10, 64)
	server, client, hasClient := strings.Cut(strings.TrimSpace(value), ";")
	port := strings.LastIndexByte(server, ']') + 1 // the colons of an IPv6 address are before this
	parts := strings.Split(server[port:], ":")
	parts[0] = server[:port] + parts[0]
	if !isServer || err != nil || len(parts) < 3 || len(parts) > 4 || !isPort(parts[1]) || !isPort(parts[2]) {
		return 0, member{}, false
	}
	x = member{host: parts[0], quorum: parts[1], election: parts[2]}
	if len(parts) == 4 {
		role := strings.ToLower(parts[3])
		x.observer = role == "observer"
		if !x.observer && role != "participant" {
			return 0, member{}, false
		}
	}
	if hasClient {
		if isPort(client) {
			client = "0.0.0.0:" + client
		}
		if _, port, err := net.SplitHostPort(client); err != nil || !isPort(port) {
			return 0, member{}, false
		}
		x.client = client
	}
	return id, x, true
}

func isPort(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return err == nil && n > 0
}

// clashes reports whether two members have an address in common. Loopback addresses do not count.
func (x member) clashes(y member) bool {
	addresses := func(x member) (list []string) {
		for _, addr := range []string{x.host + ":" + x.quorum, x.host + ":" + x.election, x.client} {
			host, _, _ := net.SplitHostPort(addr)
			if ip, err := netip.ParseAddr(host); addr != "" && host != "localhost" &&
				(err != nil || !ip.IsLoopback() && !ip.IsUnspecified()) {
				list = append(list, addr)
			}
		}
		return list
	}
	other := addresses(y)
	return slices.ContainsFunc(addresses(x), func(addr string) bool { return slices.Contains(other, addr) })
}

// Reconfig is a client's request for new members, or for members that join and leave.
type Reconfig struct {
	Joining, Leaving, Members string
	Version                   int64
}

// next returns the members that result from a request.
func (r Reconfig) next(now members) (members, proto.Code) {
	if r.Members != proto.Null {
		next, _, ok := parseMembers(r.Members)
		if !ok {
			return nil, proto.CodeBadArguments
		}
		return next, proto.CodeOK
	}
	next := maps.Clone(now)
	for text := range splitList(r.Leaving) {
		id, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, proto.CodeMarshallingError // the real server breaks on it
		}
		delete(next, id)
	}
	for text := range splitList(r.Joining) {
		id, x, ok := parseMember(text)
		if !ok || x.client == "" {
			return nil, proto.CodeBadArguments
		}
		for other, y := range next {
			if other != id && x.clashes(y) {
				return nil, proto.CodeBadArguments
			}
		}
		next[id] = x
	}
	return next, proto.CodeOK
}

// splitList iterates over a comma-separated list; null and empty have no items.
func splitList(text string) func(yield func(string) bool) {
	if text == proto.Null {
		text = ""
	}
	return strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' || r == ' ' })
}

// Reconfig checks in the order of PrepRequestProcessor.
func (t *Txn) Reconfig(r Reconfig) (tree.Change, proto.Code) {
	config := t.e.Tree.Get(ConfigPath)
	now, version, _ := parseMembers(string(config.Data))
	switch {
	case !t.e.Reconfig:
		return tree.Change{}, proto.CodeReconfigDisabled
	case len(t.e.Fronts) == 1:
		return tree.Change{}, proto.CodeUnimplemented
	case r.Version != -1 && r.Version != version:
		return tree.Change{}, proto.CodeBadVersion
	}
	next, code := r.next(now)
	if code != proto.CodeOK {
		return tree.Change{}, code
	}
	voters, present := 0, 0
	for id, x := range next {
		if x.observer {
			continue
		}
		voters++
		if id >= 1 && id <= int64(len(t.e.Fronts)) && t.e.Fronts[id-1].Role.serves() {
			present++
		}
	}
	switch {
	case voters < 2:
		return tree.Change{}, proto.CodeBadArguments
	case present <= voters/2:
		return tree.Change{}, proto.CodeNewConfigNoQuorum
	case !t.may(config.ACL, proto.PermWrite):
		return tree.Change{}, proto.CodeNoAuth
	}
	return tree.Change{Op: proto.OpSetData, Path: ConfigPath, Data: next.format(t.zxid), Version: -1}, proto.CodeOK
}
