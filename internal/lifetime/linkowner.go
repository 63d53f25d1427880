package lifetime

import (
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/link"
	"github.com/zkrecipes/zkrecipes/internal/liveness"
	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// linkOwner is a session as seen by its connections. It is their [link.Owner].
type linkOwner struct{ *Lifetime }

// NextXid returns an xid that none of the session's last two billion requests had. A server matches the commit of a
// write to the request it holds only by session and xid (ZooKeeper's CommitProcessor). If an xid recurred on the next
// connection, a request could get the outcome of an earlier one. Xids are positive, because servers do not count other
// requests when they throttle (ServerCnxn.incrOutstandingAndCheckThrottle).
func (o linkOwner) NextXid() int32 {
	for {
		if xid := int32(o.xids.Add(1) & 0x7fffffff); xid != 0 {
			return xid
		}
	}
}

// Saw records the latest zxid.
func (o linkOwner) Saw(zxid int64) { o.zxid.Store(zxid) }

// Answered records an answer as proof of liveness.
func (o linkOwner) Answered(op, code int32, sent, at time.Time) {
	if wire.FromTree(code) {
		if o.leans.Load() {
			o.leans.Store(false) // the zxid of this answer is no older than the event
		}
		o.answered(sent, at, liveness.WitnessOf(op, code))
	}
}

// TooLarge returns the error for a reply of size bytes if that is too large, otherwise nil.
func (o linkOwner) TooLarge(size int) error {
	if most := o.opts.MaxReply; size > most {
		return fmt.Errorf("%w: a reply of %d bytes exceeds the limit of %d (WithMaxReplySize)",
			zkrecipes.ErrTooLarge, size, most)
	}
	return nil
}

// Event passes an event on.
func (o linkOwner) Event(e zk.Event) { o.listener.Event(e) }

// Down reports to the session that a connection has closed.
func (o linkOwner) Down(c *link.Connection) { o.connectionDown(c) }
