package session

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
)

// Session is one ZooKeeper session: alive with proof, then dead for ever. An operation issued on it runs in it or
// fails; nothing that belongs to it ever runs in the session after it. A Session is safe for concurrent use, and its
// paths are those of the client it came from.
//
// It ends at the earliest of: the server says that it has expired; nothing was answered for a whole timeout; the
// client is closed; the server refuses the credentials.
//
// Source: go-zookeeper opens another session in the same object and may run queued requests in it; so each Session
// has an object of its own, whose dialer finds no server any more when the session has ended.
type Session struct {
	*session
	prefix string
}

// session is what all views of one session share.
type session struct {
	core  *core
	pace  *pace
	ctx   context.Context // ends with the session
	stop  context.CancelFunc
	zk    *zk.Conn
	zkOK  chan struct{} // closed once zk is set: the library dials before Connect returns
	zxid  atomic.Int64  // the newest one seen
	asked atomic.Uint32 // how many requests of ours, for their xids

	wake chan struct{} // tells the keeper that something changed; holds one

	mu       sync.Mutex
	id       int64 // 0 until the first connect answer
	password []byte
	proof    proof
	link     *link         // the newest; nil before the first
	up       chan struct{} // closed while connected
	since    time.Time     // when it was first up
	lost     *zkrecipes.LostError
	telling  int // losses of which somebody is just being told
	subs     map[*lossSub]struct{}
	retained int // contenders and holds; while there are any, sync goes out every T/8
	beating  bool
	lastBeat time.Time
	nextStep time.Time // when the keeper looks again at the latest

	watches watches
	done    chan struct{}
	events  <-chan zk.Event
	bye     *farewell
}

type lossSub struct {
	onSuspend bool
	f         func(*zkrecipes.LostError)
}

func lost(reason zkrecipes.LossReason, at time.Time, err error) *zkrecipes.LostError {
	return &zkrecipes.LostError{Reason: reason, At: at, Err: err}
}

func newSession(c *core) *session {
	s := &session{
		core: c,
		pace: newPace(c.opts.NewBackOff, len(c.opts.Servers)),
		zkOK: make(chan struct{}),
		wake: make(chan struct{}, 1),
		up:   make(chan struct{}),
		subs: make(map[*lossSub]struct{}),
		done: make(chan struct{}),
		bye:  newFarewell(),
	}
	s.watches.init()
	s.ctx, s.stop = context.WithCancel(c.ctx)
	return s
}

// connect starts the library, which goes on until retire.
func (s *session) connect() error {
	c := s.core
	object, events, err := zk.Connect(c.opts.Servers, c.opts.SessionTimeout,
		zk.WithDialer(s.dial),
		zk.WithHostProvider(newHosts(c.opts.Servers)),
		zk.WithLogger(zkLog{c.opts.Log}), zk.WithLogInfo(false))
	if err != nil {
		return err
	}
	s.zk, s.events = object, events
	close(s.zkOK)
	return nil
}

// zkLog passes on what the library says.
type zkLog struct{ log *slog.Logger }

func (l zkLog) Printf(format string, args ...any) { l.log.Debug(fmt.Sprintf(format, args...)) }

// ID returns the id that the server gave to the session.
func (s *session) ID() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id
}

// Timeout returns the negotiated session timeout, which is what the server grants and not always what was asked for.
func (s *session) Timeout() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proof.timeout
}

// ValidUntil returns the time up to which the session is proven to be alive: until then no server has removed its
// ephemeral nodes. It moves on while servers answer. See the package documentation for what it rests on, and for what
// it does not cover.
func (s *session) ValidUntil() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	// Not before all have been told: whoever looks meanwhile would take it for a deadline that has passed.
	if s.over() {
		return earliest(s.proof.validUntil(), s.lost.At)
	}
	return s.proof.validUntil()
}

// Done is closed when the session has ended.
func (s *session) Done() <-chan struct{} { return s.done }

// Err is nil while the session lives; afterwards a [*zkrecipes.LostError].
func (s *session) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost == nil {
		return nil
	}
	return s.lost
}

// OnLoss arranges for f to be called once, when the session ends or its proof runs out, whichever comes first, and,
// with onSuspend, also when the connection is lost. It reports false, and f is not called, if that is so already.
// Calling stop gives up the arrangement; f may be running then.
//
// f is called on a goroutine of the connection and must not wait for anything. All of a session's functions have
// returned before the client opens the next session.
func (s *session) OnLoss(onSuspend bool, f func(*zkrecipes.LostError)) (stop func(), ok bool) {
	sub := &lossSub{onSuspend, f}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost != nil || !time.Now().Before(s.proof.validUntil()) || onSuspend && !s.isUp() {
		return nil, false
	}
	s.subs[sub] = struct{}{}
	s.hurry()
	s.nudgeBefore(s.proof.validUntil())
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.subs, sub)
	}, true
}

// Retain keeps the proof fresh until release is called: a sync every eighth of the timeout, and a connection that
// leaves one unanswered for a quarter of it is dropped, so that another server is tried in good time.
func (s *session) Retain() (release func()) {
	s.mu.Lock()
	s.retained++
	if s.retained == 1 {
		s.nudgeBefore(s.lastBeat.Add(s.proof.least / 8))
	}
	s.mu.Unlock()
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.retained--
	})
}

// Go runs f on a goroutine that the session owns: ctx ends with the session, and Close waits for f. It reports false,
// and does not run f, once the client is closed.
func (s *session) Go(f func(ctx context.Context)) bool {
	return s.core.start(func() { f(s.ctx) })
}

// attach makes l the session's link, unless the session is over.
func (s *session) attach(l *link) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost != nil {
		return false
	}
	s.link = l
	return true
}

// linkUp takes in a connect answer that gave us the session, and reports whether it is still wanted.
func (s *session) linkUp(l *link, id int64, password []byte, timeout time.Duration) bool {
	l.mu.Lock()
	sent := l.connectSent
	l.mu.Unlock()
	s.mu.Lock()
	if s.lost != nil || s.link != l {
		s.mu.Unlock()
		return false
	}
	first := s.id == 0
	if !first && s.id != id {
		s.mu.Unlock()
		s.end(lost(zkrecipes.LossExpired, time.Now(), fmt.Errorf("the server gave another session, 0x%x", id)))
		return false
	}
	s.id, s.password = id, password
	now := time.Now()
	gone := s.lapseIfDue(now)
	s.proof.connected(sent, now, timeout, s.core.opts.lag(timeout), s.core.opts.marginOf(timeout))
	s.mu.Unlock()
	gone.tell()
	if first {
		s.core.start(s.keep)
	}
	return true
}

// nowUp lets operations through, and makes every waiter look again: what happened while the link was away may never be
// told.
func (s *session) nowUp(l *link) {
	s.mu.Lock()
	if s.lost != nil || s.link != l || s.isUp() {
		s.mu.Unlock()
		return
	}
	close(s.up)
	s.hurry()
	s.nudge()
	if s.since.IsZero() {
		s.since = time.Now()
	}
	// Within the lock, here and in linkDown: the order of the states is that of the facts.
	log := s.core.transit(established, "session", fmt.Sprintf("0x%x", s.id), "timeout", s.proof.timeout)
	s.mu.Unlock()
	log()
	s.watches.fireAll()
	s.core.sessionUp()
}

// isUp is called with mu held.
func (s *session) isUp() bool {
	select {
	case <-s.up:
		return true
	default:
		return false
	}
}

// upLink returns the link if it is up, else nil, as at the end of the session.
func (s *session) upLink() *link {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost != nil || !s.isUp() {
		return nil
	}
	return s.link
}

// linkDown is called once for every link that closes.
func (s *session) linkDown(l *link) {
	if l.up.Load() && time.Since(l.born) > time.Second {
		s.pace.succeeded()
	}
	s.mu.Lock()
	if s.link != l || !s.isUp() {
		s.mu.Unlock()
		return
	}
	s.up = make(chan struct{})
	s.beating = false
	if s.lost != nil {
		s.mu.Unlock()
		return
	}
	gone := s.collect(lost(zkrecipes.LossSuspended, time.Now(), nil), func(sub *lossSub) bool { return sub.onSuspend })
	log := s.core.transit(disconnected)
	s.mu.Unlock()
	gone.tell()
	log()
}

// answered books an answer as proof. A lapse comes before what would have prevented it: the order in which a late
// answer and the clock are looked at must not decide whether a hold lives.
func (s *session) answered(sent, at time.Time, by witness) {
	s.mu.Lock()
	gone := s.lapseIfDue(at)
	s.proof.answered(sent, at, by)
	s.mu.Unlock()
	gone.tell()
}

// lapseIfDue collects everybody if the proof has run out by now. Called with mu held.
func (s *session) lapseIfDue(now time.Time) departures {
	until := s.proof.validUntil()
	if len(s.subs) == 0 || now.Before(until) {
		return departures{}
	}
	return s.collect(lost(zkrecipes.LossDeadline, until, nil), func(*lossSub) bool { return true })
}

// departures are the functions to call for one loss, once no lock is held.
type departures struct {
	session *session // nil: there is nothing to tell
	lost    *zkrecipes.LostError
	subs    []*lossSub
}

// collect takes the subs that match off the list. Called with mu held.
func (s *session) collect(why *zkrecipes.LostError, match func(*lossSub) bool) departures {
	s.telling++
	d := departures{session: s, lost: why}
	for sub := range s.subs {
		if match(sub) {
			delete(s.subs, sub)
			d.subs = append(d.subs, sub)
		}
	}
	return d
}

// tell is called once for all that was collected. Whoever is the last to have told buries the session, if it is over: its
// end may come while others are still being told of an earlier loss.
func (d departures) tell() {
	for _, sub := range d.subs {
		sub.f(d.lost)
	}
	s := d.session
	if s == nil {
		return
	}
	s.mu.Lock()
	s.telling--
	over := s.over()
	s.mu.Unlock()
	if over {
		s.core.sessionEnded(s, s.lost)
		close(s.done)
		s.stop()
	}
}

// over reports that the session is, and that everybody has been told: nobody comes onto the list any more. Called with mu
// held.
func (s *session) over() bool { return s.lost != nil && s.telling == 0 }

// end ends the session; the first reason counts. Safe side first: all holds have ended before pending operations fail or
// another session can exist.
func (s *session) end(why *zkrecipes.LostError) {
	s.mu.Lock()
	if s.lost != nil {
		s.mu.Unlock()
		return
	}
	s.lost = why
	gone := s.collect(why, func(*lossSub) bool { return true })
	s.mu.Unlock()
	gone.tell()
}

// lifetime is how long the session has been usable; 0 if it never was.
func (s *session) lifetime() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.since.IsZero() {
		return 0
	}
	return time.Since(s.since)
}
