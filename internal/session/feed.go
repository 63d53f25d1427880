package session

import (
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// Feed is a queue of what a session learns about the node at a path and all nodes below it: events, answers to the
// feed's own requests, and when a connection is lost or comes up. The news is in the order in which the server sent it.
// If an event was lost with a connection, the reader therefore learns of the lost connection before it learns of
// anything later.
//
// A feed is for a reader that watches many nodes. Such a reader needs neither a channel nor an entry for each watch,
// because it keeps track of its watches itself. The queue has no bound, so the reader must take the news promptly, and
// do anything slow elsewhere. When a connection comes up, none of the watches set before it remain.
type Feed struct {
	session *Session
	path    string
	root    string // path on the server
	needs   Needs  // guarded by watches.mu
	wake    chan struct{}

	mu    sync.Mutex
	news  []News
	taken bool // the reader has not returned from its latest Take
	down  bool // whether Down came after the latest Up
}

// NewsKind is the kind of a [News].
type NewsKind int

// The kinds of news.
const (
	Changed  NewsKind = iota // an event
	Answered                 // the answer to a request, or the error if there will be none
	Down                     // the connection is gone, and all watches with it
	Up                       // a connection is up
)

// News is one thing that a session has learned.
type News struct {
	Kind  NewsKind
	Event zk.EventType // for Changed
	Path  string       // for Changed
	// For Changed and Down: when the latest request that had been answered before was sent.
	LastContact time.Time
	Answer
}

// Answer is the answer to a request of a [Batch].
type Answer struct {
	For   any       // the value that was added with the request
	Sent  time.Time // no later than the request was sent
	Zxid  int64     // the latest that the server knew; 0 if it did not answer
	Bytes int       // size of the answer
	Data  []byte
	Stat  zk.Stat
	Names []string
	Err   error
}

// Needs returns which watches on a path the reader of a feed has, or has requested. It is called without holding a
// lock.
type Needs func(path string) (data, children bool)

// Follow returns a feed of the node at path and all nodes below it, which begins now. The caller must stop it.
func (s *Session) Follow(path string, needs Needs) *Feed {
	f := &Feed{session: s, path: path, root: s.Abs(path), needs: needs, wake: make(chan struct{}, 1)}
	s.watches.mu.Lock()
	defer s.watches.mu.Unlock()
	s.watches.feeds = append(s.watches.feeds, f)
	return f
}

// Stop ends the feed, except for answers in flight.
func (f *Feed) Stop() {
	w := &f.session.watches
	w.mu.Lock()
	defer w.mu.Unlock()
	f.needs = nil // a request may keep the feed alive for longer than its reader
	for i, other := range w.feeds {
		if other == f {
			w.feeds = append(w.feeds[:i:i], w.feeds[i+1:]...)
			return
		}
	}
}

// Room returns how many bytes of paths one call of SetWatches may take.
func (f *Feed) Room() int { return min(128<<10, f.session.opts.MaxRequest/2) }

// LastContact returns when the latest request of the session that a server has answered was sent.
func (f *Feed) LastContact() time.Time { return f.session.LastContact() }

// Wake receives a value when there is news.
func (f *Feed) Wake() <-chan struct{} { return f.wake }

// Take returns all news since the last call.
func (f *Feed) Take() []News {
	f.mu.Lock()
	defer f.mu.Unlock()
	news := f.news
	f.news, f.taken = nil, len(news) > 0
	return news
}

// Idle reports whether the reader has dealt with all news: it has taken it and called Take again since.
func (f *Feed) Idle() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.news) == 0 && !f.taken
}

// LookAgain is [Age.LookAgain] for IsDown.
func (f *Feed) LookAgain() time.Duration { return f.session.LookAgain() }

// IsDown reports whether the connection was lost after the feed began and none has come up since, or the session has
// ended, even if the reader has not taken that news yet; or whether no server has answered for the session timeout, as
// in [Age.Current].
func (f *Feed) IsDown() bool {
	if f.session.Ending() || !f.session.Hears() {
		return true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.down
}

func (f *Feed) push(n News) {
	f.mu.Lock()
	f.news = append(f.news, n)
	switch n.Kind {
	case Down:
		f.down = true
	case Up:
		f.down = false
	default:
	}
	f.mu.Unlock()
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

func (f *Feed) covers(path string) bool {
	below, ok := strings.CutPrefix(path, f.root)
	return ok && (below == "" || below[0] == '/' || f.root == "/")
}

// tell passes news on to the feeds that it concerns.
func (s *session) tell(n News) {
	s.watches.mu.Lock()
	defer s.watches.mu.Unlock()
	for _, f := range s.watches.feeds {
		switch {
		case n.Kind != Changed:
			f.push(n)
		case f.covers(n.Path):
			mine := n
			mine.Path = f.session.Rel(n.Path)
			f.push(mine)
		}
	}
}

// Batch is a list of requests that are sent together. Their answers arrive in the feed, in the same order. Each request
// takes a value that is returned with its answer.
type Batch struct {
	feed     *Feed
	sent     time.Time
	requests []request
}

// Batch returns an empty batch.
func (f *Feed) Batch() *Batch { return &Batch{feed: f, sent: time.Now()} }

// Len returns the number of requests.
func (b *Batch) Len() int { return len(b.requests) }

// Send sends the requests. Without a connection it does nothing and reports false, and there will be no answers.
func (b *Batch) Send() bool { return b.feed.session.SendNow(b.feed.session.Context(), nil, b.requests) }

// Get reads the data and Stat, and sets a watch on the data unless there is an error.
func (b *Batch) Get(path string, value any) {
	b.add("get", path, wire.OpGetData, wire.ReadFrame(wire.OpGetData, b.abs(path), true), value,
		func(r reply, a *Answer) error {
			d, err := dataOf(r)
			a.Data, a.Stat = d.Bytes, d.Stat
			return err
		})
}

// List reads the names of the children and the Stat of their parent, and sets a watch on the names unless there is an
// error.
func (b *Batch) List(path string, value any) {
	b.add("children", path, wire.OpChildren, wire.ReadFrame(wire.OpChildren, b.abs(path), true), value,
		func(r reply, a *Answer) error {
			c, err := wire.ChildrenReply(r.Body)
			a.Names, a.Stat = c.Names, c.Stat
			return err
		})
}

// Exists reads the Stat and sets a watch, even if the node does not exist.
func (b *Batch) Exists(path string, value any) {
	b.add("exists", path, wire.OpExists, wire.ReadFrame(wire.OpExists, b.abs(path), true), value,
		func(r reply, a *Answer) (err error) {
			a.Stat, err = wire.StatReply(r.Body)
			return err
		})
}

// Sync makes the server catch up with the leader before it serves later requests.
func (b *Batch) Sync(value any) {
	b.add("sync", b.feed.path, wire.OpSync, wire.SyncFrame(b.feed.root), value, nil)
}

// SetWatches sets a watch on each path: on its data, on its creation, or on its children. If there has been a change
// since the zxid, the event arrives immediately instead, before the answer.
//
// Source: ZooKeeper's DataTree.setWatches.
func (b *Batch) SetWatches(since int64, data, missing, children []string, value any) {
	for _, paths := range [][]string{data, missing, children} {
		for i, path := range paths {
			paths[i] = b.abs(path)
		}
	}
	b.add("set watches", b.feed.path, wire.OpSetWatches, wire.SetWatchesFrame(since, data, missing, children), value, nil)
}

// RemoveWatches removes all of this connection's watches on the path that no other feed needs. Other callers that may
// have had one there are then notified of a change, so that they read and set theirs again. A feed that has begun since
// is notified as well. If the server seems not to know the request, RemoveWatches does nothing.
func (b *Batch) RemoveWatches(path string, value any) {
	s, abs := b.feed.session, b.abs(path)
	r, some := s.removable(b.feed, abs)
	if !some || !s.ensemble.removesWatches() {
		return
	}
	b.add("remove watches", path, wire.OpRemoveWatches, wire.RemoveWatchesFrame(abs, r.kind), value,
		func(reply, *Answer) error {
			s.watchesRemoved(r)
			return nil
		})
	lost, last := s.ensemble.removalsLost.Load(), &b.requests[len(b.requests)-1]
	done := last.Done
	last.Done = func(r reply, err error) {
		s.ensemble.judgeRemovals(lost, err)
		done(r, err)
	}
}

// removal describes which watches on an absolute path may be removed.
type removal struct {
	path  string
	kind  int32
	event zk.EventType // the notification for those that may lose a watch through it
	keys  []watchKey
}

// removable returns watches on a path that f no longer needs, or false if another feed needs them all. Those of the
// data cannot be removed alone: if another feed needs only the children, all are removed, and that feed is notified.
func (s *session) removable(f *Feed, abs string) (removal, bool) {
	switch data, children := s.needed(f, abs); {
	case data && children:
		return removal{}, false
	case data:
		return removal{abs, wire.ChildrenWatch, zk.EventNodeChildrenChanged, []watchKey{{watchChildren, abs}}}, true
	}
	return removal{abs, wire.AnyWatch, zk.EventNodeDeleted, keysOf(abs)}, true
}

// needed reports which watches on a path the other feeds need. A reader that needs one only later is notified when it
// is gone.
func (s *session) needed(f *Feed, path string) (data, children bool) {
	s.watches.mu.Lock()
	ask := map[*Feed]Needs{}
	for _, other := range s.watches.feeds {
		if other != f && other.covers(path) {
			ask[other] = other.needs
		}
	}
	s.watches.mu.Unlock()
	for other, needs := range ask {
		d, c := needs(other.session.Rel(path))
		data, children = data || d, children || c
	}
	return data, children
}

func (b *Batch) abs(path string) string { return b.feed.session.Abs(path) }

func (b *Batch) add(op, path string, code int32, frame []byte, value any, read func(r reply, a *Answer) error) {
	f, sent := b.feed, b.sent
	b.requests = append(b.requests, request{Op: code, Path: path, Frame: frame, Done: func(r reply, err error) {
		a := Answer{For: value, Sent: sent, Zxid: r.Zxid, Bytes: len(r.Body)}
		if err == nil && read != nil {
			err = read(r, &a)
		}
		if err != nil {
			a.Err = f.session.failed(op, path, repeatable, err)
		}
		f.push(News{Kind: Answered, Answer: a})
	}})
}
