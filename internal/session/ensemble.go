package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/go-zookeeper/zk"
)

// Ensemble is what the sessions of a client share: the options, and what they have learned of the servers.
type Ensemble struct {
	opts *Config

	granted          atomic.Int64 // the newest session timeout
	noContainers     atomic.Bool
	containerHangups atomic.Int32 // connections in a row that ended under createContainer and made no node
	removalsLost     atomic.Int32 // connections in a row that ended under removeWatches: perhaps the server does not know the request

	mu      sync.Mutex
	hangups time.Time // when a server first hung up since a session was up; zero if none has
}

// NewEnsemble returns an ensemble that nothing is known of, and completes the options.
func NewEnsemble(opts *Config) *Ensemble {
	opts.MaxRequest = cmp.Or(opts.MaxRequest, maxRequest)
	opts.MaxReply = cmp.Or(opts.MaxReply, maxReply)
	return &Ensemble{opts: opts}
}

// Timeout returns the session timeout that the servers grant, or what was asked for while that is not known.
func (e *Ensemble) Timeout() time.Duration {
	return cmp.Or(time.Duration(e.granted.Load()), e.opts.SessionTimeout)
}

// ConnectTimeout bounds one attempt to connect. By default it comes from the timeout that the servers grant, which may be
// far below what was asked for: a server that accepts and does not answer must not cost the session.
func (e *Ensemble) ConnectTimeout() time.Duration {
	if d := e.opts.ConnectTimeout; d > 0 {
		return d
	}
	return max(time.Second, e.Timeout()/6)
}

// Dial opens a connection to a server.
func (e *Ensemble) Dial(ctx context.Context, server Server) (net.Conn, error) {
	raw, err := e.opts.Dial(ctx, server)
	if err == nil && raw == nil {
		err = errors.New("the function given to WithDialer returned neither a connection nor an error")
	}
	return raw, err
}

// NewBackOff returns the user's policy, or one that leaves time for several attempts before the session expires.
func (e *Ensemble) NewBackOff() backoff.BackOff {
	if e.opts.NewBackOff != nil {
		return e.opts.NewBackOff()
	}
	const shortest = 50 * time.Millisecond
	longest := min(max(e.Timeout()/6, shortest), longestPause)
	return backoff.NewExponentialBackOff(backoff.WithInitialInterval(shortest), backoff.WithMaxInterval(longest),
		backoff.WithMaxElapsedTime(0))
}

// CheckSize refuses a request that the server would refuse. The server would hang up without a word, and so end all other
// calls of the session, too, and again whenever the request is repeated.
func (e *Ensemble) CheckSize(op, path string, size int) error {
	if most := e.opts.MaxRequest; size > most {
		return &OpError{op, path, fmt.Errorf("%w: a request of %d bytes, of at most %d (WithMaxRequestSize)", ErrTooLarge, size, most)}
	}
	return nil
}

// refused notes that a server has hung up on a connect request.
func (e *Ensemble) refused() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.hangups.IsZero() {
		e.hangups = time.Now()
	}
}

// accepted notes that a session is up.
func (e *Ensemble) accepted() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.hangups = time.Time{}
}

// refusedFor returns for how long servers have hung up on connect requests.
func (e *Ensemble) refusedFor() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.hangups.IsZero() {
		return 0
	}
	return time.Since(e.hangups)
}

// judgeContainers counts the connections in a row that ended under createContainer and made no node. Hangups is the count when
// the request was made: the calls that one connection took with it count once.
func (e *Ensemble) judgeContainers(hangups int32, err error) {
	switch {
	case err == nil, errors.Is(err, zk.ErrNodeExists), errors.Is(err, zk.ErrNoNode):
		e.containerHangups.Store(0)
	case errors.Is(err, zk.ErrConnectionClosed) && e.containerHangups.CompareAndSwap(hangups, hangups+1) && hangups+1 == 3:
		e.opts.Log.Warn("zookeeper: three connections in a row ended under createContainer: the server seems to have no " +
			"containers, so parents stay behind when queues empty")
		e.noContainers.Store(true)
	}
}
