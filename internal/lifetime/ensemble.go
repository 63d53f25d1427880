package lifetime

import (
	"cmp"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/pause"
)

// Ensemble is what the sessions of a client share: the options, and what they have learned about the servers.
type Ensemble struct {
	opts *Config

	granted atomic.Int64 // the latest session timeout

	mu sync.Mutex
	// When a server first hung up since a session was last up; zero if none has.
	hangups time.Time
	// Rounds, since a session was last up, in which every server accepted a connection but gave no session in time.
	crowded int
}

// NewEnsemble returns an ensemble about which nothing is known, and fills in the options.
func NewEnsemble(opts *Config) *Ensemble {
	opts.MaxReply = cmp.Or(opts.MaxReply, maxReply)
	return &Ensemble{opts: opts}
}

// Timeout returns the session timeout that the servers grant, or the requested one while that is unknown.
func (e *Ensemble) Timeout() time.Duration {
	return cmp.Or(time.Duration(e.granted.Load()), e.opts.SessionTimeout)
}

// ConnectTimeout bounds one attempt to connect. By default it is derived from the timeout that the servers grant, which
// may be far below the requested one: a server that accepts and does not answer must not cost the session.
func (e *Ensemble) ConnectTimeout() time.Duration {
	if d := e.opts.ConnectTimeout; d > 0 {
		return d
	}
	return max(time.Second, e.Timeout()/6)
}

// attemptLimit is ConnectTimeout for the next round. It is longer after rounds in which every server accepted the
// connection but gave no session in time: after a restart, more clients may come back than the servers can admit in
// that time. If each of them gave up and tried again, the servers would mostly be serving clients that have already
// left. It grows to at most the time that a connection that is up may be silent.
func (e *Ensemble) attemptLimit() time.Duration {
	limit := e.ConnectTimeout()
	if e.opts.ConnectTimeout > 0 {
		return limit
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return max(limit, min(limit<<e.crowded, e.Timeout()*2/3))
}

// noteCrowded records that every server of a round accepted a connection but gave no session in time.
func (e *Ensemble) noteCrowded() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.crowded = min(e.crowded+1, 2) // more than that is above the longest limit
}

// NewBackOff returns the user's policy, or one that leaves time for several attempts before the session expires.
func (e *Ensemble) NewBackOff() BackOff {
	if e.opts.NewBackOff != nil {
		return e.opts.NewBackOff()
	}
	const shortest = 50 * time.Millisecond
	longest := min(max(e.Timeout()/6, shortest), longestPause)
	return pause.New(shortest, longest, 1.5)
}

// refused records that a server has hung up on a connect request.
func (e *Ensemble) refused() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.hangups.IsZero() {
		e.hangups = time.Now()
	}
}

// accepted records that a session is up.
func (e *Ensemble) accepted() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.hangups, e.crowded = time.Time{}, 0
}

// refusedFor returns how long servers have been hanging up on connect requests.
func (e *Ensemble) refusedFor() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.hangups.IsZero() {
		return 0
	}
	return time.Since(e.hangups)
}
