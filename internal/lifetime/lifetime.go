// Package lifetime implements the life of one ZooKeeper session: its connections, its proof, loss notifications, and
// its end. On its own it sends only the credentials, the requests that the proof and the end need, and a barrier on a
// new connection if a waiter was granted by an event (LeanOnEvent). All others come from the packages above.
//
// These limits apply, where T is the session timeout: for the holds and their syncs, the least ever negotiated;
// elsewhere, the newest.
//
//   - Attempts to connect: T/6 each, but at least 1 s (Ensemble.ConnectTimeout); up to 2T/3 after rounds in which all
//     servers accepted the connection and did not answer (Ensemble.attemptLimit).
//   - A pause between rounds: 50 ms, which grows up to the lesser of T/6 and 5 s, and half of that while there are
//     holds; none after a connection that lasted a second (Pacer).
//   - A ping: T/3 after sending the latest ping, sync or write that was answered (link).
//   - The end of a silent connection: 2T/3 after the last reply, event or part of a long reply (link).
//   - The end of a connection on which a request is unanswered and only events arrive: T/2 after the request was sent,
//     or 2T/3 after the last reply or the last event before the request, whichever is later (link).
//   - The end of a connection that does not answer a sync, while holds or acquisitions retain the session: T/4 after
//     the sync was sent, or after the latest part of a long reply (liveness.Step.Drop).
//   - The end of the holds: ValidUntil, computed from the answers (liveness.Proof).
//   - The end of the session, unless a server reports it earlier: T after the latest answered request was sent, or
//     after part of a long reply arrived (liveness.Step.Silent).
//
// Answers become proof and losses are delivered in loss.go, heartbeat.go does what is due, and expiring.go gives
// warnings. An event passes from link.Connection.read through linkOwner.Event to Listener.Event, the onEvent of
// package session, which fires Watches and adds to Feeds.
package lifetime

import (
	"context"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/link"
	"github.com/zkrecipes/zkrecipes/internal/liveness"
)

// Client is the part of a client that its sessions use. Its lock may be taken while the lifetime holds its own.
type Client interface {
	// Start runs f with ctx on a goroutine that the client waits for when it is closed. It reports false once it is
	// closed.
	Start(ctx context.Context, f func(context.Context)) bool
	// Servers yields each server once, in the order to try them, until ctx is done.
	Servers(ctx context.Context) iter.Seq[Server]
	// Failed records why a server did not give us the session.
	Failed(server string, err error)
	// Up records that the session is connected, and Down that it no longer is. Both are called with the lifetime's lock
	// held. The functions they return log the change, and are called without the lock.
	Up(Report) (log func())
	Down(Report) (log func())
	// Ended records that the session has ended. The next one may open once Done is closed, which happens after this
	// call.
	Ended(why *zkrecipes.LostError, last Report)
	// WhyDisconnected returns why the client is not connected, or nil if it is. It may be called with or without the
	// lifetime's lock held.
	WhyDisconnected() error
}

// Listener receives what a session learns that does not affect its own life.
type Listener interface {
	// Up and Down report that a connection is up and that it is gone. They are called with the lifetime's lock held, so
	// that they precede everything received later. lastContact is when the latest request that had been answered was
	// sent.
	Up()
	Down(lastContact time.Time)
	// Event is called on the goroutine that reads from the connection.
	Event(zk.Event)
	// Over reports that the session has ended, once Done is closed.
	Over()
	// Closing reports that the session has ended here and is about to be closed on the server. Closing may send
	// requests with ask, and calls the then function once they have been answered, or can no longer be. ask reports
	// false if the connection is gone. Closing must not block.
	Closing(ask func(...Request) bool, then func())
}

// Lifetime is one ZooKeeper session: it connects to one server after another, keeps the proof fresh, and ends for good.
type Lifetime struct {
	client   Client
	listener Listener
	ensemble *Ensemble
	opts     *Config
	pauses   *Pacer
	ctx      context.Context // ends with the session
	stop     context.CancelFunc
	zxid     atomic.Int64  // the latest one seen, here or in an earlier session
	xids     atomic.Uint32 // the number of requests sent, from which xids are made
	leans    atomic.Bool   // see LeanOnEvent; set with mu held, cleared without

	wake chan struct{} // wakes the heartbeat; holds one

	mu            sync.Mutex
	id            int64 // 0 until the first connect answer
	password      []byte
	upkeep        liveness.Upkeep
	connection    *link.Connection // the latest; nil before the first
	arrived       time.Time        // when the latest part of a long reply arrived on an earlier one
	up            chan struct{}    // closed while connected
	down          chan struct{}    // closed while not connected
	contactBefore time.Time        // the value of LastContact when down was last closed
	since         time.Time        // when the session was first up
	lost          *zkrecipes.LostError
	delivering    int // losses whose callbacks are running
	callbacks     map[*lossCallback]struct{}
	answer        Answer
	// The connection on which a request of Freshen is unanswered; nil if there is none.
	freshening *link.Connection
	// The connection on which a barrier was sent and not refused; nil if there is none.
	provingOn     *link.Connection
	nextHeartbeat time.Time // when the next step is planned

	done chan struct{}
}

// New returns a session that Run connects. zxid is the latest one seen in the previous session.
func New(ctx context.Context, client Client, listener Listener, ensemble *Ensemble, zxid int64) *Lifetime {
	l := &Lifetime{
		client:    client,
		listener:  listener,
		ensemble:  ensemble,
		opts:      ensemble.opts,
		upkeep:    liveness.New(ensemble.opts.Terms),
		wake:      make(chan struct{}, 1),
		up:        make(chan struct{}),
		down:      make(chan struct{}),
		callbacks: make(map[*lossCallback]struct{}),
		done:      make(chan struct{}),
	}
	l.pauses = NewPacer(l.newBackOff)
	close(l.down)
	l.zxid.Store(zxid)
	l.ctx, l.stop = context.WithCancel(ctx)
	return l
}

// ID returns the id that the server has given to the session.
func (l *Lifetime) ID() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.id
}

// Timeout returns the negotiated session timeout: the one the server granted, which is not always the requested one.
func (l *Lifetime) Timeout() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.upkeep.Timeout()
}

// ValidUntil returns the time up to which the session is proven to be alive: until then no server has removed its
// ephemeral nodes. It advances while servers answer. It moves back while a server may be resuming the session with a
// shorter timeout, and stays back if one has granted another timeout: from then on a shorter timeout is used instead,
// and a longer one increases the margin. Once the session has ended, it is no later than the time of the loss. The
// documentation of package conn explains what it depends on and does not cover.
func (l *Lifetime) ValidUntil() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	// The time of the loss counts only once all loss callbacks have returned: a caller that checks earlier would
	// mistake it for a deadline that has passed.
	until := l.upkeep.ValidUntil()
	if l.isOver() && l.lost.At.Before(until) {
		return l.lost.At
	}
	return until
}

// Done returns a channel that is closed when the session and all its holds have ended, and the removal of their nodes
// has begun.
func (l *Lifetime) Done() <-chan struct{} { return l.done }

// Err returns nil while the session is alive, and afterwards a [*zkrecipes.LostError].
func (l *Lifetime) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost == nil {
		return nil
	}
	return l.lost
}

// Go runs f on a goroutine that the session owns: ctx is canceled when the session ends, and Close waits for f. Once
// the client is closed, it does not run f and reports false.
func (l *Lifetime) Go(f func(ctx context.Context)) bool {
	return l.client.Start(l.ctx, f)
}

// Drop closes the connection of a session that has ended, whether or not the server has confirmed the end.
func (l *Lifetime) Drop() {
	l.mu.Lock()
	c := l.connection
	l.mu.Unlock()
	if c != nil {
		c.Drop()
	}
}

// Live reports whether the session has come up and has not ended.
func (l *Lifetime) Live() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost == nil && !l.since.IsZero()
}

// Context returns a context that is canceled when the session ends.
func (l *Lifetime) Context() context.Context { return l.ctx }

// Ending reports whether the session is ending or has ended.
func (l *Lifetime) Ending() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost != nil
}

// Lived returns how long the session has been usable, or 0 if it never was.
func (l *Lifetime) Lived() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.since.IsZero() {
		return 0
	}
	return time.Since(l.since)
}
