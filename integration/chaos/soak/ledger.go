package soak

import (
	"errors"
	"net"
	"strings"
	"sync"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/integration/chaos/resource"
)

// errStale reports that a fence has seen a larger token.
var errStale = errors.New("the token is stale")

// ledger keeps the registers that sections write. Its size does not grow with the number of sections.
type ledger struct {
	mu        sync.Mutex
	registers map[string]*fenced
	tally     Tally
}

// fenced is a register behind a fence: a number that each section increments.
type fenced struct {
	number  int
	highest zkrecipes.Token
	holder  *zkrecipes.Hold // our newest hold that has entered; nil once it has left
}

func newLedger() *ledger { return &ledger{registers: map[string]*fenced{}} }

func (l *ledger) at(name string) *fenced {
	r := l.registers[name]
	if r == nil {
		r = &fenced{}
		l.registers[name] = r
	}
	return r
}

// enter records that one of our callers is inside with its hold. If the previous hold has neither ended nor left, the
// two overlap. The previous one is checked under the mutex, so its answer is current.
func (l *ledger) enter(name string, h *zkrecipes.Hold) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.at(name)
	if h.Err() == nil && r.holder != nil && r.holder.Err() == nil {
		l.tally.Overlaps++
	}
	r.holder = h
}

// leave records that the caller is about to release.
func (l *ledger) leave(name string, h *zkrecipes.Hold) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.at(name); r.holder == h {
		r.holder = nil
	}
}

// read returns the number of a register, and presents the token to its fence.
func (l *ledger) read(name string, token zkrecipes.Token) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.at(name)
	if token < r.highest {
		l.tally.Refused++
		return 0, errStale
	}
	r.highest = token
	return r.number, nil
}

// write sets the number to base+1. If the number is not base, the write loses an update.
func (l *ledger) write(name string, token zkrecipes.Token, base int, section *int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.at(name)
	if token < r.highest {
		l.tally.Refused++
		return errStale
	}
	r.highest = token
	if r.number != base {
		l.tally.Lost++
	}
	r.number = base + 1
	*section++
	return nil
}

// serve lets processes of other libraries read and write until the listener is closed. The server of chaos/resource
// keeps everything it has seen; the ledger only counts.
func (l *ledger) serve(listener net.Listener) {
	for {
		c, err := listener.Accept()
		if err != nil {
			return // closed
		}
		go resource.Answer(c, l.execute)
	}
}

// execute answers a process of another library. Only registers whose name ends in "fenced" have a fence. Curator has no
// token, and kazoo writes a second register without a fence. What their holders lose there, because they do not check a
// deadline, is counted separately.
func (l *ledger) execute(q resource.Request) (a resource.Reply) {
	if !strings.HasSuffix(q.Set, resource.Fenced) {
		return l.bare(q)
	}
	var err error
	if q.Element == "" {
		a.Version, err = l.read(q.Set, q.Token)
	} else {
		err = l.write(q.Set, q.Token, q.Base, &l.tally.Theirs)
	}
	a.Stale = err != nil
	return a
}

func (l *ledger) bare(q resource.Request) (a resource.Reply) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.at(q.Set)
	if q.Element == "" {
		a.Version = r.number
		return a
	}
	if r.number != q.Base {
		l.tally.Unfenced++
	}
	r.number = q.Base + 1
	l.tally.Bare++
	return a
}

// sum returns the current tally.
func (l *ledger) sum() Tally {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tally
}

// count updates the tally.
func (l *ledger) count(change func(*Tally)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(&l.tally)
}
