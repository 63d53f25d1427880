package session

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/paths"
	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// Watch fires once, at the first change after the read that returned it. It also fires without a change when a new
// connection has come up (the loss of the old one fires nothing), when the session has ended, and when the watch is
// removed. When it fires, a waiter therefore reads again and decides by what it reads, unless SaysDeleted is
// sufficient.
//
// Watches are shared: a session has at most one for each path and kind, for any number of callers. It may therefore
// also have fired for a change that the read already shows. A caller that stops waiting either calls Unwatch, or leaves
// the watch on the server for the next one.
type Watch struct {
	fired   chan struct{}
	deleted bool // why it fired; set before fired is closed
	late    bool // the server may have set it after it fired here, see unshare; guarded by watches.mu
	key     watchKey
}

// Fired returns a channel that is closed when the watch has fired. For a nil watch it is never closed.
func (w *Watch) Fired() <-chan struct{} {
	if w == nil {
		return nil
	}
	return w.fired
}

// HasFired reports whether the watch has fired. The server sends the event of a change before the answer to any request
// that it serves after the change. After such an answer, false therefore means that nothing had changed when the
// request was served.
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

// SaysDeleted reports whether the watch has fired because the server reported that the node was deleted. It is false
// for a watch that was fired by another change, a new connection, the end of the session, or its removal.
func (w *Watch) SaysDeleted() bool { return w.HasFired() && w.deleted }

// AfterFired calls f once a watch that a read has returned has fired, which it may have already, unless the caller drops
// the watch before that. f is called by whoever fires the watch, which may hold Lifetime.mu or a lock that comes before
// it in the order of docs/design.md.
func (s *Session) AfterFired(w *Watch, f func()) {
	if !s.watches.afterFired(w, f) {
		f()
	}
}

// mostRechecks is how many calls of a session may read again per second because an event may be lost.
const mostRechecks = 200

// RecheckAfter returns how long to wait for an event before reading again what is watched, since an event may be lost:
// two to three session timeouts. If so many calls of the session wait that they would read too often, it is
// proportionally longer: 100 to 150 s for 20,000. A call that begins to wait when there are few others reads once after
// the shorter time. The time is random, so that many waiters do not all read at the same time.
func (s *Session) RecheckAfter() time.Duration {
	timeout := max(s.Timeout(), time.Duration(s.awaiting.Load())*time.Second/(2*mostRechecks))
	return 2*timeout + rand.N(timeout)
}

// Awaits counts a caller that waits for an event by itself, without AwaitChange, until it calls done.
func (s *Session) Awaits() (done func()) {
	s.awaiting.Add(1)
	return func() { s.awaiting.Add(-1) }
}

// AwaitChange waits until one of at most three changes is reported, or the limit has passed. It reports whether there
// was a change. Callers that pass RecheckAfter assume that an event was lost if there was no change.
//
// Errors: the session's own; the cause of ctx.
func (s *Session) AwaitChange(
	ctx context.Context, limit time.Duration, changes ...<-chan struct{},
) (told bool, err error) {
	var change [3]<-chan struct{}
	copy(change[:len(changes)], changes) // panics if there is a fourth, which would go unnoticed
	// As in Awaits, whose function would be allocated wherever it is not inlined.
	s.awaiting.Add(1)
	defer s.awaiting.Add(-1)
	timer := time.NewTimer(limit)
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

// sharedWatch is a watch that is set, or being set, on the server. Its fields are guarded by watches.mu, except fired
// and deleted: see Watch.
type sharedWatch struct {
	Watch
	pending int32  // callers whose read is under way and may set it
	users   int32  // callers whose read has set it, and that have not dropped it
	set     bool   // the server has it, or another watch on its path that is to be removed along with it: see leave
	then    func() // see AfterFired; may be nil
}

// watches are the shared watches of one session, and its feeds.
type watches struct {
	mu    sync.Mutex
	byKey map[watchKey]*sharedWatch
	feeds []*Feed
	kept  map[string]time.Time // by absolute path: when MayKeepWatch was last called
	next  *Watch               // see NextConnection
}

func (w *watches) init() {
	w.next = &Watch{fired: make(chan struct{})}
	w.byKey = make(map[watchKey]*sharedWatch)
	w.kept = make(map[string]time.Time)
}

// share returns the watch under key, for a caller that is about to read with it.
func (w *watches) share(key watchKey) *sharedWatch {
	w.mu.Lock()
	defer w.mu.Unlock()
	a, ok := w.byKey[key]
	if !ok {
		a = &sharedWatch{Watch: Watch{fired: make(chan struct{}), key: key}}
		w.byKey[key] = a
	}
	a.pending++
	return a
}

// unshare ends a read with the watch a, which set it if ok is true. It returns what the reader has of it, or nil, and
// reports whether to remove the watch from the server. Even if the watch has fired here meanwhile, the server may have
// set it, for a read that waited for the connection or that it served after a change or a removal. The reader then gets
// a watch of its own, which has fired, and whose drop removes the one on the server. If it got the shared watch, which
// it may have from an earlier read as well, a drop for that read would remove the new one.
func (w *watches) unshare(a *sharedWatch, ok bool) (mine *Watch, remove bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a.pending--
	switch fired := w.byKey[a.key] != a; {
	case fired && ok:
		return &Watch{fired: a.fired, deleted: a.deleted, late: true, key: a.key}, false
	case fired:
		return nil, false
	case ok:
		a.set = true
		a.users++
		return &a.Watch, false
	default:
		return nil, w.removeUnused(a)
	}
}

// drop removes a caller from a watch. It reports whether to remove the watch from the server.
func (w *watches) drop(mine *Watch) (remove bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a, ok := w.byKey[mine.key]
	if !ok || &a.Watch != mine { // it has fired
		late := mine.late
		mine.late = false
		return late && w.leave(mine.key.path)
	}
	a.users--
	return w.removeUnused(a)
}

// removeUnused forgets a watch that no caller has or is about to set, and fires it for those that have dropped it,
// because no more changes will be reported. It reports true if the watch must be removed from the server: a read has
// set it, and the session has no other watch on the path. The caller holds mu.
func (w *watches) removeUnused(a *sharedWatch) (remove bool) {
	if a.users > 0 || a.pending > 0 {
		return false
	}
	w.fireOne(a.key, a, false) // whoever called AfterFired has dropped it
	return a.set && w.leave(a.key.path)
}

// leave records that the server has a watch on an absolute path that no caller needs. It reports whether to remove it
// now. If the session has other watches there, of any kind, it is removed along with the last of them, even if no read
// has set that one. The caller holds mu.
func (w *watches) leave(path string) (remove bool) {
	remove = true
	for _, key := range keysOf(path) {
		if other := w.byKey[key]; other != nil {
			other.set, remove = true, false
		}
	}
	return remove
}

// giveUp is leave for a watch that the server has set for a caller that has given up.
func (w *watches) giveUp(path string) (remove bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.leave(path)
}

// mostKept is how many watches a session keeps on the server for future calls. A session that has used many paths would
// otherwise have a watch on each of them.
const mostKept = 100

// MayKeepWatch reports whether the caller may keep a watch on the data of path for its next call. If too many are kept,
// the one requested least recently is removed, but only if that was longer ago than the session timeout.
func (s *Session) MayKeepWatch(path string) bool {
	may, idle := s.watches.keep(s.Abs(path), s.ensemble.Timeout(), s.ensemble.removesWatches())
	if idle != "" {
		s.Go(func(context.Context) { s.removeAt(idle) }) // refused only if the session ends, and its watches with it
	}
	return may
}

// keep is MayKeepWatch for an absolute path. It returns the path of the watch to remove, if any.
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
		if _, set := w.byKey[watchKey{watchData, idle}]; !set {
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

// fire fires the watches under keys. deleted means that the server has reported the deletion of their node.
func (w *watches) fire(deleted bool, keys ...watchKey) {
	var then func()
	w.mu.Lock()
	for _, key := range keys {
		if a, ok := w.byKey[key]; ok {
			then = inTurn(then, w.fireOne(key, a, deleted))
		}
	}
	w.mu.Unlock()
	if then != nil {
		then()
	}
}

// fireAll makes every waiter read again. It is called when a connection has come up, with the lock of the lifetime
// held, and when the session has ended.
func (w *watches) fireAll() {
	var then func()
	w.mu.Lock()
	for key, a := range w.byKey {
		then = inTurn(then, w.fireOne(key, a, false))
	}
	close(w.next.fired)
	w.next = &Watch{fired: make(chan struct{})}
	w.mu.Unlock()
	if then != nil {
		then()
	}
}

// NextConnection returns a watch on nothing, which, like every watch, fires when a new connection has come up. While it
// has not fired, no connection has come up since the call, so no event was lost between two connections.
func (s *Session) NextConnection() *Watch {
	s.watches.mu.Lock()
	defer s.watches.mu.Unlock()
	return s.watches.next
}

// fireOne fires a watch and removes it, and returns what to call without mu; see AfterFired. The caller holds mu.
func (w *watches) fireOne(key watchKey, a *sharedWatch, deleted bool) (then func()) {
	a.deleted = deleted
	close(a.fired) // only once, since it is removed
	delete(w.byKey, key)
	return a.then
}

// afterFired is AfterFired for a watch that has not fired; otherwise it reports false.
func (w *watches) afterFired(mine *Watch, f func()) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	a, ok := w.byKey[mine.key]
	if !ok || &a.Watch != mine {
		return false
	}
	a.then = inTurn(a.then, f)
	return true
}

// inTurn returns a function that calls both, either of which may be nil.
func inTurn(first, second func()) func() {
	switch {
	case first == nil:
		return second
	case second == nil:
		return first
	default:
		return func() { first(); second() }
	}
}

// onEvent is called on the goroutine that reads from the connection, so it never waits for a reader: a feed has no
// bound, and a watch is a channel to close. A watch is in the set before the request that sets it on the server is
// sent, so it is there when the event arrives. Replies that the server sent after the event are read after it.
func (s *session) onEvent(e zk.Event) {
	s.tell(News{Kind: Changed, Event: e.Type, Path: e.Path, LastContact: s.LastContact()})
	data, exist := watchKey{watchData, e.Path}, watchKey{watchExist, e.Path}
	switch e.Type {
	case zk.EventNodeCreated:
		s.watches.fire(false, exist)
	case zk.EventNodeDataChanged:
		s.watches.fire(false, data, exist)
	case zk.EventNodeChildrenChanged:
		s.watches.fire(false, watchKey{watchChildren, e.Path})
	case zk.EventNodeDeleted:
		s.ephemerals.Gone(e.Path)
		s.watches.fire(true, keysOf(e.Path)...)
	case zk.EventSession, zk.EventNotWatching: // no server sends these
	}
}

// Unwatch declares that the caller no longer waits for a watch, which may be nil. Once all callers have called it, the
// watch is removed from the server. If one does not call it, as a waiter in a queue does not, the watch stays until it
// fires.
func (s *Session) Unwatch(w *Watch) {
	if w != nil && s.watches.drop(w) {
		s.removeAt(w.key.path)
	}
}

// removeAt removes watches on an absolute path; see removable.
func (s *Session) removeAt(path string) {
	if r, some := s.removable(nil, path); some {
		s.removeWatches(r)
	}
}

// removeWatches removes watches of this connection. Even before the request is sent, no caller relies on them any more.
// A caller, or a feed, that sets its watch again before the answer arrives is then notified of a change, because the
// server may have served its read before the removal. Without a connection there is nothing to remove. If two
// connections in a row end while a removal is unanswered, the client sends no more of them, and watches that nobody
// needs stay until they fire.
func (s *Session) removeWatches(r removal) {
	if !s.ensemble.removesWatches() {
		return
	}
	lost := s.ensemble.removalsLost.Load()
	s.watches.fire(false, r.keys...)
	s.SendNow(s.Context(), nil,
		[]request{{
			Op: wire.OpRemoveWatches, Path: cmp.Or(s.Rel(r.path), r.path), // a caller below another chroot may have set it
			Frame: wire.RemoveWatchesFrame(r.path, r.kind),
			Done: func(_ reply, err error) {
				s.ensemble.judgeRemovals(lost, err)
				s.watchesRemoved(r)
			},
		}})
}

// watchesRemoved makes the callers that may have had one of the watches, and the feeds that cover the path, read again.
func (s *session) watchesRemoved(r removal) {
	s.watches.fire(false, r.keys...)
	s.tell(News{Kind: Changed, Event: r.event, Path: r.path, LastContact: s.LastContact()})
}

// Got is one of the results of [Session.GetBothW].
type Got struct {
	Data  []byte
	Stat  zk.Stat
	Watch *Watch
	Err   error
}

// GetBothW is GetW of two nodes. Both requests are sent in one write, together with what beside requests, if it is not
// nil. A request that gets no answer is repeated alone.
func (s *Session) GetBothW(ctx context.Context, first, second string, beside func()) (one, two Got) {
	if paths.Validate(first) != nil || paths.Validate(second) != nil {
		return s.got(ctx, first), s.got(ctx, second)
	}
	a := s.watches.share(watchKey{watchData, s.Abs(first)})
	b := s.watches.share(watchKey{watchData, s.Abs(second)})
	c, d := newCall[wire.Data]("get", first, repeatable), newCall[wire.Data]("get", second, repeatable)
	both := false
	sent := func() {
		if beside != nil {
			beside()
		}
		s.Send(ctx, nil, []request{s.getRequest(second, true, d.end)})
		both = true
	}
	if err := launch(ctx, s, c, sent, s.getRequest(first, true, c.end)); err != nil {
		endRead[wire.Data](s, a, nil, err)
		endRead[wire.Data](s, b, nil, err)
		return Got{Err: err}, Got{Err: err}
	}
	if !both { // the connection has just ended
		d.end(wire.Data{}, zk.ErrNoServer)
	}
	two = s.gotBy(ctx, b, d) // its answer comes last, so the caller wakes up once
	return s.gotBy(ctx, a, c), two
}

func (s *Session) got(ctx context.Context, path string) (g Got) {
	g.Data, g.Stat, g.Watch, g.Err = s.GetW(ctx, path)
	return g
}

// gotBy ends a read that was sent with the watch a.
func (s *Session) gotBy(ctx context.Context, a *sharedWatch, c *call[wire.Data]) Got {
	d, err := finish(ctx, s, c)
	watch := endRead(s, a, c, err)
	if Repeatable(err) {
		return s.got(ctx, c.path)
	}
	return Got{Data: d.Bytes, Stat: d.Stat, Watch: watch, Err: err}
}

// watched reads with a watch. Every read sets the watch on the server, which keeps one for each path and connection, so
// a watch that the server has removed without an event is set again by the next caller. A read that waits for the
// connection returns a watch that has fired, because the connection has come up since, so its caller reads once more.
//
// Source: ZooKeeper's WatchManager keeps a set of connections for each path. Since 3.8.4 and 3.9.2 (CVE-2024-23944) a
// server removes a watch, and withholds the event, if the client may no longer read the node.
func watched[T any](ctx context.Context, s *Session, op, path string, kind watchKind,
	requested func(path string, watch bool, done func(T, error)) request,
) (T, *Watch, error) {
	a := s.watches.share(watchKey{kind, s.Abs(path)})
	v, c, err := askLast(ctx, s, op, path, repeatable, nil,
		func(done func(T, error)) request { return requested(path, true, done) })
	return v, endRead(s, a, c, err), err
}

// endRead ends a read with the watch a, and returns the reader's watch, or nil if the read failed. err is its error, and
// c its last request, or nil if none was sent.
func endRead[T any](s *Session, a *sharedWatch, c *call[T], err error) *Watch {
	mine, remove := s.watches.unshare(a, err == nil)
	if remove {
		s.removeAt(a.key.path)
	}
	if err != nil && c != nil {
		removeIfSet(s, a.key.path, c)
	}
	return mine
}

// removeIfSet handles a read whose caller has given up: the server may set the watch nevertheless, for nobody. It is
// then removed, unless there is another one on the path by the time the answer arrives.
func removeIfSet[T any](s *Session, path string, c *call[T]) {
	remove := func() {
		// A reply that is too large has set the watch, too.
		if (c.err == nil || errors.Is(c.err, zkrecipes.ErrTooLarge)) && s.watches.giveUp(path) {
			s.removeAt(path)
		}
	}
	select {
	case <-c.done:
		remove()
	default:
		s.Go(func(ctx context.Context) { // refused only if the session ends, and its watches with it
			select {
			case <-c.done:
				remove()
			case <-ctx.Done():
			}
		})
	}
}
