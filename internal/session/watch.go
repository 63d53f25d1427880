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

// armed is a watch that is set, or being set, on the server. All but the channel is guarded by watches.mu.
type sharedWatch struct {
	Watch
	asking  int  // callers whose read may set it
	set     bool // a read has
	isFired bool // fired
}

// watches are the shared watches of one session.
type watches struct {
	mu  sync.Mutex
	set map[watchKey]*sharedWatch
}

func (w *watches) init() { w.set = make(map[watchKey]*sharedWatch) }

// claim returns the watch under key, for a caller that is about to read with it.
func (w *watches) share(key watchKey) *sharedWatch {
	w.mu.Lock()
	defer w.mu.Unlock()
	a, ok := w.set[key]
	if !ok {
		a = &sharedWatch{Watch: Watch{make(chan struct{})}}
		w.set[key] = a
	}
	a.asking++
	return a
}

// settle says how the read went. A watch that no read has set, and none is about to, is none.
func (w *watches) unshare(key watchKey, a *sharedWatch, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a.asking--
	a.set = a.set || ok
	if !a.set && a.asking == 0 && w.set[key] == a {
		delete(w.set, key)
	}
}

func (w *watches) fire(keys ...watchKey) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, key := range keys {
		if a, ok := w.set[key]; ok {
			w.fireOne(key, a)
		}
	}
}

// fireAll makes everybody look and set their watches again. Called when a link has come up.
func (w *watches) fireAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, a := range w.set {
		w.fireOne(key, a)
	}
}

// spend is called with mu held.
func (w *watches) fireOne(key watchKey, a *sharedWatch) {
	if !a.isFired {
		a.isFired = true
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

// watched reads with a watch. Every read sets the watch on the server, which keeps one for each path and connection. So a
// watch that the server has spent without an event is set again by the next caller.
//
// Source: WatchManager of ZooKeeper keeps a set of connections for each path. A server takes a watch away, and withholds
// the event, if the client may not read the node any more, since 3.8.4 and 3.9.2 (CVE-2024-23944).
func watched[T any](ctx context.Context, s *Session, op, path string, kind watchKind,
	requested func(path string, watch bool, done func(T, error)) request,
) (T, *Watch, error) {
	key := watchKey{kind, s.abs(path)}
	a := s.watches.share(key)
	v, err := ask(ctx, s, op, path, readOnly, nil, func(done func(T, error)) request { return requested(path, true, done) })
	s.watches.unshare(key, a, err == nil)
	if err != nil {
		return v, nil, err
	}
	return v, &a.Watch, nil
}
