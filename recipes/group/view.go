package group

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// Member is one member of a group, as seen in a view.
type Member struct {
	// ID is the ID passed to Join.
	ID string
	// Path is the path of the member's node.
	Path string
	// Data is the node's data, which must not be modified. It is nil in views from a Watch without [WithPayloads].
	Data []byte
	// Czxid identifies the node's incarnation, and orders members by seniority: a member that rejoins gets a larger
	// one.
	Czxid int64
	// Session is the session that owns the node, or 0 if the node is not ephemeral.
	Session int64
	// Since is when the node was created, by the servers' clock.
	Since time.Time
}

// View is a group at one instant, as one server knew it.
type View struct {
	// Members are sorted by seniority: the one that has been in the group longest comes first.
	Members []Member
	// Zxid is the ID of the transaction that last changed the list of members, or that created the group's node; 0 if
	// that node does not exist, for example because its container was reaped. Of two views whose Zxids are not 0, the
	// one with the larger is newer.
	Zxid int64
	// Freshness is never current in a view from [Group.Members], because nothing follows the group after the call.
	zkrecipes.Freshness
}

// same reports whether both views show the same members in the same order.
func (v View) same(other View) bool {
	return slices.EqualFunc(v.Members, other.Members, func(a, b Member) bool {
		return a.Path == b.Path && a.Czxid == b.Czxid && a.ID == b.ID && bytes.Equal(a.Data, b.Data)
	})
}

// reader reads the group in one session. With watches it remembers the members, and rereads only those that may have
// changed.
type reader struct {
	group    *Group
	session  *session.Session
	watching bool
	payloads bool
	list     *session.Watch    // fires when the list that was read last has changed
	known    map[string]*entry // by name of the node
	seen     map[string]int64  // czxids of members that were read before, by name of the node
	arrived  func(*entry)      // is called with each entry that has its own watch; may be nil
}

// entry is a member with a watch that fires when its node changes or is deleted.
type entry struct {
	Member
	watch    *session.Watch
	read     time.Time
	doubtful bool // an event may have been lost
}

// reading is a view together with its age.
type reading struct {
	view View
	age  *session.Age
}

// now returns the view with its age.
func (r reading) now() View {
	r.view.Members = slices.Clone(r.view.Members) // the caller may sort its copy
	r.view.Freshness = r.age.Freshness()
	return r.view
}

// read returns a view of one instant, which is when the list was read. A known member was there, unchanged, if its
// watch has not fired after the answer to the list, because the server sends an event before the answer to a later
// request. A member that is read after the list was there in the same incarnation if its czxid is not above the pzxid
// of the list, or if the same czxid was read before the list was sent. Otherwise the list is reread.
func (r *reader) read(ctx context.Context) (reading, error) {
	for {
		at, old := r.session.NewAge(), r.list
		names, stat, err := r.names(ctx)
		r.session.Unwatch(old)
		if err != nil {
			return reading{}, err
		}
		at.Watch(r.list)
		entries, complete, err := r.entries(ctx, names, stat.Pzxid)
		switch {
		case err != nil:
			return reading{}, err
		case !complete || r.watching && !at.Current(): // a member has gone, or the watches have, with their connection
			continue
		}
		members := make([]Member, 0, len(entries))
		for _, e := range entries {
			members = append(members, e.Member)
			if r.payloads {
				at.Watch(e.watch)
			}
		}
		slices.SortFunc(members,
			func(a, b Member) int { return cmp.Or(cmp.Compare(a.Czxid, b.Czxid), strings.Compare(a.Path, b.Path)) })
		return reading{View{Members: members, Zxid: stat.Pzxid}, at}, nil
	}
}

// names returns the names of the members' nodes. A group without a parent has none.
func (r *reader) names(ctx context.Context) ([]string, zk.Stat, error) {
	for {
		var names []string
		var stat zk.Stat
		var err error
		if r.watching {
			names, stat, r.list, err = r.session.ChildrenStatW(ctx, r.group.path)
		} else {
			names, stat, err = r.session.ChildrenStat(ctx, r.group.path)
		}
		switch {
		case err == nil:
			return slices.DeleteFunc(names, func(name string) bool { return !r.group.layout.isMember(name) }), stat, nil
		case !errors.Is(err, zk.ErrNoNode):
			return nil, zk.Stat{}, err
		case !r.watching:
			return nil, zk.Stat{}, nil
		}
		var exists bool
		exists, _, r.list, err = r.session.ExistsW(ctx, r.group.path)
		if err != nil || !exists {
			return nil, zk.Stat{}, err
		}
		r.session.Unwatch(r.list)
	}
}

// entries returns the members with the given names. complete is false if one of them no longer existed, in the
// incarnation of the list, when it was read.
func (r *reader) entries(
	ctx context.Context, names []string, pzxid int64,
) (entries []*entry, complete bool, err error) {
	entries = make([]*entry, len(names))
	errs := make([]error, len(names))
	var unread []int
	for i, name := range names {
		if e := r.known[name]; e != nil && !e.doubtful && !e.watch.HasFired() {
			entries[i] = e
		} else {
			unread = append(unread, i)
		}
	}
	session.InFlight(len(unread), func(n int) {
		i := unread[n]
		entries[i], errs[i] = r.entry(ctx, names[i])
	})
	complete = true
	before, seen := r.known, make(map[string]int64, len(names))
	if r.watching {
		r.known = make(map[string]*entry, len(names))
	}
	for i, name := range names {
		switch err := errs[i]; {
		case errors.Is(err, zk.ErrNoNode):
			complete = false
			continue
		case err != nil:
			return nil, false, err
		}
		e := entries[i]
		old := before[name]
		isNew := old != e
		complete = complete && (!isNew || e.Czxid <= pzxid || e.Czxid == r.seen[name])
		seen[name] = e.Czxid
		if r.watching {
			r.known[name] = e
		}
		if r.arrived != nil && (old == nil || old.watch != e.watch) {
			r.arrived(e)
		}
	}
	r.seen = seen
	return entries, complete, nil
}

// entry reads one member.
func (r *reader) entry(ctx context.Context, name string) (*entry, error) {
	path := r.group.child(name)
	var data []byte
	var stat zk.Stat
	var w *session.Watch
	var err error
	if r.watching {
		data, stat, w, err = r.session.GetW(ctx, path)
	} else {
		data, stat, err = r.session.Get(ctx, path)
	}
	if err != nil {
		return nil, err
	}
	m := Member{
		ID: r.group.layout.id(name, data), Path: path, Czxid: stat.Czxid, Session: stat.EphemeralOwner,
		Since: time.UnixMilli(stat.Ctime),
	}
	if r.payloads || !r.watching {
		m.Data = data
	}
	return &entry{Member: m, watch: w, read: time.Now()}, nil
}

// memberChanged reports whether a member may have changed since it was read.
func (r *reader) memberChanged() bool {
	for _, e := range r.known {
		if e.watch.HasFired() {
			return true
		}
	}
	return false
}

// doubt makes the next read reread some members, because a server may have lost an event. It picks those whose last
// read is the oldest, so that in time each is reread.
func (r *reader) doubt() {
	entries := slices.SortedFunc(maps.Values(r.known), func(a, b *entry) int { return a.read.Compare(b.read) })
	for _, e := range entries[:min(len(entries), session.MostInFlight)] {
		e.doubtful = true
	}
}
