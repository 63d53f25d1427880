package session

import (
	"context"
	"sync"

	"github.com/go-zookeeper/zk"
)

// Watch fires once, at the first change after the read that it came with, or without a change when the connection was
// away in the meantime: whoever waits for it reads again and decides by what it reads.
//
// Watches are shared: within a session there is at most one per path and kind, whatever number of callers wait for it,
// and one that nobody waits for any more is kept for the next, since the library cannot remove it from the server.
type Watch struct{ fired chan struct{} }

// Fired is closed when the watch has fired. That of no watch, nil, never is.
func (w *Watch) Fired() <-chan struct{} {
	if w == nil {
		return nil
	}
	return w.fired
}

// HasFired reports whether the watch has fired. Once a request of this session has been answered, a change that was
// applied before that request is known here, since the server sends the event before the answer: false then says that
// nothing had changed when the request was served.
//
// Source: the ordering guarantees of ZooKeeper's watches.
func (w *Watch) HasFired() bool {
	select {
	case <-w.Fired():
		return true
	default:
		return false
	}
}

type watchKind int

const (
	watchData     watchKind = iota // the node's data, and its deletion
	watchExist                     // the same, and its creation
	watchChildren                  // the node's children, and its deletion
)

type watchKey struct {
	kind watchKind
	path string // absolute
}

// armed is a watch that is set, or being set, on the server.
type armed struct {
	Watch
	ready chan struct{} // closed once the request that sets it has come back
	ok    bool          // valid once ready is closed
	spent bool          // fired; guarded by watches.mu
}

// watches are the shared watches of one session.
type watches struct {
	mu  sync.Mutex
	set map[watchKey]*armed
}

func (w *watches) init() { w.set = make(map[watchKey]*armed) }

// claim returns the watch under key, and whether the caller is the one to set it.
func (w *watches) claim(key watchKey) (a *armed, mine bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if a, ok := w.set[key]; ok {
		return a, false
	}
	a = &armed{Watch: Watch{make(chan struct{})}, ready: make(chan struct{})}
	w.set[key] = a
	return a, true
}

// settle says how setting the watch went.
func (w *watches) settle(key watchKey, a *armed, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a.ok = ok
	close(a.ready)
	if !ok && w.set[key] == a {
		delete(w.set, key)
	}
}

func (w *watches) fire(keys ...watchKey) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, key := range keys {
		if a, ok := w.set[key]; ok {
			w.spend(key, a)
		}
	}
}

// fireAll makes everybody look and set their watches again. Called when a link has come up.
func (w *watches) fireAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, a := range w.set {
		w.spend(key, a)
	}
}

// spend is called with mu held.
func (w *watches) spend(key watchKey, a *armed) {
	if !a.spent {
		a.spent = true
		close(a.fired)
	}
	delete(w.set, key)
}

// onEvent is called by the link, which reads nothing else meanwhile: it only closes channels. A watch is in the set before
// the request that sets it is sent, so it is there when an event comes; and the event comes before any reply that was sent
// later.
func (s *session) onEvent(e zk.Event) {
	data, exist := watchKey{watchData, e.Path}, watchKey{watchExist, e.Path}
	switch e.Type {
	case zk.EventNodeCreated:
		s.watches.fire(exist)
	case zk.EventNodeDataChanged:
		s.watches.fire(data, exist)
	case zk.EventNodeChildrenChanged:
		s.watches.fire(watchKey{watchChildren, e.Path})
	case zk.EventNodeDeleted:
		s.watches.fire(data, exist, watchKey{watchChildren, e.Path})
	case zk.EventSession, zk.EventNotWatching: // of the library's own making
	}
}

// watched reads with a watch. The first caller for a key sets the watch with its read; the others read once it is
// set, so that the watch they share is older than what they have read.
func watched[T any](ctx context.Context, s *Session, op, path string, kind watchKind,
	requested func(path string, watch bool, done func(T, error)) request,
) (T, *Watch, error) {
	key := watchKey{kind, s.abs(path)}
	for {
		a, mine := s.watches.claim(key)
		if mine {
			c := newCall[T](op, path, readOnly)
			err := launch(ctx, s, c, nil, requested(path, true, func(v T, err error) {
				s.watches.settle(key, a, err == nil)
				c.end(v, err)
			}))
			if err != nil { // nothing was sent
				s.watches.settle(key, a, false)
				var none T
				return none, nil, err
			}
			v, err := finish(ctx, s, c)
			switch {
			case err == nil:
				return v, &a.Watch, nil
			case !retryRead(err) || sleep(ctx, retryPause) != nil:
				return v, nil, err
			}
			continue
		}
		select {
		case <-a.ready:
		case <-ctx.Done():
		case <-s.Done():
		}
		v, err := ask(ctx, s, op, path, readOnly, nil, func(done func(T, error)) request { return requested(path, false, done) })
		if err != nil {
			return v, nil, err
		}
		if s.watches.usable(a) {
			return v, &a.Watch, nil
		}
	}
}

// usable says whether a was set; if it has fired since, the caller will see that.
func (w *watches) usable(a *armed) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return a.ok
}
