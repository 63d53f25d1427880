package node

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// keeper maintains the node within one session.
//
// A node at the path is ours if this session owns it, and either its czxid is that of our create, or the reply to a
// create of this session was lost. No other Node of the client creates nodes there; see client.Client.Claim. Sets and
// deletes of such a node name the version that was read. ZooKeeper cannot compare a czxid, which leaves one case: another
// client deletes our node and creates its own with the same version, between our read and our write. Our nodes start at
// version 1, those of others mostly at 0.
type keeper struct {
	*Node
	session *session.Session
	czxid   int64          // of our node; 0 if there is none
	seen    State          // what the latest read reported about our node
	wrote   int            // the number of the data that it was last given
	doubt   bool           // a create of this session may have been applied without an answer
	taken   bool           // the node of another session was there at the last read
	look    *session.Watch // fires when what was read last has changed
	last    *session.Watch // the latest one that was not nil
	hangups session.Hangups
}

// rounds bounds how often keep rereads before it pauses.
const rounds = 8

// keep ensures that the node exists with our data. It returns the reading that confirms this.
//
// Errors: ErrDeleted, errOverwritten or errUnsettled, all of which are retried after a pause; *TakenError, with a
// reading whose watch fires when the other node changes; the server's error.
func (k *keeper) keep(ctx context.Context) (*session.Age, error) {
	readFirst := k.czxid != 0 || k.taken // if false, a create takes one round trip
	for range rounds {
		if !readFirst {
			if err := k.create(ctx, nil); err != nil {
				return nil, err
			}
		}
		r := k.session.NewAge()
		data, stat, w, err := k.session.GetW(ctx, k.path)
		r.Watch(w)
		if w != nil {
			k.session.Unwatch(k.last) // now that there is another one, or the same for the second time
			k.last = w
		}
		k.look, k.seen = w, State{}
		switch {
		case k.czxid != 0 && (errors.Is(err, zk.ErrNoNode) || err == nil && !k.owns(stat)):
			k.czxid, k.taken = 0, err == nil
			return r, &session.OpError{Op: "node", Path: k.path, Err: ErrDeleted}
		case errors.Is(err, zk.ErrNoNode):
			readFirst, k.taken = false, false
			continue
		case err != nil:
			return r, err
		case !k.owns(stat):
			readFirst = true
			if err := k.meet(ctx, data, stat); err != nil {
				return r, err
			}
			continue
		}
		if k.czxid != stat.Czxid { // the answer to its create was lost
			k.czxid = stat.Czxid
			k.made()
		}
		readFirst, k.taken = true, false
		k.seen = State{Exists: true, Czxid: stat.Czxid, Session: stat.EphemeralOwner}
		want, number := k.desired()
		if bytes.Equal(data, want) && r.Current() {
			k.wrote = number
			k.tell(k.seen, r, number)
			return r, nil
		}
		if err := k.write(ctx, data, want, number, stat.Version); err != nil {
			return r, err
		}
	}
	return nil, &session.OpError{Op: "node", Path: k.path, Err: errUnsettled}
}

// owns reports whether the node at the path is ours.
func (k *keeper) owns(stat zk.Stat) bool {
	return stat.EphemeralOwner == k.session.ID() && (stat.Czxid == k.czxid || k.doubt)
}

// meet handles a node that is not ours: it deletes one left by an earlier session of ours, and any other if the caller
// agrees. It returns nil if the path has to be read again.
func (k *keeper) meet(ctx context.Context, data []byte, stat zk.Stat) error {
	k.taken = true
	if !k.client.WasOurs(stat.EphemeralOwner) && (k.replace == nil || !k.replace(data, stat)) {
		return &zkrecipes.TakenError{Path: k.path, Session: stat.EphemeralOwner, Czxid: stat.Czxid, Data: data}
	}
	if still, err := k.isStill(ctx, stat.Czxid); !still {
		return err
	}
	return k.create(ctx, &stat)
}

// isStill reports whether the node with the czxid still exists, as far as the leader knows.
func (k *keeper) isStill(ctx context.Context, czxid int64) (bool, error) {
	if err := k.session.Sync(ctx, k.path); err != nil {
		return false, err
	}
	exists, stat, err := k.session.Exists(ctx, k.path)
	return err == nil && exists && stat.Czxid == czxid, err
}

// create creates the node, in one transaction with the deletion of another one if instead is given. It also returns nil
// if the path has to be read again.
func (k *keeper) create(ctx context.Context, instead *zk.Stat) error {
	data, number := k.desired()
	var ops []zkrecipes.Op
	if instead != nil {
		ops = append(ops, zkrecipes.Op{Kind: zkrecipes.KindDelete, Path: k.path, Version: instead.Version, Exact: true})
	}
	ops = append(ops, zkrecipes.OpCreate(k.path, nil, zk.FlagEphemeral), zkrecipes.OpSet(k.path, data, 0))
	var remakes session.Remakes
	for {
		r := k.session.NewAge()
		doubted := k.doubt
		k.doubt = true // until there is an answer
		_, czxid, err := k.session.MultiZxid(ctx, ops...)
		err = k.hangups.Judge(len(data), err)
		// If the answer lacks the czxid, the doubt is the same as after a lost reply.
		k.doubt = doubted || errors.Is(err, zkrecipes.ErrUnknownOutcome) || err == nil && czxid == 0
		switch {
		case err == nil && czxid == 0:
			return nil
		case err == nil:
			k.czxid, k.wrote, k.taken = czxid, number, false
			k.made()
			k.tell(State{Exists: true, Czxid: czxid, Session: k.session.ID()}, r, number)
			return nil
		case session.ReplyLost(err), errors.Is(err, zk.ErrNodeExists),
			instead != nil && (errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrBadVersion)):
			return nil
		case errors.Is(err, zk.ErrNoNode):
			if err := remakes.MakeParents(ctx, k.session, k.path, err); err != nil {
				return err
			}
		default:
			return err
		}
	}
}

// write replaces the data of our node. It also returns nil if the path has to be read again because a reply was lost,
// or another client changed the node first.
func (k *keeper) write(ctx context.Context, found, want []byte, number int, version int32) error {
	if bytes.Equal(found, want) {
		return nil // only the reading was not current
	}
	if number == k.wrote { // it had this data before
		k.wrote = 0
		return &session.OpError{Op: "node", Path: k.path, Err: errOverwritten}
	}
	_, err := k.session.SetRead(ctx, k.path, want, version)
	err = k.hangups.Judge(len(want), err)
	switch {
	case session.ReplyLost(err), errors.Is(err, zk.ErrBadVersion), errors.Is(err, zk.ErrNoNode):
		return nil
	case err == nil:
		k.wrote = number
		k.mu.Lock()
		defer k.mu.Unlock()
		k.written = max(k.written, number)
		k.broadcast()
	}
	return err
}

// watch waits until the node has to be read again, because what was read has changed, or there is new data.
func (k *keeper) watch(ctx context.Context, set <-chan struct{}) {
	_, _ = k.session.AwaitChange(ctx, k.session.RecheckAfter(), k.look.Fired(), set) // the caller checks both
}

// remove deletes our node if there is one, including one of an earlier session. It retries until that is certain or the
// session is over.
func (k *keeper) remove(ctx context.Context) {
	k.since = time.Time{}
	k.pauses.Reset()
	for {
		gone, err := k.removeOnce(ctx)
		if gone || k.session.Err() != nil {
			return
		}
		if errors.Is(err, zk.ErrNoAuth) {
			k.mu.Lock()
			if k.stuck == nil {
				k.client.Logger().Warn("zookeeper: not authorized to delete our node, it remains until this session ends",
					"path", k.path, "error", err)
			}
			k.stuck = err
			k.broadcast()
			k.mu.Unlock()
		}
		k.sleep(ctx, k.session.Done(), nil)
	}
}

// removeOnce reports whether no node of ours is left. If the reply to a create was lost, it reads behind a barrier, so
// that no create is still in flight, and again after it has deleted a node, because a server may have delayed the first
// of two creates.
func (k *keeper) removeOnce(ctx context.Context) (gone bool, err error) {
	if k.doubt {
		if err := k.session.Barrier(ctx); err != nil {
			return false, err
		}
	}
	exists, stat, err := k.session.Exists(ctx, k.path)
	if err != nil {
		return false, err
	}
	if !exists || !k.owns(stat) && !k.client.WasOurs(stat.EphemeralOwner) {
		return true, nil
	}
	if !k.owns(stat) {
		if still, err := k.isStill(ctx, stat.Czxid); !still {
			return false, err
		}
	}
	err = k.session.DeleteRead(ctx, k.path, stat.Version)
	return err == nil && !k.doubt, err
}
