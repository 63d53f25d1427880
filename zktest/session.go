package zktest

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/zkrecipes/zkrecipes/zktest/internal/javaset"
	"github.com/zkrecipes/zkrecipes/zktest/internal/proto"
	"github.com/zkrecipes/zkrecipes/zktest/internal/tree"
)

// ephemeralBuckets is what DataTree.ephemerals begins with.
const ephemeralBuckets = 16

// session is one ZooKeeper session. It is guarded by Server.mu.
type session struct {
	id         int64
	timeout    time.Duration
	bucket     int64  // the tick at which it expires
	conn       *conn  // nil while disconnected
	local      *Front // that made it in read-only mode; nil for the others
	client     string
	closing    bool
	ephemerals *javaset.Set
}

// paths lists the session's ephemeral nodes, sorted.
func (ses *session) paths() []string { return slices.Sorted(ses.ephemerals.All()) }

// password returns the password with which a client resumes its session.
//
// Source: ZooKeeperServer.generatePasswd, which takes 16 bytes of a java.util.Random seeded with the id.
func password(id int64) []byte {
	const multiplier, mask = 0x5DEECE66D, 1<<48 - 1
	seed := uint64(id^0xB3415C00)&mask ^ multiplier
	p := make([]byte, 0, 16)
	for range 4 {
		seed = (seed*multiplier + 0xB) & mask
		word := uint32(seed >> 16)
		p = append(p, byte(word), byte(word>>8), byte(word>>16), byte(word>>24))
	}
	return p
}

// tracker expires sessions in whole ticks: a silent session expires between its timeout and one tick later. It is
// guarded by Server.mu.
//
// Source: SessionTrackerImpl, ExpiryQueue.
type tracker struct {
	tick    time.Duration
	start   time.Time
	buckets map[int64]map[*session]struct{}
	earlier chan struct{} // wakes the loop for an earlier deadline
	next    int64         // the bucket the loop waits for
}

func newTracker(tick time.Duration) *tracker {
	return &tracker{
		tick: tick, start: time.Now(), buckets: map[int64]map[*session]struct{}{},
		earlier: make(chan struct{}, 1), next: math.MaxInt64,
	}
}

func (t *tracker) now() time.Duration { return time.Since(t.start) }

// end returns when the sessions of a bucket expire.
func (t *tracker) end(bucket int64) time.Time { return t.start.Add(time.Duration(bucket) * t.tick) }

// touch gives the session its full timeout from now on.
func (t *tracker) touch(ses *session) {
	t.put(ses, int64((t.now()+ses.timeout)/t.tick)+1)
}

func (t *tracker) put(ses *session, bucket int64) {
	if ses.bucket == bucket {
		return
	}
	t.drop(ses)
	ses.bucket = bucket
	if t.buckets[bucket] == nil {
		t.buckets[bucket] = map[*session]struct{}{}
	}
	t.buckets[bucket][ses] = struct{}{}
	if bucket < t.next {
		t.next = bucket
		t.wake()
	}
}

func (t *tracker) drop(ses *session) {
	delete(t.buckets[ses.bucket], ses)
	if len(t.buckets[ses.bucket]) == 0 {
		delete(t.buckets, ses.bucket)
	}
	ses.bucket = 0
}

// due returns the sessions that have expired, by bucket and id.
func (t *tracker) due() []*session {
	current := int64(t.now() / t.tick)
	var list []*session
	for bucket, sessions := range t.buckets {
		if bucket <= current {
			for ses := range sessions {
				list = append(list, ses)
			}
		}
	}
	slices.SortFunc(list, func(a, b *session) int {
		return cmp.Or(cmp.Compare(a.bucket, b.bucket), cmp.Compare(a.id, b.id))
	})
	return list
}

// wait returns the time until the next session can expire.
func (t *tracker) wait() time.Duration {
	t.next = math.MaxInt64
	for bucket := range t.buckets {
		t.next = min(t.next, bucket)
	}
	if t.next == math.MaxInt64 {
		return time.Hour
	}
	return time.Duration(t.next)*t.tick - t.now()
}

// grace moves deadlines that passed during a freeze to the next tick, so that waiting requests are served first.
func (t *tracker) grace() {
	current := int64(t.now() / t.tick)
	for _, ses := range t.due() {
		t.put(ses, current+1)
	}
}

// expireLoop ends sessions until the server is closed.
func (s *Server) expireLoop() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		s.lock()
		if s.ticks() {
			for _, ses := range s.tracker.due() {
				s.expire(ses)
			}
		}
		wait := s.tracker.wait()
		if !s.ticks() {
			wait = time.Hour // the end of that state wakes the loop
		}
		s.unlock()
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-s.tracker.earlier:
		case <-s.done:
			return
		}
	}
}

// openSession creates a session, which takes a zxid, unless a read-only front makes it for itself.
func (s *Server) openSession(timeout time.Duration, c *conn) *session {
	s.lastSession++
	ses := &session{id: s.lastSession, timeout: timeout, client: c.label, ephemerals: javaset.New(ephemeralBuckets)}
	s.sessions[ses.id] = ses
	s.tracker.touch(ses)
	if c.front.role == readingOnly {
		ses.local = c.front
		return ses
	}
	s.record(s.begin(ses, nil), proto.OpConnect, "", proto.CodeOK)
	return ses
}

// expire ends a session as its timeout does. The connection is closed last, so that its queue gets the events.
func (s *Server) expire(ses *session) {
	s.endSession(ses)
	if ses.conn != nil {
		s.release(ses.conn, kick)
	}
}

// endSession deletes the session and its nodes in one transaction.
func (s *Server) endSession(ses *session) {
	ses.closing = true
	s.tracker.drop(ses)
	if ses.local != nil {
		delete(s.sessions, ses.id)
		return
	}
	t := s.begin(ses, nil)
	for path := range ses.ephemerals.Clone().All() {
		t.apply(tree.Change{Op: proto.OpDelete, Path: path})
	}
	delete(s.sessions, ses.id)
	s.record(t, proto.OpCloseSession, "", proto.CodeOK)
	s.ledger.sessionEnded(ses)
}

// wake makes the loop look at the deadlines again.
func (t *tracker) wake() {
	select {
	case t.earlier <- struct{}{}:
	default:
	}
}
