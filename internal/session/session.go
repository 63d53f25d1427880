// Package session implements the requests, watches and feeds of one ZooKeeper session. Its connections, proof and end
// are in package lifetime, which it embeds.
package session

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/lifetime"
	"github.com/zkrecipes/zkrecipes/internal/link"
	"github.com/zkrecipes/zkrecipes/internal/paths"
	"github.com/zkrecipes/zkrecipes/internal/tally"
)

// Client is the part of a client that its sessions use.
type Client interface {
	lifetime.Client
	// Root returns the root of the paths below a chroot.
	Root(at paths.Chroot) zkrecipes.Root
}

// Session is one ZooKeeper session. Once it has ended, it never comes back. An operation issued on it runs in it or
// fails; nothing that belongs to it ever runs in a later session. A Session is safe for concurrent use, and its paths
// are those of the client it came from.
//
// It ends with the first of these events: the server reports that it has expired; nothing was answered for a whole
// timeout; all servers reject the credentials; it was resumed with a timeout so long that it can no longer be proven;
// the client is closed.
type Session struct {
	*session
	paths.Chroot
}

// session is what the Sessions of one ZooKeeper session share. They differ only in their chroot.
type session struct {
	*lifetime.Lifetime
	client     Client
	ensemble   *Ensemble
	opts       *Config
	watches    watches
	ephemerals *tally.Tally
	slots      slots // nil if unbounded
	unused     unused
	awaiting   atomic.Int64 // callers that wait for an event
}

// New returns a session that Run connects, whose paths are those of the server. zxid is the latest one seen in the
// previous session.
func New(ctx context.Context, client Client, ensemble *Ensemble, zxid int64) *Session {
	s := &session{client: client, ensemble: ensemble, opts: ensemble.opts}
	if most := s.opts.MaxInFlight; most > 0 {
		s.slots = make(slots, most)
	}
	s.watches.init()
	s.ephemerals = tally.New(s.opts.MaxRequest+belowJuteMax-1, s.opts.Log)
	s.Lifetime = lifetime.New(ctx, client, listener{s}, ensemble.Ensemble, zxid)
	return &Session{session: s}
}

// listener is a session as seen by its lifetime.
type listener struct{ *session }

// Up fires every watch, because the server does not report what happened while there was no connection.
func (l listener) Up() {
	l.watches.fireAll()
	l.tell(News{Kind: Up})
}

// Down notifies the feeds.
func (l listener) Down(lastContact time.Time) { l.tell(News{Kind: Down, LastContact: lastContact}) }

// Over fires every watch, because no event can do so anymore, and a caller that waits only for its watch would wait
// forever.
func (l listener) Over() { l.watches.fireAll() }

// Event notifies the watches and the feeds.
func (l listener) Event(e zk.Event) { l.onEvent(e) }

// Closing removes the containers that would otherwise stay forever.
func (l listener) Closing(ask func(...request) bool, then func()) { l.removeAllUnused(ask, then) }

// OpError is the error of an operation.
type OpError = zkrecipes.OpError

// What a session sends and receives.
type (
	request = lifetime.Request
	reply   = link.Reply
)

// taking returns a function for Request.Done that decodes the reply with read and passes the value to done.
func taking[T any](read func(body []byte) (T, error), done func(T, error)) func(reply, error) {
	return func(r reply, err error) {
		var v T
		if err == nil {
			v, err = read(r.Body)
		}
		done(v, err)
	}
}

// Explain adds to the cause of a context the reason the session is not connected, if it is not.
func (s *session) Explain(cause error) error { return WithReason(cause, s.client.WhyDisconnected()) }
