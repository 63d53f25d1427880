package session

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// Watch fires once: at the first change after the read that it came with. It fires without a change when a new connection has come up
// (fireAll; the loss of the old one fires nothing), and when the watch is taken away. So a waiter reads again when it fires, and decides
// by what it reads, unless SaysDeleted is enough.
//
// Watches are shared: a session has at most one for each path and kind, for any number of callers. A watch without waiters
// is kept for the next caller, unless all callers have dropped it.
type Watch struct {
	fired   chan struct{}
	deleted bool // why it fired; set before fired is closed
	key     watchKey
}

// Fired is closed when the watch has fired. For a nil watch it is never closed.
func (w *Watch) Fired() <-chan struct{} {
	if w == nil {
		return nil
	}
	return w.fired
}

// HasFired reports whether the watch has fired. The server sends the event of a change before the answer to any request that
// it serves after the change. So after such an answer, false says that nothing had changed when the request was served.
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

// SaysDeleted reports whether the watch has fired because the server said that the node was deleted. It is false for a watch that
// another change fired, a new connection, or its removal.
func (w *Watch) SaysDeleted() bool { return w.HasFired() && w.deleted }

// mostRechecks is how many calls of a session read again in a second, at most, because an event may be lost.
const mostRechecks = 200

// RecheckAfter returns how long to wait for an event before what is watched is read again, since an event may be lost: two to three
// session timeouts. If so many calls of the session wait that they would read too often, it is longer, in proportion: 100 to
// 150 s for 20,000. A call that begins to wait among few reads once after the shorter time. The time is random, so that many
// waiters do not read at once.
func (s *Session) RecheckAfter() time.Duration {
	timeout := max(s.Timeout(), time.Duration(s.awaiting.Load())*time.Second/(2*mostRechecks))
	return 2*timeout + rand.N(timeout)
}

// AwaitChange waits until one of at most three changes is told, or for so long. It reports whether one was told. Callers wait for
// RecheckAfter, and then take an event for lost.
//
// Errors: the session's own; the cause of ctx.
func (s *Session) AwaitChange(ctx context.Context, within time.Duration, changes ...<-chan struct{}) (told bool, err error) {
	var change [3]<-chan struct{}
	copy(change[:len(changes)], changes) // a fourth panics: nobody would hear of it
	s.awaiting.Add(1)
	defer s.awaiting.Add(-1)
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-change[0]:
	case <-change[1]:
	case <-change[2]:
	case <-timer.C:
		return false, nil
	case <-s.Done():
		return false, s.Err()
	case <-ctx.Done():
		return false, s.Explain(context.Cause(ctx))
	}
	return true, nil
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

// sharedWatch is a watch that is set, or being set, on the server. All fields but the channel are guarded by watches.mu.
type sharedWatch struct {
	Watch
	setting int  // callers whose read may set it
	set     bool // a read has
	users   int  // callers whose read has, and that have not dropped it
}

// watches are the shared watches of one session, and its feeds.
type watches struct {
	mu    sync.Mutex
	set   map[watchKey]*sharedWatch
	feeds []*Feed
	kept  map[string]time.Time // by absolute path: when KeepWatch was asked last
	next  *Watch               // see NextConnection
}

func (w *watches) init() {
	w.next = &Watch{fired: make(chan struct{})}
	w.set = make(map[watchKey]*sharedWatch)
	w.kept = make(map[string]time.Time)
}

// share returns the watch under key, for a caller that is about to read with it.
func (w *watches) share(key watchKey) *sharedWatch {
	w.mu.Lock()
	defer w.mu.Unlock()
	a, ok := w.set[key]
	if !ok {
		a = &sharedWatch{Watch: Watch{fired: make(chan struct{}), key: key}}
		w.set[key] = a
	}
	a.setting++
	return a
}

// unshare notes whether the read set the watch. A watch that no read has set, and that no caller is about to set, is removed.
func (w *watches) unshare(key watchKey, a *sharedWatch, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a.setting--
	a.set = a.set || ok
	if ok {
		a.users++
	}
	if !a.set && a.setting == 0 && w.set[key] == a {
		delete(w.set, key)
	}
}

// drop takes a caller off a watch. It reports whether the watch is to be removed from the server: no caller is left, and the
// session has no other watch there. For its callers the watch has fired, because nothing will tell of a change.
func (w *watches) drop(mine *Watch) (remove bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a, ok := w.set[mine.key]
	if !ok || &a.Watch != mine {
		return false // it has fired
	}
	a.users--
	if a.users > 0 || a.setting > 0 {
		return false
	}
	w.fireOne(mine.key, a, false)
	return !slices.ContainsFunc(keysOf(mine.key.path), func(key watchKey) bool { return w.set[key] != nil })
}

// mostKept is how many watches a session keeps on the server for calls that may come. A session that has used many paths would
// otherwise have a watch on each of them.
const mostKept = 100

// KeepWatch reports whether the caller may keep a watch on the data of path for its next call. If there is no room, the watch that
// no caller has asked for longest is taken away, but only if that is longer than the session timeout.
func (s *Session) KeepWatch(path string) bool {
	may, idle := s.watches.keep(s.Abs(path), s.ensemble.Timeout(), s.ensemble.removalsLost.Load() <= 1)
	if idle != "" {
		s.Go(func(context.Context) { // refused only if the session ends, and its watches with it
			if r, some := s.removable(nil, idle); some {
				s.removeWatches(r)
			}
		})
	}
	return may
}

// keep is KeepWatch for an absolute path. It returns the path of the watch that is to be taken away, if any.
func (w *watches) keep(path string, timeout time.Duration, mayRemove bool) (may bool, idle string) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.kept[path]; !ok && len(w.kept) >= mostKept {
		for other, asked := range w.kept {
			if idle == "" || asked.Before(w.kept[idle]) {
				idle = other
			}
		}
		if now.Sub(w.kept[idle]) <= timeout || !mayRemove {
			return false, ""
		}
		delete(w.kept, idle)
		if _, set := w.set[watchKey{watchData, idle}]; !set {
			idle = ""
		}
	}
	w.kept[path] = now
	return true, idle
}

// keysOf returns all keys of a path.
func keysOf(path string) []watchKey {
	return []watchKey{{watchData, path}, {watchExist, path}, {watchChildren, path}}
}

// fire fires the watches under keys. Deleted says that the server has told of the deletion of their node.
func (w *watches) fire(deleted bool, keys ...watchKey) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, key := range keys {
		if a, ok := w.set[key]; ok {
			w.fireOne(key, a, deleted)
		}
	}
}

// fireAll makes every waiter read again. Called when a connection has come up, with the lock of the lifetime held.
func (w *watches) fireAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, a := range w.set {
		w.fireOne(key, a, false)
	}
	close(w.next.fired)
	w.next = &Watch{fired: make(chan struct{})}
}

// NextConnection returns a watch on nothing, which fires when a new connection has come up, like every other. While it has not fired,
// what was read since the call is as good as if it were watched up to the last connection loss.
func (s *Session) NextConnection() *Watch {
	s.watches.mu.Lock()
	defer s.watches.mu.Unlock()
	return s.watches.next
}

// fireOne fires a watch and removes it. Called with mu held.
func (w *watches) fireOne(key watchKey, a *sharedWatch, deleted bool) {
	a.deleted = deleted
	close(a.fired) // once, since it leaves the set
	delete(w.set, key)
}

// onEvent is called on the goroutine that reads from the connection, so it only closes channels. A watch is in the set before
// the request is sent that sets it on the server, so it is there when the event comes. Replies that the server sent after
// the event are read after it.
func (s *session) onEvent(e zk.Event) {
	s.tell(News{Kind: Changed, Event: e.Type, Path: e.Path, Heard: s.Heard()})
	data, exist := watchKey{watchData, e.Path}, watchKey{watchExist, e.Path}
	switch e.Type {
	case zk.EventNodeCreated:
		s.watches.fire(false, exist)
	case zk.EventNodeDataChanged:
		s.watches.fire(false, data, exist)
	case zk.EventNodeChildrenChanged:
		s.watches.fire(false, watchKey{watchChildren, e.Path})
	case zk.EventNodeDeleted:
		s.ephemerals.gone(e.Path)
		s.watches.fire(true, keysOf(e.Path)...)
	case zk.EventSession, zk.EventNotWatching: // no server sends them
	}
}

// Unwatch says that the caller waits for a watch no more; nil is none. When all callers have said so, the watch is removed from
// the server. A caller that never does is no mistake: its watch stays until it fires.
func (s *Session) Unwatch(w *Watch) {
	if w == nil || !s.watches.drop(w) {
		return
	}
	if r, some := s.removable(nil, w.key.path); some {
		s.removeWatches(r)
	}
}

// removeWatches removes watches of this connection. No caller trusts them from before the request leaves. A caller, or a feed, that
// sets its watch again meanwhile is told of a change when the answer comes, because the server may have served its read before.
// Without a connection there is nothing to remove.
func (s *session) removeWatches(r removal) {
	if s.ensemble.removalsLost.Load() > 1 {
		return
	}
	s.watches.fire(false, r.keys...)
	s.SendNow(s.Context(), nil, []request{{Op: wire.OpRemoveWatches, Path: r.path, Frame: wire.RemoveWatchesFrame(r.path, r.kind), Done: func(_ reply, err error) {
		if errors.Is(err, zk.ErrConnectionClosed) {
			s.ensemble.removalsLost.Add(1)
		} else {
			s.ensemble.removalsLost.Store(0)
		}
		s.watchesRemoved(r)
	}}})
}

// watchesRemoved makes the callers read again that may have had one of the watches, and the feeds that cover the path.
func (s *session) watchesRemoved(r removal) {
	s.watches.fire(false, r.keys...)
	s.tell(News{Kind: Changed, Event: r.event, Path: r.path, Heard: s.Heard()})
}

// watched reads with a watch. Every read sets the watch on the server, which keeps one for each path and connection. So a
// watch that the server has removed without an event is set again by the next caller.
//
// Source: WatchManager of ZooKeeper keeps a set of connections for each path. A server takes a watch away, and withholds
// the event, if the client may not read the node any more, since 3.8.4 and 3.9.2 (CVE-2024-23944).
func watched[T any](ctx context.Context, s *Session, op, path string, kind watchKind,
	requested func(path string, watch bool, done func(T, error)) request,
) (T, *Watch, error) {
	key := watchKey{kind, s.Abs(path)}
	a := s.watches.share(key)
	v, err := ask(ctx, s, op, path, reading, nil, func(done func(T, error)) request { return requested(path, true, done) })
	s.watches.unshare(key, a, err == nil)
	if err != nil {
		return v, nil, err
	}
	return v, &a.Watch, nil
}
