package znode

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// contenders says what to create, all in one transaction.
type contenders struct {
	kind    string
	data    []byte
	key     string   // empty: the server appends a sequence number
	count   int      // 0 is one
	instead []string // nodes to delete in the same transaction
	attempt *attempt // that they are for
}

// name returns the path to create.
func (c contenders) name(q *Queue, guid string) string {
	return q.path + "/" + protected(guid, c.kind) + c.key
}

func (c contenders) flags() int32 {
	if c.key != "" {
		return zk.FlagEphemeral
	}
	return zk.FlagEphemeral | zk.FlagSequence
}

// check returns the error of contenders that no server would accept.
func (q *Queue) check(c contenders) error {
	return q.client.CheckCreate(c.name(q, anyGUID), c.data, max(c.count, 1), c.instead...)
}

// create makes contenders in s, and with them parents that are missing. With list it returns a listing that was asked for
// once the create was on its way, so that both cost one round trip; it may be nil.
//
// The GUID makes the create safe to repeat: if an answer is lost, the node is looked for before it is made again. A node
// that is found counts only if this session owns it. The caller may go at any time; its node is then removed here.
//
// Errors: errRequeue if part of what was made was deleted, or a node to delete was missing.
//
// Source: Curator's CreateBuilder with protection; its search trusts a follower that lags.
func (q *Queue) create(ctx context.Context, s *session.Session, want contenders, list bool) (*node, *listing, error) {
	guid := newGUID()
	repeated := ""
	// The first copy of a create that was repeated may have come late; see sweep.
	swept := func(err error) (*node, *listing, error) {
		if repeated != "" {
			s.Go(func(ctx context.Context) { q.sweep(ctx, s, guid) })
		}
		return nil, nil, err
	}
	var hangups session.Hangups
	for {
		c, err := s.StartCreate(ctx, want.name(q, guid), want.data, want.flags(), max(want.count, 1), session.CreateExtras{Delete: want.instead})
		if err != nil {
			return swept(err)
		}
		var l *listing
		if list {
			select {
			case <-c.Sent():
			case <-ctx.Done():
			case <-s.Done():
			}
			l = q.in(s).ask()
		}
		paths, zxid, err := s.FinishCreate(ctx, c)
		err = hangups.Judge(max(want.count, 1)*len(want.data), err)
		switch {
		case err == nil && zxid <= 0: // the fencing token would be worth nothing
			q.abandon(s, c, guid)
			return nil, nil, &session.OpError{Op: "create", Path: paths[0], Err: fmt.Errorf(
				"%w: it answers a create with the zxid %d, which must be the czxid of the node", zkrecipes.ErrUnsupportedServer, zxid)}
		case err == nil:
			n := q.newNode(s, paths, zxid)
			n.guid = repeated
			return n, l, nil
		case errors.Is(err, session.ErrNotDeleted):
			return swept(errRequeue) // the first copy may have come late and deleted it
		case errors.Is(err, zk.ErrNoNode):
			if err := q.makeParent(ctx, s); err != nil {
				return swept(err)
			}
		case wire.ServerFault(err), errors.Is(err, session.ErrTooLarge):
			q.abandon(s, c, guid)
			return nil, nil, err
		case errors.Is(err, zk.ErrNodeExists), errors.Is(err, zkrecipes.ErrUnknownOutcome):
			n, findErr := q.find(ctx, s, guid)
			if findErr != nil {
				q.abandon(s, c, guid)
				return nil, nil, errors.Join(err, findErr)
			}
			if n != nil && len(n.paths) == max(want.count, 1) {
				n.guid = repeated
				return n, nil, nil
			}
			if n != nil { // part of it has been deleted by hand
				q.abandon(s, c, guid)
				return nil, nil, errRequeue
			}
			repeated = guid
		case session.NotExecuted(err):
			if err := sleep(ctx, 10*time.Millisecond); err != nil { // the server sheds load, or the connection is just going
				return swept(err)
			}
		default:
			return swept(err)
		}
	}
}

// sleep waits for d, or for the end of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
