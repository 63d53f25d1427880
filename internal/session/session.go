package session

import (
	"context"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/link"
	"github.com/zkrecipes/zkrecipes/internal/liveness"
)

// Owner is what a session needs of its client, whose lock may be taken while the session holds its own.
type Owner interface {
	// Start runs f on a goroutine that the client waits for when it is closed; false once it is.
	Start(f func()) bool
	// Servers yields each server once, in the order to try them, until ctx ends.
	Servers(ctx context.Context) iter.Seq[Server]
	// Failed takes why a server gave no session.
	Failed(server string, err error)
	// Up takes that the session is connected, and Down that it is not any more. Both are called with the lock of the session
	// held. What they return logs that, and is called without it.
	Up(Report) (log func())
	Down(Report) (log func())
	// Ended takes that the session has ended. The next one may open when Done is closed, which is after this.
	Ended(why *zkrecipes.LostError, last Report)
	// InTheWay returns why there is no connection; nil if there is one.
	InTheWay() error
	// Root returns where the paths below a prefix begin.
	Root(prefix string) zkrecipes.Root
}

// Session is one ZooKeeper session: alive with proof, then dead for ever. An operation issued on it runs in it or
// fails; nothing that belongs to it ever runs in the session after it. A Session is safe for concurrent use, and its
// paths are those of the client it came from.
//
// It ends at the earliest of: the server says that it has expired; nothing was answered for a whole timeout; the
// client is closed; the server refuses the credentials.
type Session struct {
	*session
	prefix string
}

// session is what all views of one session share.
type session struct {
	owner    Owner
	ensemble *Ensemble
	opts     *Config
	pauses   *pauses
	ctx      context.Context // ends with the session
	stop     context.CancelFunc
	zxid     atomic.Int64  // the newest one seen, here or in an earlier session
	asked    atomic.Uint32 // how many requests of ours, for their xids

	wake chan struct{} // wakes the heartbeat; holds one

	mu            sync.Mutex
	id            int64 // 0 until the first connect answer
	password      []byte
	upkeep        liveness.Upkeep
	connection    *link.Connection // the newest; nil before the first
	up            chan struct{}    // closed while connected
	down          chan struct{}    // closed while not connected
	heardLast     time.Time        // what was heard on the connection that down was closed for
	since         time.Time        // when it was first up
	lost          *zkrecipes.LostError
	delivering    int // losses whose callbacks are running
	callbacks     map[*lossCallback]struct{}
	answer        answer
	freshening    *link.Connection // on which a request of Freshen is unanswered; nil if there is none
	confirming    *link.Connection // on which a barrier was sent, and not refused; nil if there is none
	nextHeartbeat time.Time        // when the next step is planned

	watches watches
	done    chan struct{}
}

// newSession returns a session that Run connects. The newest zxid that was seen in the session before is zxid.
func newSession(ctx context.Context, owner Owner, ensemble *Ensemble, zxid int64) *session {
	s := &session{
		owner:     owner,
		ensemble:  ensemble,
		opts:      ensemble.opts,
		pauses:    newPauses(ensemble.NewBackOff),
		upkeep:    liveness.New(ensemble.opts.Terms),
		wake:      make(chan struct{}, 1),
		up:        make(chan struct{}),
		down:      make(chan struct{}),
		callbacks: make(map[*lossCallback]struct{}),
		done:      make(chan struct{}),
	}
	close(s.down)
	s.watches.init()
	s.zxid.Store(zxid)
	s.ctx, s.stop = context.WithCancel(ctx)
	return s
}

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
	return s.upkeep.Timeout()
}

// ValidUntil returns the time up to which the session is proven to be alive: until then no server has removed its
// ephemeral nodes. It moves on while servers answer, and it moves back while a server may be resuming the session with a
// shorter timeout. See the documentation of package conn for what it rests on and does not cover.
func (s *session) ValidUntil() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	// Only after all loss callbacks have returned: a caller that looks earlier would take it for a deadline that has passed.
	until := s.upkeep.ValidUntil()
	if s.over() && s.lost.At.Before(until) {
		return s.lost.At
	}
	return until
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

// Go runs f on a goroutine that the session owns: ctx ends with the session, and Close waits for f. It reports false,
// and does not run f, once the client is closed.
func (s *session) Go(f func(ctx context.Context)) bool {
	return s.owner.Start(func() { f(s.ctx) })
}

// answered books an answer as proof. If the proof ran out before the answer came, the holds end first. So it does not matter
// whether the answer or the clock is looked at first: a hold whose deadline has passed ends either way.
func (s *session) answered(sent, at time.Time, by liveness.Witness) {
	s.mu.Lock()
	notices := s.lapseIfDue(at)
	s.upkeep.Answered(sent, at, by)
	s.answer = answer{at, at.Sub(sent)}
	s.mu.Unlock()
	notices.deliver()
}

// end ends the session; the first reason counts. All holds have ended before pending operations fail, and before another
// session can exist.
func (s *session) end(why *zkrecipes.LostError) {
	s.mu.Lock()
	if s.lost != nil {
		s.mu.Unlock()
		return
	}
	s.lost = why
	notices := s.collect(why, func(*lossCallback) bool { return true })
	s.mu.Unlock()
	notices.deliver()
}

// Close ends the session for the client, which is being closed.
func (s *session) Close() { s.end(lost(zkrecipes.LossClosed, time.Now(), zkrecipes.ErrClosed)) }

// Live reports that the session has come up and has not ended.
func (s *session) Live() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lost == nil && !s.since.IsZero()
}

func (s *session) ended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lost != nil
}

// Lived is how long the session has been usable; 0 if it never was.
func (s *session) Lived() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.since.IsZero() {
		return 0
	}
	return time.Since(s.since)
}
