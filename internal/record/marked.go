package record

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/client"
	"github.com/zkrecipes/zkrecipes/internal/ephemeral"
	"github.com/zkrecipes/zkrecipes/internal/outcome"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// Marked applies each update of one node exactly once for as long as its session lives. An ephemeral child of the node,
// the marker, holds the number of the latest update, and one transaction writes both. After a lost reply the marker
// therefore shows whether the update was applied.
//
// The marker also shows that the node is still the same one: while it has a child, the node cannot be deleted. A
// version that was read after the marker was created is therefore never the version of another incarnation.
type Marked struct {
	client *client.Client
	path   string
	parent *ephemeral.Parent // of the marker: the node
	// Holds one value while an update runs, so that the updates of one marker run one after another.
	updating chan struct{}

	// The fields below belong to the update that is running.
	marker      *ephemeral.Node // nil if there is none
	number      int             // that of the latest update
	lastWritten *session.Node   // what the latest update left; nil if unknown
}

// NewMarked returns a Marked for the node at path. A missing node is created with the seed.
func NewMarked(client *client.Client, path string, seed []byte) *Marked {
	parent := &ephemeral.Parent{Client: client, Path: path, Plain: true, Seed: seed}
	return &Marked{client: client, path: path, parent: parent, updating: make(chan struct{}, 1)}
}

// lock waits until no other update is running. The caller calls unlock once.
func (m *Marked) lock(ctx context.Context) (unlock func(), err error) {
	if ctx == nil {
		return nil, session.ErrNoContext
	}
	select {
	case m.updating <- struct{}{}:
		return sync.OnceFunc(func() { <-m.updating }), nil
	case <-ctx.Done():
		return nil, m.client.Explain(context.Cause(ctx))
	}
}

// Update replaces the node's data with what next returns for it. If another client changes the node first, Update calls
// next again. Update returns what it wrote.
//
// Errors: those of next, in which case nothing was written; ErrUnknownOutcome if, before the outcome was known, the
// session or ctx ended, the node or the marker was deleted by hand, or a server reported an internal error; otherwise
// the server's error, in which case nothing was written.
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
	synced := false
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
			return nil, outcome.Undecided(w.doubt, err)
		}
		if w.doubt == nil {
			w.data, err = next(now.Data)
			// Another client may have replaced what m.lastWritten shows, and the server may be lagging: the error is about a
			// stale state then.
			if err != nil && !synced {
				m.lastWritten = nil
				if synced, err = true, s.Sync(ctx, m.path); err == nil {
					continue
				}
			}
			if err != nil {
				return nil, err
			}
		}
		w.old = now
		if again, err := m.send(ctx, s, &w); !again {
			return w.data, err
		}
	}
}

// fate determines the fate of w from what the node holds (now) and from the marker, which is read here. Both reads are
// needed, in this order.
//
// If the marker has the number of the update, a copy was applied. If it has a different number, none had been applied
// when the marker was read. If the node, which was read before that, no longer had the version, none ever can be. If it
// still had the version, at most one of the copies can be. No read is too old: the session never reads anything older
// than what it has read, and the server that refuses a copy because of its version has applied what changed it.
func (m *Marked) fate(ctx context.Context, s *session.Session, w *write, now session.Node) (fate, error) {
	number, _, err := s.Get(ctx, m.marker.Paths[0])
	switch {
	case err != nil:
		return unknown, err
	case string(number) == strconv.Itoa(m.number):
		return applied, nil
	case now.Stat.Version != w.old.Stat.Version:
		return refused, nil
	default:
		return open, nil
	}
}

// send sends a copy of w. again reports that the caller must read again, because the copy was refused or its reply was
// lost.
func (m *Marked) send(ctx context.Context, s *session.Session, w *write) (again bool, err error) {
	sent := time.Now()
	results, err := s.Multi(ctx,
		exactly(zkrecipes.OpSet(m.path, w.data, w.old.Stat.Version)),
		zkrecipes.OpSet(m.marker.Paths[0], []byte(strconv.Itoa(m.number)), -1))
	m.lastWritten = nil
	switch err = w.hangups.Judge(len(w.data), err); {
	case err == nil:
		m.keep(session.Node{Data: w.data, Stat: results[0].Stat, Exists: true})
		return false, nil
	case errors.Is(err, zkrecipes.ErrUnknownOutcome):
		return s.Err() == nil && w.retryAfterLostReply(ctx, err), err
	case errors.Is(err, zk.ErrBadVersion):
		w.beaten(ctx, time.Since(sent))
		return true, nil
	case errors.Is(err, zk.ErrNoNode) && w.doubt == nil:
		m.forget() // deleted by hand
		return true, nil
	default:
		return false, outcome.Undecided(w.doubt, err)
	}
}

// keep remembers the node as an update left it, so that the next update doesn't have to read it.
//
// An update without a read follows the previous one within a round trip. Another client, which needs a round trip
// between its read and its write, would then never succeed. Each client that shares the node therefore reads again
// after [streak] updates, which leaves a gap of a round trip. The markers, which are children of the node, show how
// many clients share it.
func (m *Marked) keep(left session.Node) {
	if left.Stat.NumChildren == 1 || m.number%streak != 0 {
		m.lastWritten = &left
	}
}

// forget drops the marker, so that the next read creates another one. Whatever is left of the old one must not remain
// alongside it.
func (m *Marked) forget() {
	if m.marker != nil {
		m.marker.Remove()
	}
	m.marker, m.lastWritten = nil, nil
}

// read returns what the node holds, after creating the marker if this session has none.
func (m *Marked) read(ctx context.Context, s *session.Session) (session.Node, error) {
	if m.marker != nil && m.marker.Session.ID() != s.ID() {
		m.forget()
	}
	if m.marker == nil {
		if err := m.make(ctx, s); err != nil {
			return session.Node{}, err
		}
	}
	if m.lastWritten != nil {
		return *m.lastWritten, nil
	}
	data, stat, err := s.Get(ctx, m.path)
	return session.Node{Data: data, Stat: stat, Exists: err == nil}, err
}

// make creates the marker.
//
// Errors: the session's own, the cause of ctx, or what the server answered. None of them is about the update, even
// though a server fault matches ErrUnknownOutcome.
func (m *Marked) make(ctx context.Context, s *session.Session) (err error) {
	m.marker, err = m.parent.Create(ctx, s, ephemeral.Spec{Key: "marker"}, nil)
	switch {
	case err == nil:
		return nil
	case s.Err() != nil:
		return s.Err()
	case ctx.Err() != nil:
		return &session.OpError{Op: "create", Path: m.path, Err: s.Explain(context.Cause(ctx))}
	default:
		return err
	}
}

// Close deletes the marker. The next update creates another one.
//
// Errors: the cause of ctx; zk.ErrNoAuth. In both cases the removal continues until the session ends. ErrClosed if
// the client was made by Sub and is closed: the marker ends with the session.
func (m *Marked) Close(ctx context.Context) error {
	if ctx == nil {
		return &session.OpError{Op: "delete the marker of", Path: m.path, Err: session.ErrNoContext}
	}
	closed := make(chan error, 1)
	if !m.client.Go(func(ctx context.Context) { closed <- m.remove(ctx) }) {
		if m.client.State() != zkrecipes.Closed {
			// A client made by Sub is closed.
			return &session.OpError{Op: "delete the marker of", Path: m.path, Err: zkrecipes.ErrClosed}
		}
		// The client is closed, and the marker goes with its session.
		return nil
	}
	select {
	case err := <-closed:
		return err
	case <-ctx.Done():
		return &session.OpError{Op: "delete the marker of", Path: m.path, Err: m.client.Explain(context.Cause(ctx))}
	}
}

// remove waits for the update that is running and removes the marker. It returns an error if the server does not permit
// that.
func (m *Marked) remove(ctx context.Context) error {
	unlock, err := m.lock(ctx)
	if err != nil {
		return nil // the client is being closed
	}
	defer unlock()
	marker := m.marker
	m.forget()
	if marker == nil {
		return nil
	}
	if err := marker.WaitRemoved(ctx); ctx.Err() == nil {
		return err
	}
	return nil // it goes with its session
}
