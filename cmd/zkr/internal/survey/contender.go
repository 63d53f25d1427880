package survey

import (
	"fmt"
	"net"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/layout"
)

// Contender is one node of a queue.
type Contender struct {
	Place   int       `json:"place"` // 0 for a holder; waiters count from 1
	Mode    string    `json:"mode"`  // mutex, leader, read, write, permit, or foreign
	ID      string    `json:"id"`
	Host    string    `json:"host,omitempty"` // if the ID contains it
	Process int       `json:"process,omitempty"`
	Since   time.Time `json:"since"` // when it joined the queue, see Reader.Ahead
	Token   int64     `json:"token,string"`
	Session string    `json:"session,omitempty"` // empty for a node that outlives its session
	Library string    `json:"library"`           // which library's naming it follows: curator, kazoo, or foreign
	Node    string    `json:"node"`
	Behind  string    `json:"behind,omitempty"`      // the node that this one waits for
	Asked   time.Time `json:"revoke_asked,omitzero"` // to release
	Leases  []string  `json:"leases,omitempty"`      // permits that a waiter has created but not been granted yet

	Stat      zk.Stat          `json:"-"`
	named     layout.Contender // of no kind if it is foreign
	forbidden bool             // the client may not read it
}

const (
	curator = "curator"
	kazoo   = "kazoo"
	foreign = "foreign"
)

// kinds maps the kinds of contenders to modes and libraries.
var kinds = map[string]struct{ mode, library string }{
	layout.Lock:       {"mutex", curator}, // and an election with the layout of LeaderSelector
	layout.Latch:      {"leader", curator},
	layout.Read:       {"read", curator},
	layout.Write:      {"write", curator},
	layout.Lease:      {"permit", curator},
	layout.KazooLock:  {"mutex", kazoo}, // a writer if there are readers
	layout.KazooRead:  {"read", kazoo},
	layout.KazooLease: {"permit", kazoo},
}

var (
	leaseName   = regexp.MustCompile(`^[0-9a-f]{32}$`) // kazoo names a lease by only a UUID
	named       = regexp.MustCompile(`(?s)^(.+) \(([^/\s()]+/\d+)\)$`)
	hostProcess = regexp.MustCompile(`^([^/\s]+)/(\d+)\b`)
)

// NamesKazooLease reports whether a node may be a lease that kazoo itself has created.
func NamesKazooLease(name string) bool { return leaseName.MatchString(name) }

// ofLock reports whether the contender is one of a lock or an election.
func (c *Contender) ofLock() bool { return slices.Contains(ofLocks, c.named.Kind) }

func compare(a, b *Contender) int { return layout.Compare(a.named, b.named) }

// read fills in what the data and the Stat contain.
func (c *Contender) read(data []byte, stat zk.Stat) {
	c.Stat = stat
	c.ID, c.Token = Printable(string(data)), stat.Czxid
	c.Since = time.UnixMilli(stat.Ctime)
	if stat.EphemeralOwner != 0 {
		c.Session = "0x" + strconv.FormatUint(uint64(stat.EphemeralOwner), 16)
	}
	if c.ID == layout.RevokeRequest {
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
		c.Process, _ = strconv.Atoi(m[2]) // digits; 0 if there are too many
	} else if net.ParseIP(c.ID) != nil {
		c.Host = c.ID // Curator's default
	}
}

// Name returns the name of c in messages. Once a request to release has replaced the ID, it is the session.
func (c *Contender) Name() string {
	switch {
	case c.ID != "":
		return c.ID
	case !c.Asked.IsZero() && c.Session != "":
		return "session " + c.Session
	}
	return c.Node[strings.LastIndexByte(c.Node, '/')+1:]
}

// Identity returns a name followed by host and process, or "" for an empty name.
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

// cutProcess removes what Identity appended to a name.
func cutProcess(id string) (name, at string) {
	if m := named.FindStringSubmatch(id); m != nil {
		return m[1], m[2]
	}
	return id, ""
}

// NameOf returns the name of a participant. If its data are not a name, as after a request to release, it returns the
// session.
func NameOf(p zkrecipes.Participant) string {
	if p.Name == "" && len(p.Data) > 0 {
		return fmt.Sprintf("session 0x%x", uint64(p.Session))
	}
	name, _ := cutProcess(p.Name)
	return name
}

func (c *Contender) age(now time.Time) time.Duration { return max(0, now.Sub(c.Since)) }

// grant splits a sorted queue into holders and waiters.
func grant(queue []*Contender) (holders, waiters []*Contender) {
	names := make([]layout.Contender, len(queue))
	for i, c := range queue {
		names[i] = c.named
	}
	for i, c := range queue {
		ahead := layout.Ahead(names, i)
		if ahead < 0 {
			holders = append(holders, c)
			continue
		}
		c.Behind = queue[ahead].Node
		waiters = append(waiters, c)
		c.Place = len(waiters)
	}
	return holders, waiters
}
