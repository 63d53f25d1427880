package tree

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Where quotas are stored: the limits of /a in /zookeeper/quota/a/zookeeper_limits, and the current usage of /a and the
// nodes below it in zookeeper_stats next to it.
//
// Source: Quotas, and DataTree for when the server updates which.
const (
	quotaRoot   = "/zookeeper/quota"
	quotaLimits = "zookeeper_limits"
	quotaStats  = "zookeeper_stats"
)

// quotaPath returns the path that a node below quotaRoot describes.
func quotaPath(n *Node) (string, bool) {
	path, below := strings.CutPrefix(n.Parent.Path, quotaRoot)
	return path, below && strings.HasPrefix(path, "/")
}

// underQuota returns the deepest path with a quota that is path itself or an ancestor of it.
func (t *Tree) underQuota(path string) (string, bool) {
	if len(t.quotas) == 0 {
		return "", false
	}
	for ; path != ""; path = ParentPath(path) {
		if _, ok := t.quotas[path]; ok {
			return path, true
		}
	}
	return "", false
}

// quotaAdded updates quotas for a node that was added to the tree.
func (t *Tree) quotaAdded(n *Node) {
	if path, ok := quotaPath(n); ok {
		switch n.name() {
		case quotaLimits:
			t.quotas[path] = struct{}{}
		case quotaStats:
			nodes, size := t.Sizes(path)
			n.Data = usage{{"count", nodes}, {"bytes", size}}.format()
		}
	}
	t.charge(n.Path, 1, int64(len(n.Data)))
}

// quotaRemoved updates quotas for a node that was removed from the tree.
func (t *Tree) quotaRemoved(n *Node) {
	if path, ok := quotaPath(n); ok && n.name() == quotaLimits {
		delete(t.quotas, path)
	}
	t.charge(n.Path, -1, -int64(len(n.Data)))
}

// charge adds nodes and bytes to the usage of the quota that applies to path, or subtracts them. The node that holds
// the numbers keeps its version, and no watch fires.
func (t *Tree) charge(path string, nodes, size int64) {
	prefix, ok := t.underQuota(path)
	if !ok {
		return
	}
	if n := t.Get(quotaRoot + prefix + "/" + quotaStats); n != nil {
		u := parseUsage(n.Data)
		u.set("count", u.get("count")+nodes)
		u.set("bytes", u.get("bytes")+size)
		n.Data = u.format()
	}
}

// Sizes counts a node and all nodes below it, and their bytes.
func (t *Tree) Sizes(path string) (nodes, size int64) {
	n := t.Get(path)
	if n == nil {
		return 0, 0
	}
	nodes, size = 1, int64(len(n.Data))
	for name := range n.Children.All() {
		moreNodes, moreSize := t.Sizes(n.child(name))
		nodes, size = nodes+moreNodes, size+moreSize
	}
	return nodes, size
}

// Exceeds reports whether a path would exceed a hard limit with the given number of additional nodes and bytes. Soft
// limits only affect logs.
//
// Source: ZooKeeperServer.checkQuota.
func (t *Tree) Exceeds(path string, nodes, size int64) bool {
	prefix, ok := t.underQuota(path)
	if !ok {
		return false
	}
	limits, stats := t.Get(quotaRoot+prefix+"/"+quotaLimits), t.Get(quotaRoot+prefix+"/"+quotaStats)
	if limits == nil || stats == nil {
		return false
	}
	limit, used := parseUsage(limits.Data), parseUsage(stats.Data)
	over := func(kind, hard string, more int64) bool {
		most := limit.get(hard)
		return more != 0 && most > -1 && used.get(kind)+more > most
	}
	return over("count", "countHardLimit", nodes) || over("bytes", "byteHardLimit", size)
}

// usage is the data of a quota node, such as "count=4,bytes=5=;byteHardLimit=10;countHardLimit=10".
//
// Source: StatsTrack.
type usage []struct {
	key   string
	value int64
}

// parseUsage skips what it cannot parse, on which the real server breaks.
func parseUsage(data []byte) (u usage) {
	for _, pair := range bytes.FieldsFunc(data, func(r rune) bool { return r == ',' || r == ';' }) {
		key, value, _ := strings.Cut(string(pair), "=")
		value, _, _ = strings.Cut(value, "=")
		if value == "" {
			value = "-1"
		}
		if v, err := strconv.ParseInt(value, 10, 64); err == nil {
			u.set(key, v)
		}
	}
	return u
}

// get returns -1 for a missing key, which means no limit.
func (u *usage) get(key string) int64 {
	for _, x := range *u {
		if x.key == key {
			return x.value
		}
	}
	return -1
}

func (u *usage) set(key string, value int64) {
	for i := range *u {
		if (*u)[i].key == key {
			(*u)[i].value = value
			return
		}
	}
	*u = append(*u, struct {
		key   string
		value int64
	}{key, value})
}

func (u usage) format() []byte {
	text := fmt.Sprintf("count=%d,bytes=%d", u.get("count"), u.get("bytes"))
	var more []string
	for _, x := range u {
		if x.key != "count" && x.key != "bytes" {
			more = append(more, fmt.Sprintf(";%s=%d", x.key, x.value))
		}
	}
	if len(more) > 0 {
		text += "="
	}
	slices.Sort(more)
	return []byte(text + strings.Join(more, ""))
}
