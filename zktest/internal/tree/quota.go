package tree

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Where quotas are kept: the limits of /a in /zookeeper/quota/a/zookeeper_limits, and what /a and the nodes below it
// have of it beside that, in zookeeper_stats.
//
// Source: Quotas, and DataTree for when the server updates which.
const (
	quotaRoot   = "/zookeeper/quota"
	quotaLimits = "zookeeper_limits"
	quotaStats  = "zookeeper_stats"
)

// quotaPath returns the path that a node below quotaRoot is about.
func quotaPath(n *Node) (string, bool) {
	path, below := strings.CutPrefix(n.Parent.Path, quotaRoot)
	return path, below && strings.HasPrefix(path, "/")
}

// underQuota returns the deepest path with a quota that path is or is below.
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

// quotaAdded takes note of a node that the tree has now.
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

// quotaRemoved takes note of a node that the tree has no longer.
func (t *Tree) quotaRemoved(n *Node) {
	if path, ok := quotaPath(n); ok && n.name() == quotaLimits {
		delete(t.quotas, path)
	}
	t.charge(n.Path, -1, -int64(len(n.Data)))
}

// charge counts nodes and bytes that came to a path with a quota, or left it. The node that holds the numbers keeps its
// version, and no watch fires.
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

// Sizes counts a node and all below it, and their bytes.
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

// Exceeds says whether a path would be over a hard limit with so many more nodes and bytes. Soft limits are for logs.
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

// parseUsage skips what it cannot read: the real server breaks on that.
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

// get returns -1 for a missing key, which stands for no limit.
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
