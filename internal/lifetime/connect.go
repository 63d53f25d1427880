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
		if l.pauses.immediate() {
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
		l.ensemble.noteCrowded()
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
	who, err := l.opts.startExchange(l.ctx, server, a.began.Add(a.limit))
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
	if l.connection != nil && l.connection.Arrived().After(l.arrived) {
		l.arrived = l.connection.Arrived()
	}
	l.connection = c
	return true
}

// HungUp reports whether err means that the other side has closed the connection.
func HungUp(err error) bool { return link.HungUp(err) }
