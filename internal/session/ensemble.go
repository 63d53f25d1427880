package session

import (
	"cmp"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/lifetime"
)

// Ensemble is what the sessions of a client share: the options, and what they have learned about the servers.
type Ensemble struct {
	*lifetime.Ensemble
	opts *Config

	noContainers     atomic.Bool
	containerHangups atomic.Int32 // connections in a row that ended during createContainer and created no node
	removalsLost     atomic.Int32 // connections in a row that ended during removeWatches
}

// NewEnsemble returns an ensemble about which nothing is known, and fills in the options.
func NewEnsemble(opts *Config) *Ensemble {
	opts.MaxRequest = cmp.Or(opts.MaxRequest, maxRequest)
	return &Ensemble{Ensemble: lifetime.NewEnsemble(&opts.Config), opts: opts}
}

// CheckSize returns an error for a request too large for the server. The server would hang up without an answer, which
// would also fail all other calls of the session, and do so again each time the request is repeated.
func (e *Ensemble) CheckSize(op, path string, size int) error {
	if most := e.opts.MaxRequest; size > most {
		return &OpError{
			Op: op, Path: path,
			Err: fmt.Errorf("%w: a request of %d bytes exceeds the limit of %d (WithMaxRequestSize)",
				zkrecipes.ErrTooLarge, size, most),
		}
	}
	return nil
}

// removesWatches reports whether the server may know removeWatches. A single lost connection proves nothing.
func (e *Ensemble) removesWatches() bool { return e.removalsLost.Load() <= 1 }

// noWatcher is a server's answer to removeWatches if it has no such watch, for example because it has fired.
const noWatcher = zkrecipes.Code(-121)

// judgeRemovals counts the connections in a row that ended during removeWatches. lost is the count from when the
// request was made, so that all requests lost with one connection count once.
func (e *Ensemble) judgeRemovals(lost int32, err error) {
	switch {
	case err == nil, errors.Is(err, noWatcher):
		e.removalsLost.Store(0)
	case errors.Is(err, zk.ErrConnectionClosed):
		e.removalsLost.CompareAndSwap(lost, lost+1)
	}
}

// judgeContainers counts the connections in a row that ended during createContainer and created no node. hangups is the
// count from when the request was made, so that all calls lost with one connection count once.
func (e *Ensemble) judgeContainers(hangups int32, err error) {
	switch {
	case err == nil, errors.Is(err, zk.ErrNodeExists), errors.Is(err, zk.ErrNoNode):
		e.containerHangups.Store(0)
	case errors.Is(err, zk.ErrConnectionClosed) && e.containerHangups.CompareAndSwap(hangups, hangups+1) && hangups+1 == 3:
		e.opts.Log.Warn("zookeeper: three connections in a row ended during createContainer: " +
			"the server seems not to support containers, so parents remain when queues are empty")
		e.noContainers.Store(true)
	}
}
