// Package record writes the data of nodes that other clients write too. It is independent of queues. If a reply is
// lost, the same write may be sent again, and at most one of its copies is applied:
//
//   - [Replacement] and [Joint] replace the data of one node or of several. Each write names the versions that it
//     replaces. After a lost reply, no copy has been applied if the node still has the old version, and none will be
//     if the next version holds other data. Otherwise the outcome is unknown, unless the write is idempotent and the
//     node holds its data.
//   - [Marked] changes one node. An ephemeral node, the marker, shows which of its session's writes was the latest, so
//     a counter knows each outcome while its session lives.
//   - [Named] makes one change with a name. A permanent node, the mark, shows in every session whether it was made, as
//     for an arrival at a latch.
package record

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/client"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// Load returns what the current server knows about path.
func Load(ctx context.Context, c *client.Client, path string) (session.Node, error) {
	data, stat, err := c.Get(ctx, path)
	if errors.Is(err, zk.ErrNoNode) {
		return session.Node{}, nil
	}
	return session.Node{Data: data, Stat: stat, Exists: err == nil}, err
}

// write is one write, of which several copies may be sent.
type write struct {
	old  session.Node // what the copies replace
	data []byte
	// The error of a copy that may have been applied, or may still be; nil if there is none.
	doubt    error
	refusals int // how often another client changed the node first
	hangups  session.Hangups
	remakes  session.Remakes
	repeats  session.Repeats
}

// A fate is what a read shows about the copies in doubt.
type fate int

const (
	open    fate = iota // none was applied yet, and one may still be: the same write is sent again
	applied             // one was
	refused             // none was, and none can be: whatever comes next is a different write
	unknown             // the read does not show it
)

// retryAfterLostReply records that the outcome of a copy is unknown. If another read may show more, it waits a moment
// and returns true.
func (w *write) retryAfterLostReply(ctx context.Context, doubt error) bool {
	w.doubt = doubt
	if ctx.Err() != nil || !session.ReplyLost(doubt) {
		return false
	}
	_ = w.repeats.Pause(ctx, doubt) // the read checks ctx
	return true
}

// exactly returns the operation for the version that was read, even if that is -1.
func exactly(op zkrecipes.Op) zkrecipes.Op {
	op.Exact = true
	return op
}
