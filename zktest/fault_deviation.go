package zktest

import (
	"time"

	"github.com/zkrecipes/zkrecipes/zktest/internal/proto"
)

// A Deviation is a way in which another server that speaks the protocol differs from ZooKeeper. docs/compatibility.md
// describes which servers do.
type Deviation uint

// The deviations.
const (
	// HangsUpOnContainers closes the connection of a client that sends createContainer, without an answer. For a
	// server that answers, see [WithoutContainers].
	HangsUpOnContainers Deviation = 1 << iota
	// NoResumption gives every connection a session of its own. The client's earlier session ends when its timeout
	// expires.
	NoResumption
	// NoZxid answers writes with zxid 0.
	NoZxid
	// LateEvents delays each event by a tenth of a second, so that it arrives after answers that were sent later.
	LateEvents
	// LocalSync answers a sync immediately, even at a front that is behind; see [Front.Lag].
	LocalSync
	// NoMulti answers a transaction like a server that does not support transactions: it answers unimplemented and closes
	// the connection.
	NoMulti
)

// WithDeviations makes the server differ from ZooKeeper; there are no deviations by default.
func WithDeviations(list ...Deviation) Option {
	return option(func(c *config) {
		for _, d := range list {
			c.deviations |= d
		}
	})
}

func (c *config) deviates(d Deviation) bool { return c.deviations&d != 0 }

// lateness is the delay of events with LateEvents.
const lateness = 100 * time.Millisecond

// sendEvent queues an event. The caller holds Server.mu.
func (c *conn) sendEvent(fill func(*proto.Encoder)) {
	if !c.s.cfg.deviates(LateEvents) {
		c.send(fill)
		return
	}
	time.AfterFunc(lateness, func() {
		c.s.lock()
		defer c.s.unlock()
		c.send(fill)
	})
}
