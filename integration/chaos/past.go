package chaos

import (
	"sort"
	"time"

	"github.com/zkrecipes/zkrecipes/integration/chaos/txnlog"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// past is what the servers did below Root, which views are compared with.
type past struct {
	nodes   map[string][]*incarnation // by path, in the order of their creation
	multi   map[int64][]txnlog.Change // transactions with more than one change, by zxid
	txns    []stamped                 // all of them, in order
	unknown int                       // transactions that may or may not have been applied
}

// stamped is a transaction, and its time on the shared clock.
type stamped struct{ zxid, at int64 }

// incarnation is a node from its creation to its deletion.
type incarnation struct {
	path   string
	czxid  int64
	maker  int64 // session
	owner  int64 // session, of an ephemeral node
	made   int64 // on the shared clock
	writes []write

	gone     int64 // the transaction that deleted it; 0 if it exists
	goneAt   int64 // on the shared clock
	goneWith int64 // session
}

// write is a state of the data of a node. The first one is its creation.
type write struct {
	zxid, at, session int64
	data              []byte
}

// remember builds the past from a history. clock is how far the shared clock is behind the clock of the servers.
func remember(history []txnlog.Txn, clock time.Duration) *past {
	p := &past{nodes: map[string][]*incarnation{}, multi: map[int64][]txnlog.Change{}}
	for _, t := range history {
		at := t.Time*int64(time.Millisecond) - int64(clock)
		p.txns = append(p.txns, stamped{t.Zxid, at})
		if len(t.Changes) > 1 {
			p.multi[t.Zxid] = t.Changes
		}
		for _, c := range t.Changes {
			w := write{t.Zxid, at, t.Session, c.Data}
			if c.Kind == zktest.ChangeCreate {
				p.nodes[c.Path] = append(p.nodes[c.Path], &incarnation{
					path: c.Path, czxid: t.Zxid, maker: t.Session, owner: c.Owner, made: at, writes: []write{w},
				})
				continue
			}
			all := p.nodes[c.Path]
			if len(all) == 0 {
				continue // its creation is not part of the history
			}
			last := all[len(all)-1]
			if c.Kind == zktest.ChangeDelete {
				last.gone, last.goneAt, last.goneWith = t.Zxid, at, t.Session
			} else {
				last.writes = append(last.writes, w)
			}
		}
	}
	return p
}

// until returns the newest transaction up to a stamp, or 0.
func (p *past) until(at int64) int64 {
	later := sort.Search(len(p.txns), func(i int) bool { return p.txns[i].at > at })
	if later == 0 {
		return 0
	}
	return p.txns[later-1].zxid
}

// find returns an incarnation, or nil.
func (p *past) find(path string, czxid int64) *incarnation {
	if n := p.last(path, czxid); n != nil && n.czxid == czxid {
		return n
	}
	return nil
}

// at returns the incarnation that existed after a transaction, or nil.
func (p *past) at(path string, zxid int64) *incarnation {
	if n := p.last(path, zxid); n != nil && (n.gone == 0 || n.gone > zxid) {
		return n
	}
	return nil
}

// last returns the newest incarnation created up to a transaction, or nil.
func (p *past) last(path string, zxid int64) *incarnation {
	all := p.nodes[path]
	later := sort.Search(len(all), func(i int) bool { return all[i].czxid > zxid })
	if later == 0 {
		return nil
	}
	return all[later-1]
}

// write returns the index of the newest write up to a transaction, where the creation is 0.
func (n *incarnation) write(zxid int64) int {
	return sort.Search(len(n.writes), func(i int) bool { return n.writes[i].zxid > zxid }) - 1
}
