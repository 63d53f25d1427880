package lifetime

import (
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/link"
)

// LeanOnEvent records that the caller acts on an event, and has not read since. Before ZooKeeper 3.9 an event has no
// zxid, so a server that has not applied what the event reported would resume the session. What a holder reads there
// could be older than what the previous holder wrote. Therefore, until a server has answered, the next connection
// begins with a barrier. Reads after that are at least as recent as the event, unless the server refuses the barrier.
//
// Source: ZooKeeper sends events with the zxid -1 before 3.9 (ZOOKEEPER-4655).
func (l *Lifetime) LeanOnEvent() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leans.Store(true)
}

// connectionUp sends the barrier of LeanOnEvent, if one is due, ahead of everything else. Then it admits operations,
// and the listener fires every watch (listener.Up in package session).
func (l *Lifetime) connectionUp() {
	l.mu.Lock()
	if c := l.connection; l.leans.Load() && l.lost == nil {
		l.mu.Unlock()
		l.sendOn(l.ctx, c, nil, []Request{BarrierRequest(func(error) {})})
		l.mu.Lock()
	}
	if l.lost != nil {
		l.mu.Unlock()
		return
	}
	close(l.up)
	l.down = make(chan struct{})
	l.hurryResumptionProof()
	l.wakeHeartbeat()
	if l.since.IsZero() {
		l.since = time.Now()
	}
	// This happens with the lock held, here and in connectionDown, so that everyone learns of the two in order. The
	// goroutine that writes may already have failed the connection; Down then follows. A caller that finds a live session
	// gets a watch or a feed only after this.
	l.ensemble.accepted()
	log := l.client.Up(l.report(nil))
	l.listener.Up()
	l.mu.Unlock()
	log()
}

// Disconnected returns a channel that is closed when the connection is lost. Without a connection, it is already
// closed.
func (l *Lifetime) Disconnected() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.down
}

// Connected returns a channel that is closed while there is a connection, or the session's own error if it has ended.
func (l *Lifetime) Connected() (<-chan struct{}, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost != nil {
		return nil, l.lost
	}
	return l.up, nil
}

// LastContact returns when the latest request was sent that a server has answered from the tree (wire.FromTree), or
// with the session.
func (l *Lifetime) LastContact() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.upkeep.LastContact()
}

// LastContactOn is LastContact for the connection whose loss closes the given channel; zero if another one has come
// up since.
func (l *Lifetime) LastContactOn(down <-chan struct{}) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.down != down:
		return time.Time{}
	case l.isUp():
		return l.upkeep.LastContact()
	default:
		return l.contactBefore
	}
}

// isUp reports whether the connection is up. The caller holds mu.
func (l *Lifetime) isUp() bool {
	select {
	case <-l.up:
		return true
	default:
		return false
	}
}

// upConnection returns the connection if it is up and the session has not ended, otherwise nil.
func (l *Lifetime) upConnection() *link.Connection {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost != nil || !l.isUp() {
		return nil
	}
	return l.connection
}

// connectionDown is called for every connection that closes, possibly more than once.
func (l *Lifetime) connectionDown(c *link.Connection) {
	l.mu.Lock()
	if l.connection != c || !l.isUp() {
		l.mu.Unlock()
		return
	}
	l.up = make(chan struct{})
	l.contactBefore = l.upkeep.LastContact()
	close(l.down)
	l.listener.Down(l.upkeep.LastContact())
	l.upkeep.SyncDone()
	if l.lost != nil {
		l.mu.Unlock()
		return
	}
	notices := l.collect(lost(zkrecipes.LossSuspended, time.Now(), nil),
		func(callback *lossCallback) bool { return callback.onSuspend })
	log := l.client.Down(l.report(c.Reason()))
	l.mu.Unlock()
	notices.deliver()
	log()
}
