package lifetime

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/link"
)

// Run connects to one server after another until the session ends.
func (l *Lifetime) Run() {
	for l.pauses.Wait(l.ctx) == nil {
		// A round counts as failed until one of its connections has lasted, so that servers that accept and hang up are not
		// dialed without a pause.
		l.pauses.Failed()
		l.tryServers()
	}
}

// tryServers tries each address of the servers once. Connections are served one after another, so nothing of an earlier
// one arrives once a later one is up. tryServers ends when a connection that has lasted is lost: the next round
// then begins immediately, and resolves the names again.
//
// Servers that are restarted one after another may know different credentials for a while, so a refusal counts only for
// one server. The session ends if all servers of a round reject the credentials. A server that cannot be reached might
// still accept them.
func (l *Lifetime) tryServers() {
	var refusal error
	unanimous, tried, unanswered := true, 0, 0
	for server := range l.client.Servers(l.ctx) {
		err := l.serve(server)
		if err != nil && !l.Ending() { // otherwise the end is the reason
			l.client.Failed(server.String(), err)
		}
		if l.pauses.none() {
			return
		}
		if tried++; errors.As(err, new(unansweredError)) {
			unanswered++
		}
		if errors.Is(err, zkrecipes.ErrAuthFailed) {
			refusal = err
		} else {
			unanimous = false
		}
	}
	if tried > 0 && unanswered == tried {
		l.ensemble.isCrowded()
	}
	if refusal != nil && unanimous {
		l.end(lost(zkrecipes.LossRefused, time.Now(), refusal))
	}
}

// serve dials a server and runs the connection until it ends. The error is the reason the server did not give us the
// session.
//
// If the server refuses something that the SASL mechanism has kept, such as a ticket, the server may have a newer key.
// The same server therefore gets one more attempt immediately: by then the mechanism has discarded what was refused.
func (l *Lifetime) serve(server Server) error {
	err := l.attempt(server, false)
	if errors.Is(err, errStale) && !l.Ending() {
		err = l.attempt(server, true)
	}
	return err
}

func (l *Lifetime) attempt(server Server, again bool) error {
	a := &attempt{server: server, began: time.Now(), limit: l.ensemble.attemptLimit()}
	err := l.connect(server, again, a)
	if err != nil && !l.Ending() { // otherwise the client gave it up
		l.traceConnect(a, err)
	}
	if err != nil && a.reached && time.Since(a.began) >= a.limit {
		return unansweredError{err}
	}
	return err
}

// unansweredError is the error of a server that accepted the connection but gave no session in time.
type unansweredError struct{ error }

func (e unansweredError) Unwrap() error { return e.error }

func (l *Lifetime) connect(server Server, again bool, a *attempt) error {
	who, err := l.startExchange(server, a.began.Add(a.limit))
	if err != nil {
		return err
	}
	if who != nil {
		who.again = again
	}
	a.dialed = true
	dial := func(ctx context.Context) (net.Conn, error) { return l.opts.Dial(ctx, server) }
	c, err := link.Dial(l.ctx, a.began, a.limit, server.String(), dial, linkOwner{l})
	if err != nil {
		return err
	}
	a.reached = true
	sent := c.Prepare(l.connectFrame())
	if !l.attach(c) {
		// Nothing was sent: a server that is reached after the end gets no session to keep.
		c.Drop()
		return nil
	}
	l.resuming(sent)
	err = c.Serve(func() error { return l.handshake(c, sent, who, a) })
	if c.Lasted() {
		l.pauses.Succeeded() // not in connectionDown: a goroutine that is late there would cut the next round short
	}
	l.settle(c)
	return err
}

// settle makes Close wait until all calls of a connection that has ended have failed, because their tracers are user
// callbacks. The next connection does not wait for that.
func (l *Lifetime) settle(c *link.Connection) {
	wait := func(context.Context) { <-c.Settled() }
	select {
	case <-c.Settled():
	default:
		if !l.client.Start(l.ctx, wait) {
			wait(l.ctx) // the client is being closed, and waits for Run
		}
	}
}

// attach makes c the session's connection. It reports false if the session has ended.
func (l *Lifetime) attach(c *link.Connection) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost != nil {
		return false
	}
	l.connection = c
	return true
}

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

// connectionUp admits operations and fires every watch, because the server does not report what happened while there
// was no connection.
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
	l.hurryBarrier()
	l.wakeHeartbeat()
	if l.since.IsZero() {
		l.since = time.Now()
	}
	// This happens with the lock held, here and in connectionDown, so that everyone learns of the two in order. A writer
	// may already find that the connection is gone. A caller that finds a live session gets a watch or a feed only after
	// this.
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

// AnsweredSent returns when the latest request was sent that a server has answered from the tree (wire.FromTree).
func (l *Lifetime) AnsweredSent() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.upkeep.AnsweredSent()
}

// AnsweredSentOn is AnsweredSent for the connection whose loss closes the given channel; zero if another one has come
// up since.
func (l *Lifetime) AnsweredSentOn(down <-chan struct{}) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.down != down:
		return time.Time{}
	case l.isUp():
		return l.upkeep.AnsweredSent()
	default:
		return l.lastAnsweredSent
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
	l.lastAnsweredSent = l.upkeep.AnsweredSent()
	close(l.down)
	l.listener.Down(l.upkeep.AnsweredSent())
	l.upkeep.SyncDone()
	if l.lost != nil {
		l.mu.Unlock()
		return
	}
	notices := l.collect(lost(zkrecipes.LossSuspended, time.Now(), nil),
		func(sub *lossCallback) bool { return sub.onSuspend })
	log := l.client.Down(l.report(c.Reason()))
	l.mu.Unlock()
	notices.deliver()
	log()
}

// HungUp reports whether err means that the other side has closed the connection.
func HungUp(err error) bool { return link.HungUp(err) }
