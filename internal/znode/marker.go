package znode

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// Marked updates one node, and each update exactly once for as long as its session lives. An ephemeral child of the node,
// the marker, holds the number of the newest update. One transaction writes both. So after a lost reply the marker tells
// whether the update was applied.
//
// The marker also tells that the node is still the same one: while it has a child, the node cannot be deleted. So a version
// that was read after the marker was made is never the version of another incarnation.
type Marked struct {
	client *session.Client
	path   string
	seed   []byte
	turn   chan struct{} // holds one value while an update runs; the updates of one marker run one after the other

	// What follows belongs to the update that has the turn.
	session *session.Session // of the marker
	marker  string           // its path; empty if there is none
	made    bool             // it is known to exist
	late    bool             // a create of it has no answer, and a copy may still be applied
	number  int              // of the newest update
	left    *state           // what the newest update left; nil if that is not known
}

// retryPause is the pause before a request is sent again whose answer was lost.
const retryPause = 10 * time.Millisecond

// state is what a node holds.
type state struct {
	data    []byte
	version int32
}

// NewMarked returns what updates the node at path. A missing node is made with the seed.
func NewMarked(client *session.Client, path string, seed []byte) *Marked {
	return &Marked{client: client, path: path, seed: seed, turn: make(chan struct{}, 1)}
}

// lock waits for the turn. The caller calls unlock once.
func (m *Marked) lock(ctx context.Context) (unlock func(), err error) {
	select {
	case m.turn <- struct{}{}:
		return sync.OnceFunc(func() { <-m.turn }), nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Update replaces the data of the node by what next makes of them. It calls next again if another client was faster. It
// returns what it wrote.
//
// Errors: those of next, and nothing was written; ErrUnknownOutcome if the session ended, or ctx did, before the outcome
// was known; otherwise what the server said, and nothing was written.
func (m *Marked) Update(ctx context.Context, next func(data []byte) ([]byte, error)) ([]byte, error) {
	unlock, err := m.lock(ctx)
	if err != nil {
		return nil, &session.OpError{Op: "update", Path: m.path, Err: err}
	}
	defer unlock()
	for {
		s, err := m.client.Session(ctx)
		if err != nil {
			return nil, &session.OpError{Op: "update", Path: m.path, Err: err}
		}
		data, err := m.updateIn(ctx, s, next)
		switch {
		case err == nil:
			return data, nil
		case errors.Is(err, zkrecipes.ErrUnknownOutcome), s.Err() == nil, ctx.Err() != nil, m.client.State() == session.Closed:
			return nil, err
		}
	}
}

// updateIn is one update in one session.
//
// After a lost reply it reads the node, then the marker, and both reads are needed in this order. If the marker has another
// number, the update had not been applied when the marker was read. If the node had another version before, the update can
// never be applied. If the node has the version still, the update is sent again: only one of the copies can be applied. No
// read can be too old: the session never reads what is older than what it has read, and the server that refuses a copy for
// its version has applied what changed the version.
func (m *Marked) updateIn(ctx context.Context, s *session.Session, next func([]byte) ([]byte, error)) ([]byte, error) {
	m.number++
	number := strconv.Itoa(m.number)
	var hangups session.Hangups
	var doubt error // of a copy that may have been applied, or may still be; nil if there is none
	var tried state // the version and the data of that copy
	for {
		before, err := m.read(ctx, s)
		if err == nil && doubt != nil {
			var applied bool
			if applied, err = m.applied(ctx, s, number); applied {
				return tried.data, nil
			}
			if err == nil && before.version != tried.version {
				doubt = nil
			}
		}
		if errors.Is(err, zk.ErrNoNode) && doubt == nil {
			m.forget(s) // deleted by hand
			continue
		}
		if err != nil {
			return nil, errors.Join(doubt, err)
		}
		after := tried.data
		if doubt == nil {
			if after, err = next(before.data); err != nil && m.left != nil {
				m.left = nil // the error may be about what another client has replaced
				continue
			} else if err != nil {
				return nil, err
			}
		}
		responses, err := s.Multi(ctx,
			&zk.SetDataRequest{Path: m.path, Data: after, Version: before.version},
			&zk.SetDataRequest{Path: m.marker, Data: []byte(number), Version: -1})
		err = hangups.Judge(len(after), err)
		switch {
		case err == nil:
			m.left = &state{after, responses[0].Stat.Version}
			return after, nil
		case errors.Is(err, zkrecipes.ErrUnknownOutcome):
			m.left = nil
			doubt, tried = err, state{after, before.version}
			if ctx.Err() != nil || s.Err() != nil || wire.ServerFault(err) || errors.Is(err, session.ErrTooLarge) {
				return nil, doubt
			}
			_ = sleep(ctx, retryPause) // the read looks at ctx
		case errors.Is(err, zk.ErrBadVersion):
			m.left = nil
		case errors.Is(err, zk.ErrNoNode) && doubt == nil:
			m.left = nil
			m.forget(s) // deleted by hand
		default:
			m.left = nil
			return nil, errors.Join(doubt, err)
		}
	}
}

// applied reports whether the marker has the number of the update.
func (m *Marked) applied(ctx context.Context, s *session.Session, number string) (bool, error) {
	data, _, err := s.Get(ctx, m.marker)
	return err == nil && string(data) == number, err
}

// read returns what the node holds, and makes the marker before if this session has none.
func (m *Marked) read(ctx context.Context, s *session.Session) (state, error) {
	if m.session == nil || m.session.ID() != s.ID() {
		m.session, m.marker, m.made, m.late = s, "", false, false
	}
	if !m.made {
		m.left = nil
		if err := m.make(ctx, s); err != nil {
			return state{}, err
		}
	}
	if m.left != nil {
		return *m.left, nil
	}
	data, stat, err := s.Get(ctx, m.path)
	return state{data, stat.Version}, err
}

// make makes the marker. Its name is unique, so the create may be repeated.
//
// Errors: the session's own, the cause of ctx, or what the server said. None of them is about the update.
func (m *Marked) make(ctx context.Context, s *session.Session) error {
	if m.marker == "" {
		m.marker = m.path + "/" + guidPrefix(newGUID()) + "marker"
	}
	for {
		_, err := s.Create(ctx, m.marker, nil, zk.FlagEphemeral)
		m.late = m.late || errors.Is(err, zkrecipes.ErrUnknownOutcome)
		if errors.Is(err, zk.ErrNoNode) {
			if err = s.Ensure(ctx, m.path, m.seed); err == nil {
				continue
			}
		}
		switch {
		case err == nil, errors.Is(err, zk.ErrNodeExists):
			m.made = true
			return nil
		case s.Err() != nil:
			return s.Err()
		case ctx.Err() != nil:
			return &session.OpError{Op: "create", Path: m.marker, Err: context.Cause(ctx)}
		case !errors.Is(err, zkrecipes.ErrUnknownOutcome), wire.ServerFault(err):
			return err
		}
		_ = sleep(ctx, retryPause) // the loop looks at ctx
	}
}

// forget gives up a marker that was deleted by hand. A late copy of its create must not stay beside the next marker.
func (m *Marked) forget(s *session.Session) {
	if marker := m.marker; m.late {
		s.Go(func(ctx context.Context) { _ = removeMarker(ctx, s, marker, true) }) // it ends with the session
	}
	m.made, m.marker, m.late = false, "", false
}

// Close deletes the marker. The next update makes another.
//
// Errors: the cause of ctx, and the removal goes on; what the server said, and the marker stays until its session ends.
func (m *Marked) Close(ctx context.Context) error {
	unlock, err := m.lock(ctx)
	if err != nil {
		return &session.OpError{Op: "delete the marker of", Path: m.path, Err: err}
	}
	defer unlock()
	s, marker, late := m.session, m.marker, m.late
	m.session, m.marker, m.made, m.late, m.left = nil, "", false, false, nil
	removed := make(chan error, 1)
	if marker == "" || !s.Go(func(ctx context.Context) { removed <- removeMarker(ctx, s, marker, late) }) {
		return nil
	}
	select {
	case err := <-removed:
		return err
	case <-ctx.Done():
		return &session.OpError{Op: "delete the marker of", Path: m.path, Err: context.Cause(ctx)}
	}
}

// removeMarker deletes a marker, until that is certain or the session over. If a copy of its create may be late, it deletes
// behind a barrier, so that no copy is on its way, and once more after it has deleted one: a server may have hung with the
// first of two copies.
func removeMarker(ctx context.Context, s *session.Session, marker string, late bool) error {
	for {
		var err error
		if late {
			err = s.Barrier(ctx)
		}
		if err == nil {
			err = s.Delete(ctx, marker, -1)
		}
		if s.Err() != nil {
			return nil //nolint:nilerr // the marker goes with the session
		}
		switch {
		case errors.Is(err, zk.ErrNoNode), err == nil && !late:
			return nil
		case err == nil, errors.Is(err, zkrecipes.ErrUnknownOutcome) && !wire.ServerFault(err):
			_ = sleep(ctx, retryPause) // the next request looks at ctx
		default:
			return err
		}
	}
}
