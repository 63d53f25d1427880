package record

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/client"
	"github.com/zkrecipes/zkrecipes/internal/outcome"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// Replacement replaces the data of a node, or creates the node, in transactions that compare its version.
type Replacement struct {
	Client *client.Client
	Path   string
	// Next returns the data to write over what the node holds. It is called again when another client has changed the
	// node first.
	Next func(now session.Node) ([]byte, error)
	// Apply sends a transaction; if nil, Client sends it.
	Apply func(ctx context.Context, ops ...zkrecipes.Op) ([]zkrecipes.OpResult, error)
	// Idempotent means that after a lost reply, finding the data in the node is as good as a reply.
	Idempotent bool
}

// Do reads and writes until a write succeeds.
//
// Errors: those of Next and Apply, in which case nothing was written; ErrUnknownOutcome; otherwise the server's error.
func (r Replacement) Do(ctx context.Context) (session.Node, error) {
	var w write
	synced := false
	for {
		now, err := Load(ctx, r.Client, r.Path)
		if err != nil {
			return session.Node{}, outcome.Undecided(w.doubt, err)
		}
		if w.doubt != nil {
			switch r.fate(&w, now) {
			case open:
			case applied:
				return now, nil
			case refused:
				w.doubt = nil
			case unknown:
				return session.Node{}, w.doubt
			}
		}
		if w.doubt == nil {
			w.data, err = r.Next(now)
			// The server may be lagging, in which case the error is about a stale state.
			if err != nil && !synced {
				if synced, err = true, r.Client.Sync(ctx, r.Path); err == nil {
					continue
				}
			}
			if err != nil {
				return session.Node{}, err
			}
		}
		w.old = now
		written, again, err := r.send(ctx, &w)
		if !again {
			return written, err
		}
	}
}

// fate determines the fate of w from what the node holds now.
//
// If the node has the version to be replaced, no copy was applied. If exactly one write followed that version, with
// different data, the copies were refused. If the write is idempotent and the node holds its data, it counts as
// applied, whoever wrote it. Otherwise the outcome is undecided. That includes a missing node: a copy may have
// created it, and another client may have deleted it since.
//
// No read is too old for that: a session never reads anything older than what it has already read, and neither does the
// next session.
func (r Replacement) fate(w *write, now session.Node) fate {
	same := now.Stat.Czxid == w.old.Stat.Czxid
	switch {
	case now.Exists && same && now.Stat.Version == w.old.Stat.Version:
		return open
	case r.Idempotent && now.Exists && bytes.Equal(now.Data, w.data):
		return applied // by a copy or by another client, which is just as good
	case w.old.Exists && same && now.Stat.Version == w.old.Stat.Version+1 && !bytes.Equal(now.Data, w.data):
		return refused
	default:
		return unknown
	}
}

// send sends a copy of w. again reports that the caller must read again, because the copy was refused or its reply was
// lost.
func (r Replacement) send(ctx context.Context, w *write) (written session.Node, again bool, err error) {
	sent := time.Now()
	stat, err := r.write(ctx, w.old, w.data)
	switch err = w.hangups.Judge(len(w.data), err); {
	case err == nil:
		return session.Node{Data: w.data, Stat: stat, Exists: true}, false, nil
	case errors.Is(err, zkrecipes.ErrUnknownOutcome):
		return session.Node{}, r.Client.State() != zkrecipes.Closed && w.retryAfterLostReply(ctx, err), err
	case errors.Is(err, zk.ErrBadVersion), errors.Is(err, zk.ErrNodeExists), w.old.Exists && r.missing(err):
		w.beaten(ctx, time.Since(sent))
		return session.Node{}, true, nil
	case errors.Is(err, zkrecipes.ErrFenced) && w.doubt != nil:
		return session.Node{}, false, w.doubt // a copy may have been applied before
	case r.missing(err):
		missing := err
		if err = r.Client.InSession(ctx, "set", r.Path, func(s *session.Session) error {
			return w.remakes.MakeParents(ctx, s, r.Path, missing)
		}); err == nil {
			return session.Node{}, true, nil
		}
	}
	return session.Node{}, false, outcome.Undecided(w.doubt, err)
}

// write sends one transaction. A new node is created and written in the same one, so that its version differs from that
// of a node that was only created.
func (r Replacement) write(ctx context.Context, now session.Node, data []byte) (zk.Stat, error) {
	apply := r.Apply
	if apply == nil {
		apply = r.multi
	}
	ops := []zkrecipes.Op{exactly(zkrecipes.OpSet(r.Path, data, now.Stat.Version))}
	if !now.Exists {
		ops = append([]zkrecipes.Op{zkrecipes.OpCreate(r.Path, nil, 0)}, ops...)
	}
	results, err := apply(ctx, ops...)
	if err != nil {
		return zk.Stat{}, err
	}
	return results[len(results)-1].Stat, nil
}

// multi sends a transaction. It uses the next session if the transaction was certainly not executed in this one.
func (r Replacement) multi(ctx context.Context, ops ...zkrecipes.Op) (results []zkrecipes.OpResult, err error) {
	err = r.Client.InSession(ctx, "set", r.Path, func(s *session.Session) (err error) {
		results, err = s.Multi(ctx, ops...)
		return err
	})
	return results, err
}

// missing reports whether the node or its parent does not exist.
func (r Replacement) missing(err error) bool {
	var failed *session.OpError
	return errors.Is(err, zk.ErrNoNode) && errors.As(err, &failed) && failed.Path == r.Path
}
