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
	// LateEvents delays each event by a tenth of a second, so that it arrives after answers that were sent later. The
	// events of a connection keep their order.
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

// lateEvents are the events of a connection that are not due yet, oldest first. Server.mu guards them.
type lateEvents struct {
	queue []lateEvent
	stop  func() // keeps the first one from being sent
}

type lateEvent struct {
	due  time.Time
	fill func(*proto.Encoder)
}

// sendEvent queues an event. The caller holds Server.mu.
func (c *conn) sendEvent(fill func(*proto.Encoder)) {
	if !c.s.cfg.deviates(LateEvents) {
		c.send(fill)
		return
	}
	c.late.queue = append(c.late.queue, lateEvent{time.Now().Add(lateness), fill})
	if len(c.late.queue) == 1 {
		c.late.stop = c.s.after(lateness, c.sendLate)
	}
}

// sendLate sends the events that are due. The caller holds Server.mu.
func (c *conn) sendLate() {
	for len(c.late.queue) > 0 {
		first := c.late.queue[0]
		if wait := time.Until(first.due); wait > 0 {
			c.late.stop = c.s.after(wait, c.sendLate)
			return
		}
		c.send(first.fill)
		c.late.queue = c.late.queue[1:]
	}
}

// end drops the events of a connection that ends.
func (l *lateEvents) end() {
	l.queue = nil
	if l.stop != nil {
		l.stop()
	}
}
