package record

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/client"
	"github.com/zkrecipes/zkrecipes/internal/outcome"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// Joint replaces the data of several nodes, or creates them, in one transaction that compares the version of each node
// that was read.
type Joint struct {
	Client *client.Client
	// Next reads, and decides what to write. It is called again when another client has written one of the nodes.
	Next func(*Draft) error
}

// Draft holds what one call of Next reads and writes. Its nodes may have been read at different moments; only the
// transaction reveals that.
type Draft struct {
	ctx    context.Context //nolint:containedctx // a draft lives as long as one call
	client *client.Client
	parts  []*part
	failed error // of the reads that failed, joined
}

// part is one node of a draft.
type part struct {
	path    string
	old     session.Node // as it was read
	data    []byte       // the data to write
	written bool
}

// Read returns the data of a node, including what the draft itself has written, and whether it exists.
func (d *Draft) Read(path string) (data []byte, exists bool, err error) {
	p, err := d.part(path)
	switch {
	case err != nil:
		return nil, false, err
	case p.written:
		return p.data, true, nil
	default:
		return p.old.Data, p.old.Exists, nil
	}
}

// Write replaces the data of a node. If the node has not been read yet, Write reads it first, since each write names
// the version that it replaces.
func (d *Draft) Write(path string, data []byte) error {
	p, err := d.part(path)
	if err == nil {
		p.data, p.written = data, true
	}
	return err
}

func (d *Draft) part(path string) (*part, error) {
	if i := slices.IndexFunc(d.parts, func(p *part) bool { return p.path == path }); i >= 0 {
		return d.parts[i], nil
	}
	now, err := Load(d.ctx, d.client, path)
	if err != nil {
		d.failed = errors.Join(d.failed, err)
		return nil, err
	}
	p := &part{path: path, old: now}
	d.parts = append(d.parts, p)
	return p, nil
}

// forgetWrites keeps only what was read.
func (d *Draft) forgetWrites() {
	for _, p := range d.parts {
		p.data, p.written = nil, false
	}
}

// jointWrite is one transaction, of which several copies may be sent.
type jointWrite struct {
	write
	parts   []*part
	verdict error // the error of Next
}

// Do calls Next and sends the transaction, and repeats both until the transaction succeeds. If Next fails, the
// transaction writes nothing, and only shows whether the error is about the current state.
//
// Errors: Next's error; ErrUnknownOutcome if the transaction writes; otherwise the server's error.
func (j Joint) Do(ctx context.Context) error {
	var w jointWrite
	for {
		if w.doubt != nil {
			switch fate, err := j.fate(ctx, &w); {
			case err != nil:
				return outcome.Undecided(w.doubt, err)
			case fate == refused:
				w.doubt = nil
			case fate != open:
				return w.doubt
			}
		}
		if w.doubt == nil {
			d := &Draft{ctx: ctx, client: j.Client}
			w.verdict = j.Next(d)
			if d.failed != nil {
				return d.failed
			}
			if w.parts = d.parts; len(w.parts) == 0 {
				return w.verdict
			}
			if w.verdict != nil {
				d.forgetWrites()
			}
		}
		switch again, err := j.send(ctx, &w); {
		case again:
		case err == nil:
			return w.verdict
		default:
			return errors.Join(w.verdict, err)
		}
	}
}

// fate determines the fate of w from what the nodes hold now. All that w writes is written in one step. A node that
// still has its old version therefore shows that no copy was applied yet, and a node in which another client has
// overwritten that version shows that none can be: see Replacement.fate.
//
// Once any node no longer has the version that was read, no copy can be applied any more, so if another node is found
// to be old after that, all copies were refused. A node that was missing proves less, because it may be missing again.
func (j Joint) fate(ctx context.Context, w *jointWrite) (fate, error) {
	if !w.writes() {
		return refused, nil // or applied, which makes no difference
	}
	old, gone, appeared, written, err := j.look(ctx, w)
	switch {
	case err != nil:
		return unknown, err
	case written:
		return refused, nil
	case old && gone:
		if old, _, _, _, err = j.look(ctx, w); old && err == nil {
			return refused, nil
		}
		return unknown, err
	case old && !appeared:
		return open, nil
	default:
		return unknown, nil
	}
}

// look reads the nodes. It reports whether one that w writes is old, whether one has left its version, whether one that
// was missing exists, and whether another client has written over what w replaces.
func (j Joint) look(ctx context.Context, w *jointWrite) (old, gone, appeared, written bool, err error) {
	for _, p := range w.parts {
		now, err := Load(ctx, j.Client, p.path)
		if err != nil {
			return false, false, false, false, err
		}
		told := (Replacement{}).fate(&write{old: p.old, data: p.data}, now)
		old = old || p.written && told == open
		gone = gone || p.old.Exists && told != open
		appeared = appeared || !p.old.Exists && now.Exists
		written = written || p.written && told == refused
	}
	return old, gone, appeared, written, nil
}

func (w *jointWrite) writes() bool {
	return slices.ContainsFunc(w.parts, func(p *part) bool { return p.written })
}

// send sends a copy of w. again reports that the caller must read again, because the copy was refused or its reply was
// lost.
func (j Joint) send(ctx context.Context, w *jointWrite) (again bool, err error) {
	var ops []zkrecipes.Op
	size := 0
	for _, p := range w.parts {
		ops = append(ops, p.ops()...)
		size += len(p.data)
	}
	sent := time.Now()
	_, err = Replacement{Client: j.Client, Path: w.parts[0].path}.multi(ctx, ops...)
	err = w.hangups.Judge(size, err)
	made := w.madeBy(err)
	switch {
	case err == nil:
		return false, nil
	case errors.Is(err, zkrecipes.ErrUnknownOutcome):
		again = j.Client.State() != zkrecipes.Closed && w.retryAfterLostReply(ctx, err)
		if !w.writes() { // whether the transaction was executed makes no difference
			err = &session.OpError{Op: "multi", Path: w.parts[0].path, Err: outcome.Because(err)}
		}
		return again, err
	case errors.Is(err, zk.ErrBadVersion), errors.Is(err, zk.ErrNodeExists), errors.Is(err, zk.ErrNoNode) && made == "":
		w.beaten(ctx, time.Since(sent))
		return true, nil
	case errors.Is(err, zk.ErrNoNode):
		missing := err
		err = j.Client.InSession(ctx, "update", made, func(s *session.Session) error {
			return w.remakes.MakeParents(ctx, s, made, missing)
		})
		if err == nil {
			return true, nil
		}
	}
	return false, outcome.Undecided(w.doubt, err)
}

// madeBy returns the path of the failed operation if it was the create of a node, otherwise "". If that failed because
// a node is missing, the missing node is the parent.
func (w *jointWrite) madeBy(err error) string {
	var failed *session.OpError
	if errors.As(err, &failed) {
		for _, p := range w.parts {
			if p.path == failed.Path && !p.old.Exists {
				return p.path
			}
		}
	}
	return ""
}

// ops returns operations that succeed only if the node is as it was read. Servers have no check for two of the states,
// so a missing node is created and deleted, and one with the version -1 is written with its own data.
func (p *part) ops() []zkrecipes.Op {
	create := zkrecipes.OpCreate(p.path, nil, 0)
	switch version := p.old.Stat.Version; {
	// In two operations, as in Replacement.write.
	case p.written && !p.old.Exists:
		return []zkrecipes.Op{create, zkrecipes.OpSet(p.path, p.data, 0)}
	case p.written:
		return []zkrecipes.Op{exactly(zkrecipes.OpSet(p.path, p.data, version))}
	case !p.old.Exists:
		return []zkrecipes.Op{create, zkrecipes.OpDelete(p.path, 0)}
	case version == -1:
		return []zkrecipes.Op{exactly(zkrecipes.OpSet(p.path, p.old.Data, version))}
	default:
		return []zkrecipes.Op{zkrecipes.OpCheck(p.path, version)}
	}
}
