package ensemble

import (
	"maps"
	"net"
	"slices"

	"github.com/zkrecipes/zkrecipes/zktest/internal/access"
)

// Front is one address of the ensemble, with its own clients and watches.
type Front struct {
	Ensemble                  *Ensemble
	ID                        int // counts from 1
	Addr                      string
	Stopped, Isolated         bool
	Role                      Role
	lag                       *lag                 // nil while the front is up to date
	clients                   map[*Client]struct{} // until their connections have ended
	DataWatches, ChildWatches *WatchTable
}

// Role is what a front currently does.
type Role int

// The roles.
const (
	Following Role = iota // also the role of a standalone server
	Leading
	Looking // for a majority; serves nothing
	ReadingOnly
	Absent
)

// serves reports whether the front takes part in the majority.
func (r Role) serves() bool { return r == Following || r == Leading }

func newFront(e *Ensemble, id int) *Front {
	addUp := e.Traits.WatchesAddUp
	return &Front{
		Ensemble: e, ID: id, clients: map[*Client]struct{}{},
		DataWatches: newWatchTable(addUp), ChildWatches: newWatchTable(addUp),
	}
}

// Join adds a client, which leaves when its connection ends.
func (f *Front) Join(label string, remote net.Addr, l Link) *Client {
	host, _, err := net.SplitHostPort(remote.String())
	if err != nil {
		host = remote.String()
	}
	f.Ensemble.lastClient++
	c := &Client{
		ID: f.Ensemble.lastClient, Label: label, Front: f, IDs: []access.Identity{{Scheme: "ip", Name: host}}, Link: l,
		Remote: remote, Since: f.Ensemble.Now(),
	}
	f.clients[c] = struct{}{}
	return c
}

// Connected returns the clients of the front, oldest first.
func (f *Front) Connected() []*Client {
	list := slices.SortedFunc(maps.Keys(f.clients), ByID)
	return slices.DeleteFunc(list, func(c *Client) bool { return c.left })
}

// SetStopped stops the front, or starts it again.
func (f *Front) SetStopped(on bool) {
	f.Stopped = on
	f.Ensemble.elect(Link.Cut)
}

// SetIsolated cuts the front off from the others, or ends that.
func (f *Front) SetIsolated(on bool) {
	f.Isolated = on
	f.Ensemble.elect(Link.Cut)
}

// elect reassigns the role of each front after one has come or gone. The connections of a front end if its role
// changes, and those of all fronts if the leader does.
func (e *Ensemble) elect(end func(Link)) {
	var active []*Front
	for _, f := range e.Fronts {
		if !f.Stopped && !f.Isolated && e.members.votes(f) {
			active = append(active, f)
		}
	}
	var leader *Front
	if len(active) > e.members.voters()/2 {
		leader = active[len(active)-1]
		if slices.Contains(active, e.leader) {
			leader = e.leader
		}
	}
	changed := leader != e.leader
	e.leader = leader
	for _, f := range e.Fronts {
		if r := e.roleOf(f); r != f.Role || changed {
			f.become(r, end)
		}
	}
	if changed && leader != nil {
		e.nextEpoch()
		e.RenewSessions()
	}
	e.Tracker.Wake()
}

// nextEpoch starts the zxids of a new leader, whose upper half counts the leaders. A standalone server has no epochs.
func (e *Ensemble) nextEpoch() {
	if len(e.Fronts) > 1 {
		e.Zxid = (e.Zxid>>32 + 1) << 32
	}
}

func (e *Ensemble) roleOf(f *Front) Role {
	switch {
	case f.Stopped:
		return Absent
	case e.leader != nil && !f.Isolated && f == e.leader && len(e.Fronts) > 1:
		return Leading
	case e.leader != nil && !f.Isolated:
		return Following
	case e.ReadOnly:
		return ReadingOnly
	default:
		return Looking
	}
}

// become changes the role of a front, which ends its connections. The view of a front is frozen while it is not part of
// the majority, and sessions that only this front created end with that time.
func (f *Front) become(r Role, end func(Link)) {
	for c := range f.clients {
		if c.Session != nil || r == Absent {
			end(c.Link)
		}
	}
	if f.Role == ReadingOnly {
		for _, ses := range f.Ensemble.Sessions {
			if ses.Local == f {
				f.Ensemble.EndSession(ses)
			}
		}
	}
	f.Role = r
	if r.serves() {
		f.catchUp()
	} else {
		f.FallBehind()
	}
}
