package ensemble

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/zkrecipes/zkrecipes/zktest/internal/javaset"
	"github.com/zkrecipes/zkrecipes/zktest/internal/proto"
	"github.com/zkrecipes/zkrecipes/zktest/internal/tree"
)

// ephemeralBuckets is the initial number of buckets in DataTree.ephemerals.
const ephemeralBuckets = 16

// Session is one ZooKeeper session.
type Session struct {
	ID         int64
	Timeout    time.Duration // granted last
	created    time.Duration // the timeout in the transaction that created it
	Bucket     int64         // the tick at which it expires
	Client     *Client       // nil while disconnected
	Local      *Front        // the front that created it in read-only mode; otherwise nil
	Label      string        // of the last connection
	Closing    bool
	Ephemerals *javaset.Set
}

// Paths returns the session's ephemeral nodes, sorted.
func (ses *Session) Paths() []string { return slices.Sorted(ses.Ephemerals.All()) }

// Password returns what a client must present to resume the session.
func (ses *Session) Password() []byte { return password(ses.ID) }

// password computes the password of a session.
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

// Tracker expires sessions in whole ticks: a silent session expires between its timeout and one tick later.
//
// Source: SessionTrackerImpl, ExpiryQueue.
type Tracker struct {
	tick    time.Duration
	clock   func() time.Time
	start   time.Time
	Buckets map[int64]map[*Session]struct{}
	Woken   chan struct{} // wakes the loop for an earlier deadline
	next    int64         // the bucket the loop waits for
}

func newTracker(tick time.Duration, clock func() time.Time) *Tracker {
	return &Tracker{
		tick: tick, clock: clock, start: clock(), Buckets: map[int64]map[*Session]struct{}{},
		Woken: make(chan struct{}, 1), next: math.MaxInt64,
	}
}

// Uptime returns the time since the start.
func (t *Tracker) Uptime() time.Duration { return t.clock().Sub(t.start) }

// End returns when the sessions of a bucket expire.
func (t *Tracker) End(bucket int64) time.Time { return t.start.Add(time.Duration(bucket) * t.tick) }

// Touch restarts the session's full timeout.
func (t *Tracker) Touch(ses *Session) {
	t.put(ses, int64((t.Uptime()+ses.Timeout)/t.tick)+1)
}

func (t *Tracker) put(ses *Session, bucket int64) {
	if ses.Bucket == bucket {
		return
	}
	t.drop(ses)
	ses.Bucket = bucket
	if t.Buckets[bucket] == nil {
		t.Buckets[bucket] = map[*Session]struct{}{}
	}
	t.Buckets[bucket][ses] = struct{}{}
	if bucket < t.next {
		t.next = bucket
		t.Wake()
	}
}

func (t *Tracker) drop(ses *Session) {
	delete(t.Buckets[ses.Bucket], ses)
	if len(t.Buckets[ses.Bucket]) == 0 {
		delete(t.Buckets, ses.Bucket)
	}
	ses.Bucket = 0
}

// due returns the sessions that have expired, by bucket and id.
func (t *Tracker) due() []*Session {
	current := int64(t.Uptime() / t.tick)
	var list []*Session
	for bucket, sessions := range t.Buckets {
		if bucket <= current {
			for ses := range sessions {
				list = append(list, ses)
			}
		}
	}
	slices.SortFunc(list, func(a, b *Session) int {
		return cmp.Or(cmp.Compare(a.Bucket, b.Bucket), cmp.Compare(a.ID, b.ID))
	})
	return list
}

// wait returns the time until the next session can expire.
func (t *Tracker) wait() time.Duration {
	t.next = math.MaxInt64
	for bucket := range t.Buckets {
		t.next = min(t.next, bucket)
	}
	if t.next == math.MaxInt64 {
		return time.Hour
	}
	return time.Duration(t.next)*t.tick - t.Uptime()
}

// Grace moves deadlines that passed during a freeze to the next tick, so that waiting requests are served first.
func (t *Tracker) Grace() {
	current := int64(t.Uptime() / t.tick)
	for _, ses := range t.due() {
		t.put(ses, current+1)
	}
}

// Wake makes the loop check the deadlines again.
func (t *Tracker) Wake() {
	select {
	case t.Woken <- struct{}{}:
	default:
	}
}

// Tick expires the sessions that are due. It returns the time until it must be called again, unless the tracker's
// channel asks for an earlier call.
func (e *Ensemble) Tick() (wait time.Duration) {
	if e.Ticks() {
		for _, ses := range e.Tracker.due() {
			e.Expire(ses)
		}
	}
	wait = e.Tracker.wait()
	if !e.Ticks() {
		wait = time.Hour // the end of that state wakes the tracker
	}
	return wait
}

// Attach returns the session for a handshake, or nil if there is none. It ends an earlier connection of the session. At
// the same front it does so before it checks the password, so a wrong password ends a healthy connection.
//
// Source: ZooKeeperServer.processConnectRequest.
func (e *Ensemble) Attach(c *Client, id int64, passwd []byte, timeout time.Duration) *Session {
	var ses *Session
	if id == 0 {
		ses = e.open(timeout, c)
	} else {
		ses = e.Sessions[id]
		if ses == nil || ses.Local != nil && ses.Local != c.Front { // only its own front knows it
			return nil
		}
		proven := bytes.Equal(passwd, password(id))
		if ses.Client != nil && (proven || ses.Client.Front == c.Front) {
			ses.Client.Link.Kick()
		}
		if !proven {
			return nil
		}
		ses.Timeout = timeout
		e.Tracker.Touch(ses)
	}
	if ses.Client != nil {
		e.violate("session %#x has two live connections", uint64(ses.ID))
	}
	ses.Client, ses.Label, c.Session = c, c.Label, ses
	return ses
}

// open creates a session, which takes a zxid unless a read-only front creates it for itself.
func (e *Ensemble) open(timeout time.Duration, c *Client) *Session {
	e.lastSession++
	ses := &Session{
		ID: e.lastSession, Timeout: timeout, created: timeout, Label: c.Label, Ephemerals: javaset.New(ephemeralBuckets),
	}
	e.Sessions[ses.ID] = ses
	e.Tracker.Touch(ses)
	if c.Front.Role == ReadingOnly {
		ses.Local = c.Front
		return ses
	}
	e.Record(e.Begin(ses, nil), proto.OpConnect, "", proto.CodeOK)
	return ses
}

// Expire ends a session as its timeout does. The connection ends last, so that its queue gets the events.
func (e *Ensemble) Expire(ses *Session) {
	e.EndSession(ses)
	if ses.Client != nil {
		ses.Client.Link.Kick()
	}
}

// EndSession deletes the session, and its nodes in one transaction. The end of a local session, which cannot have any,
// takes none.
func (e *Ensemble) EndSession(ses *Session) {
	ses.Closing = true
	e.Tracker.drop(ses)
	if ses.Local == nil {
		e.deleteNodes(ses)
	}
	delete(e.Sessions, ses.ID)
	e.ledger.sessionEnded(ses)
}

func (e *Ensemble) deleteNodes(ses *Session) {
	e.judgeEnd(ses)
	t := e.Begin(ses, nil)
	for path := range ses.Ephemerals.Clone().All() {
		t.Apply(tree.Change{Op: proto.OpDelete, Path: path})
	}
	e.Record(t, proto.OpCloseSession, "", proto.CodeOK)
}

// judgeEnd reports an end that real servers write but cannot read: the paths of all ephemeral nodes, each with its
// length, in one transaction with a header, a count and a digest. Such servers terminate, and do not start again.
//
// Source: CloseSessionTxn, since ZooKeeper 3.6; BinaryInputArchive.checkLength; ZOOKEEPER-4306.
func (e *Ensemble) judgeEnd(ses *Session) {
	bytes := 32 + 4 + 12
	for path := range ses.Ephemerals.All() {
		bytes += 4 + len(path)
	}
	if most := min(2*int64(e.MaxBuffer), math.MaxInt32); int64(bytes) > most {
		e.violate("the end of session %#x, with %d ephemeral nodes, is a transaction of %d bytes: servers read at most %d "+
			"(2 × jute.maxbuffer), and "+
			"none would start again", ses.ID, ses.Ephemerals.Len(), bytes, most)
	}
}

// RenewSessions gives every session the full timeout that it was created with, as a server does that starts or becomes
// the leader: it does not know what was granted when a client resumed the session.
//
// Source: the constructor of SessionTrackerImpl; only commitSession writes sessionsWithTimeout.
func (e *Ensemble) RenewSessions() {
	for _, ses := range e.Sessions {
		ses.Timeout = ses.created
		e.Tracker.Touch(ses)
	}
}
