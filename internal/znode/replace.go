package znode

import (
	"bytes"
	"context"
	"errors"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// Load returns what the server at hand knows of path.
func Load(ctx context.Context, c *session.Client, path string) (session.Node, error) {
	data, stat, err := c.Get(ctx, path)
	if errors.Is(err, zk.ErrNoNode) {
		return session.Node{}, nil
	}
	return session.Node{Data: data, Stat: stat, Exists: err == nil}, err
}

// Replacement replaces the data of a node, or makes the node, by transactions that compare its version.
type Replacement struct {
	Client *session.Client
	Path   string
	// Next returns the data to write over what the node holds. It is called again when another client was faster.
	Next func(now session.Node) ([]byte, error)
	// Apply sends a transaction; nil is Client's own.
	Apply func(ctx context.Context, ops ...any) ([]zk.MultiResponse, error)
	// Idempotent says that it is as good as a reply if the node holds the data after a reply was lost.
	Idempotent bool
}

// Do reads and writes, again and again until it has written.
//
// After a lost reply it reads the node. If the node has the version that was replaced, the same transaction is sent again:
// only one of the copies can be applied. If one write followed on that version, and its data are others, the copies were
// refused, and Do begins again. Otherwise the outcome is unknown. That includes a missing node: the lost transaction may have
// made it, and another client may have deleted it since.
//
// A server may lag behind. So an error of Next counts only if the read that it is about came after a sync.
//
// No read can be too old for that: a session reads nothing older than it has read, and neither does the next session.
//
// Errors: those of Next and Apply, and nothing was written; ErrUnknownOutcome; otherwise what the server said.
func (r Replacement) Do(ctx context.Context) (session.Node, error) {
	var hangups session.Hangups
	var doubt error // of a copy that may have been applied, or may still be; nil if there is none
	var tried, now session.Node
	var data []byte
	var err error
	synced := false
	for {
		if now, err = Load(ctx, r.Client, r.Path); err != nil {
			return session.Node{}, errors.Join(doubt, err)
		}
		if doubt != nil {
			switch {
			case now.Exists && now.Stat.Czxid == tried.Stat.Czxid && now.Stat.Version == tried.Stat.Version: // send it again
			case r.Idempotent && now.Exists && bytes.Equal(now.Data, data):
				return now, nil
			case tried.Exists && now.Stat.Czxid == tried.Stat.Czxid && now.Stat.Version == tried.Stat.Version+1 && !bytes.Equal(now.Data, data):
				doubt = nil
			default:
				return session.Node{}, doubt
			}
		}
		if doubt == nil {
			data, err = r.Next(now)
			if err != nil && !synced {
				if synced, err = true, r.Client.Sync(ctx, r.Path); err == nil {
					continue
				}
			}
			if err != nil {
				return session.Node{}, err
			}
		}
		stat, err := r.write(ctx, now, data)
		err = hangups.Judge(len(data), err)
		switch {
		case err == nil:
			return session.Node{Data: data, Stat: *stat, Exists: true}, nil
		case errors.Is(err, zkrecipes.ErrUnknownOutcome):
			doubt, tried = err, now
			if ctx.Err() != nil || r.Client.State() == session.Closed || wire.ServerFault(err) || errors.Is(err, session.ErrTooLarge) {
				return session.Node{}, doubt
			}
			_ = sleep(ctx, retryPause) // the read looks at ctx
		case errors.Is(err, zk.ErrBadVersion), errors.Is(err, zk.ErrNodeExists), now.Exists && r.missing(err):
		case errors.Is(err, zkrecipes.ErrFenced) && doubt != nil:
			return session.Node{}, doubt // a copy may have been applied before
		case !r.missing(err):
			return session.Node{}, errors.Join(doubt, err)
		default:
			if err := r.makeParents(ctx); err != nil {
				return session.Node{}, errors.Join(doubt, err)
			}
		}
	}
}

// write makes one transaction. A new node is made and written in one, so that its version is not the one of a node that is
// only made.
func (r Replacement) write(ctx context.Context, now session.Node, data []byte) (*zk.Stat, error) {
	apply := r.Apply
	if apply == nil {
		apply = r.multi
	}
	set := &zk.SetDataRequest{Path: r.Path, Data: data, Version: now.Stat.Version}
	ops := []any{set}
	if !now.Exists {
		ops = []any{&zk.CreateRequest{Path: r.Path}, set}
	}
	responses, err := apply(ctx, ops...)
	if err != nil {
		return nil, err
	}
	return responses[len(responses)-1].Stat, nil
}

// multi sends a transaction, in the next session if it was certainly not executed in this one.
func (r Replacement) multi(ctx context.Context, ops ...any) ([]zk.MultiResponse, error) {
	for {
		s, err := r.Client.Session(ctx)
		if err != nil {
			return nil, &session.OpError{Op: "set", Path: r.Path, Err: err}
		}
		responses, err := s.Multi(ctx, ops...)
		if err == nil || errors.Is(err, zkrecipes.ErrUnknownOutcome) || s.Err() == nil || ctx.Err() != nil || r.Client.State() == session.Closed {
			return responses, err
		}
	}
}

// missing reports that there is no node, or no parent.
func (r Replacement) missing(err error) bool {
	var failed *session.OpError
	return errors.Is(err, zk.ErrNoNode) && errors.As(err, &failed) && failed.Path == r.Path
}

func (r Replacement) makeParents(ctx context.Context) error {
	s, err := r.Client.Session(ctx)
	if err != nil {
		return &session.OpError{Op: "set", Path: r.Path, Err: err}
	}
	return s.MakeContainers(ctx, r.Path[:max(strings.LastIndexByte(r.Path, '/'), 1)])
}
