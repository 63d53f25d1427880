package survey

import (
	"cmp"
	"fmt"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
)

// Contender is one node of a queue.
type Contender struct {
	Place   int       `json:"place"` // 0 for a holder; waiters count from 1
	Mode    string    `json:"mode"`  // mutex, leader, read, write, permit, or foreign
	ID      string    `json:"id"`
	Host    string    `json:"host,omitempty"` // as far as the ID tells
	Process int       `json:"process,omitempty"`
	Since   time.Time `json:"since"` // when it joined the queue, see Reader.Ahead
	Token   int64     `json:"token,string"`
	Session string    `json:"session,omitempty"` // none for a node that outlives its session
	Library string    `json:"library"`           // whose names it has: curator, kazoo, or foreign
	Node    string    `json:"node"`
	Behind  string    `json:"behind,omitempty"`      // the node that this one waits for
	Asked   time.Time `json:"revoke_asked,omitzero"` // to release
	Leases  []string  `json:"leases,omitempty"`      // permits that a waiter has made, and that are not granted yet

	Stat      zk.Stat `json:"-"`
	kind      string
	key       string
	forbidden bool // the client may not read it
}

const (
	curator = "curator"
	kazoo   = "kazoo"
	foreign = "foreign"
)

// revokeRequest is what Curator's Revoker, and ours, write onto a contender.
const revokeRequest = "__REVOKE__"

// kinds are what stands in the names of contenders, before the sequence number.
var kinds = map[string]struct{ mode, library string }{
	"lock-":     {"mutex", curator}, // an election with the layout of LeaderSelector as well
	"latch-":    {"leader", curator},
	"__READ__":  {"read", curator},
	"__WRIT__":  {"write", curator},
	"lease-":    {"permit", curator},
	"__lock__":  {"mutex", kazoo}, // a writer, beside readers
	"__rlock__": {"read", kazoo},
	kazooLease:  {"permit", kazoo},
}

// kazooLease is the kind of a lease of kazoo's semaphore, which is named by a UUID alone.
const kazooLease = "*"

var (
	contenderName = regexp.MustCompile(`(lock-|latch-|__READ__|__WRIT__|lease-|__lock__|__rlock__)(-?\d{10}|-\d{9})$`)
	leaseName     = regexp.MustCompile(`^[0-9a-f]{32}$`)
	named         = regexp.MustCompile(`(?s)^(.+) \(([^/\s()]+/\d+)\)$`)
	hostProcess   = regexp.MustCompile(`^([^/\s]+)/(\d+)\b`)
)

// parse reads a name as the recipes do.
func parse(name string) (kind, key string, ok bool) {
	m := contenderName.FindStringSubmatch(name)
	if m == nil {
		return "", "", false
	}
	return m[1], m[2], true
}

// looksSequential reports whether a name ends as a sequential node does.
func looksSequential(name string) bool {
	return len(name) >= 10 && strings.Trim(name[len(name)-10:], "0123456789") == ""
}

// compare orders contenders as the recipes do: by the number as text.
func compare(a, b *Contender) int {
	return cmp.Or(strings.Compare(a.key, b.key), -strings.Compare(a.kind, b.kind), strings.Compare(a.Node, b.Node))
}

// read fills in what data and Stat say.
func (c *Contender) read(data []byte, stat zk.Stat) {
	c.Stat = stat
	c.ID, c.Token = Printable(string(data)), stat.Czxid
	c.Since = time.UnixMilli(stat.Ctime)
	if stat.EphemeralOwner != 0 {
		c.Session = "0x" + strconv.FormatUint(uint64(stat.EphemeralOwner), 16)
	}
	if c.ID == revokeRequest {
		c.Asked = time.UnixMilli(stat.Mtime)
		c.ID = "" // the request replaced it
	}
	c.Host, c.Process = "", 0
	name, at := cutProcess(c.ID)
	c.ID = name
	if m := hostProcess.FindStringSubmatch(at); m != nil {
		c.Host = m[1]
		c.Process, _ = strconv.Atoi(m[2]) // as below
	} else if m := hostProcess.FindStringSubmatch(c.ID); m != nil {
		c.Host = m[1]
		c.Process, _ = strconv.Atoi(m[2]) // digits, of which 0 stays if there are too many
	} else if net.ParseIP(c.ID) != nil {
		c.Host = c.ID // Curator's default
	}
}

// writes reports whether c excludes all others on a read-write lock.
func (c *Contender) writes() bool { return c.kind != "__READ__" && c.kind != "__rlock__" }

// Name is how sentences call c. The request to release has replaced the ID.
func (c *Contender) Name() string {
	switch {
	case c.ID != "":
		return c.ID
	case !c.Asked.IsZero() && c.Session != "":
		return "session " + c.Session
	}
	return c.Node[strings.LastIndexByte(c.Node, '/')+1:]
}

// Identity is a name with host and process behind it; empty for no name.
func Identity(name string) string {
	if name == "" {
		return ""
	}
	host, err := os.Hostname()
	if err != nil {
		return name
	}
	return fmt.Sprintf("%s (%s/%d)", name, host, os.Getpid())
}

// cutProcess takes off what Identity has put behind a name.
func cutProcess(id string) (name, at string) {
	if m := named.FindStringSubmatch(id); m != nil {
		return m[1], m[2]
	}
	return id, ""
}

// NameOf is the name of a participant. Data that are no name, such as a request to release, leave its session.
func NameOf(p zkrecipes.Participant) string {
	if p.Name == "" && len(p.Data) > 0 {
		return fmt.Sprintf("session 0x%x", uint64(p.Session))
	}
	name, _ := cutProcess(p.Name)
	return name
}

func (c *Contender) age(now time.Time) time.Duration { return max(0, now.Sub(c.Since)) }

// grant divides a queue in its order into holders and waiters.
func grant(queue []*Contender, shared bool) (holders, waiters []*Contender) {
	writer := -1 // the nearest one ahead
	for i, c := range queue {
		switch {
		case i == 0,
			shared && !c.writes() && writer < 0,
			c.key == queue[0].key && len(holders) > 0: // a reader that its writer became
			holders = append(holders, c)
		case shared && !c.writes():
			c.Behind = queue[writer].Node
			waiters = append(waiters, c)
		default:
			c.Behind = queue[i-1].Node
			waiters = append(waiters, c)
		}
		if c.writes() {
			writer = i
		}
	}
	for i, c := range waiters {
		c.Place = i + 1
	}
	return holders, waiters
}
