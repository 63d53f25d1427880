package discovery

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/recipes/group"
)

// View is a service at one instant, as one server knew it.
type View struct {
	// Service is the service's name.
	Service string
	// Entries are the instances, sorted by age: the one with the oldest node comes first.
	Entries []Entry
	// Zxid is the ID of the transaction that last changed the list of instances, or that created the service's node; 0
	// if that node does not exist, for example because its container was reaped. Of two views whose Zxids are not 0,
	// the one with the larger is newer.
	Zxid int64
	// Freshness is never current in a view from [Discovery.Instances], because nothing follows the service.
	zkrecipes.Freshness
}

// Entry is one node in a view, with the instance that it represents.
type Entry struct {
	// Instance is empty, except for its Service, if the node cannot be decoded.
	Instance
	// Path is the path of the node.
	Path string
	// Data is the node's data, which must not be modified.
	Data []byte
	// Czxid identifies the node's incarnation: an instance that comes back gets a larger one.
	Czxid int64
	// Session is the session that owns the node, or 0 if the node is not ephemeral.
	Session int64
	// Since is when the node was created, by the servers' clock.
	Since time.Time
	// Err is why the instance cannot be called: either its node cannot be decoded, or it has no address or an invalid
	// port. It is nil if the instance can be called.
	Err error
}

// Instances returns the instances that you can use: those that are not disabled and whose Entry.Err is nil.
func (v View) Instances() []Instance {
	var usable []Instance
	for _, e := range v.Entries {
		if e.Err == nil && !e.Disabled {
			usable = append(usable, e.Instance)
		}
	}
	return usable
}

// decoder makes views. It decodes a node again only if its data has changed.
type decoder struct {
	codec   Codec
	service string
	known   map[string]Entry // by path; a node that is not an instance has ErrNoInstance
}

func (d *decoder) view(v group.View) View {
	entries, known := make([]Entry, 0, len(v.Members)), make(map[string]Entry, len(v.Members))
	for _, m := range v.Members {
		e := d.known[m.Path] // no node has the czxid 0
		if e.Czxid != m.Czxid || !bytes.Equal(e.Data, m.Data) {
			e = d.entry(m)
		}
		known[m.Path] = e
		if !errors.Is(e.Err, ErrNoInstance) {
			entries = append(entries, e)
		}
	}
	d.known = known
	return View{Service: d.service, Entries: entries, Zxid: v.Zxid, Freshness: v.Freshness}
}

func (d *decoder) entry(m group.Member) Entry {
	i, err := d.codec.Decode(d.service, Node{Name: m.ID, Data: m.Data})
	if err != nil {
		i, err = Instance{Service: d.service}, fmt.Errorf("decode %s: %w", m.Path, err)
	} else if why := i.checkCall(); why != nil {
		err = fmt.Errorf("instance %s cannot be called: %w", m.Path, why)
	}
	return Entry{Instance: i, Path: m.Path, Data: m.Data, Czxid: m.Czxid, Session: m.Session, Since: m.Since, Err: err}
}

// same reports whether other contains nothing new for a caller that has v.
func (v View) same(other View) bool {
	return v.Current == other.Current && slices.EqualFunc(v.Entries, other.Entries, func(a, b Entry) bool {
		return a.Path == b.Path && a.Czxid == b.Czxid && bytes.Equal(a.Data, b.Data)
	})
}
