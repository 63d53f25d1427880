package record

import (
	"context"
	"errors"
	"strconv"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/ephemeral"
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
	left    *session.Node    // what the newest update left; nil if that is not known
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
		return nil, m.client.Explain(context.Cause(ctx))
	}
}

// Update replaces the data of the node by what next makes of them. It calls next again if another client was faster. It
// returns what it wrote.
//
// Errors: those of next, and nothing was written; ErrUnknownOutcome if the session ended, or ctx did, before the outcome
// was known; otherwise what the server said, and nothing was written.
func (m *Marked) Update(ctx context.Context, next func(data []byte) ([]byte, error)) (updated []byte, err error) {
	unlock, err := m.lock(ctx)
	if err != nil {
		return nil, &session.OpError{Op: "update", Path: m.path, Err: err}
	}
	defer unlock()
	err = m.client.InSession(ctx, "update", m.path, func(s *session.Session) (err error) {
		updated, err = m.updateIn(ctx, s, next)
		return err
	})
	return updated, err
}

// updateIn is one update in one session.
func (m *Marked) updateIn(ctx context.Context, s *session.Session, next func([]byte) ([]byte, error)) ([]byte, error) {
	m.number++
	var w write
	for {
		now, err := m.read(ctx, s)
		if err == nil && w.doubt != nil {
			var told fate
			if told, err = m.fate(ctx, s, &w, now); told == applied {
				return w.data, nil
			} else if told == refused {
				w.doubt = nil
			}
		}
		if errors.Is(err, zk.ErrNoNode) && w.doubt == nil {
			m.forget() // deleted by hand
			continue
		}
		if err != nil {
			return nil, errors.Join(w.doubt, err)
		}
		if w.doubt == nil {
			if w.data, err = next(now.Data); err != nil && m.left != nil {
				m.left = nil // the error may be about what another client has replaced
				continue
			} else if err != nil {
				return nil, err
			}
		}
		w.over = now
		if again, err := m.send(ctx, s, &w); !again {
			return w.data, err
		}
	}
}

// fate tells the fate of w by the node, which holds now, and by the marker, which is read here. Both readings are needed,
// in this order.
//
// If the marker has the number of the update, a copy was applied. If it has another number, none had been applied when the
// marker was read. If the node had another version before, none can ever be. If the node has the version still, only one of
// the copies can be. No reading is too old: the session never reads what is older than what it has read, and the server that
// refuses a copy for its version has applied what changed the version.
func (m *Marked) fate(ctx context.Context, s *session.Session, w *write, now session.Node) (fate, error) {
	number, _, err := s.Get(ctx, m.marker)
	switch {
	case err != nil:
		return unknown, err
	case string(number) == strconv.Itoa(m.number):
		return applied, nil
	case now.Stat.Version != w.over.Stat.Version:
		return refused, nil
	default:
		return open, nil
	}
}

// send sends a copy of w. Again says that the caller is to read again, whether the copy was refused or its reply was lost.
func (m *Marked) send(ctx context.Context, s *session.Session, w *write) (again bool, err error) {
	results, err := s.Multi(ctx,
		zkrecipes.OpSet(m.path, w.data, w.over.Stat.Version),
		zkrecipes.OpSet(m.marker, []byte(strconv.Itoa(m.number)), -1))
	m.left = nil
	switch err = w.hangups.Judge(len(w.data), err); {
	case err == nil:
		m.left = &session.Node{Data: w.data, Stat: results[0].Stat, Exists: true}
		return false, nil
	case errors.Is(err, zkrecipes.ErrUnknownOutcome):
		return s.Err() == nil && w.lost(ctx, err), err
	case errors.Is(err, zk.ErrBadVersion):
		return true, nil
	case errors.Is(err, zk.ErrNoNode) && w.doubt == nil:
		m.forget() // deleted by hand
		return true, nil
	default:
		return false, errors.Join(w.doubt, err)
	}
}

// forget forgets the marker, so that the next reading makes another. A late copy of its create must not stay beside that.
func (m *Marked) forget() {
	if s, marker := m.session, m.marker; m.late {
		s.Go(func(ctx context.Context) { _ = removeMarker(ctx, s, marker, true) }) // it ends with the session
	}
	m.session, m.marker, m.made, m.late, m.left = nil, "", false, false, nil
}

// read returns what the node holds, and makes the marker before if this session has none.
func (m *Marked) read(ctx context.Context, s *session.Session) (session.Node, error) {
	if m.session == nil || m.session.ID() != s.ID() {
		m.forget()
		m.session = s
	}
	if !m.made {
		if err := m.make(ctx, s); err != nil {
			return session.Node{}, err
		}
	}
	if m.left != nil {
		return *m.left, nil
	}
	data, stat, err := s.Get(ctx, m.path)
	return session.Node{Data: data, Stat: stat, Exists: err == nil}, err
}

// make makes the marker. Its name is unique, so the create may be repeated.
//
// Errors: the session's own, the cause of ctx, or what the server said. None of them is about the update, although a fault of
// the server matches ErrUnknownOutcome.
func (m *Marked) make(ctx context.Context, s *session.Session) error {
	if m.marker == "" {
		m.marker = m.path + "/" + ephemeral.Prefix(ephemeral.NewGUID()) + "marker"
	}
	var remakes session.Remakes
	for {
		_, err := s.Create(ctx, m.marker, nil, zk.FlagEphemeral)
		m.late = m.late || errors.Is(err, zkrecipes.ErrUnknownOutcome)
		if errors.Is(err, zk.ErrNoNode) {
			if err = remakes.Ensure(ctx, s, m.path, m.seed, err); err == nil {
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
			return &session.OpError{Op: "create", Path: m.marker, Err: s.Explain(context.Cause(ctx))}
		case !errors.Is(err, zkrecipes.ErrUnknownOutcome), wire.ServerFault(err):
			return err
		}
		_ = session.Sleep(ctx, session.RetryPause) // the loop looks at ctx
	}
}

// Close deletes the marker. The next update makes another.
//
// Errors: the cause of ctx, and the removal goes on; what the server said, and the marker stays until its session ends.
func (m *Marked) Close(ctx context.Context) error {
	closed := make(chan error, 1)
	if !m.client.Go(func(ctx context.Context) { closed <- m.remove(ctx) }) {
		return nil // the client is closed, and the marker goes with its session
	}
	select {
	case err := <-closed:
		return err
	case <-ctx.Done():
		return &session.OpError{Op: "delete the marker of", Path: m.path, Err: m.client.Explain(context.Cause(ctx))}
	}
}

// remove waits for the turn and removes the marker.
func (m *Marked) remove(ctx context.Context) error {
	unlock, err := m.lock(ctx)
	if err != nil {
		return nil // the client is being closed
	}
	defer unlock()
	s, marker, late := m.session, m.marker, m.late
	m.late = false // the removal looks for late copies
	m.forget()
	if marker == "" {
		return nil
	}
	return removeMarker(ctx, s, marker, late)
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
			_ = session.Sleep(ctx, session.RetryPause) // the next request looks at ctx
		default:
			return err
		}
	}
}
