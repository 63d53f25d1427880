package zkrecipes

import (
	"strconv"
	"time"
)

// Token is a fencing token: the czxid of the contender behind a [Hold]. It is larger than every earlier token of the
// same ensemble, also after a container was reaped and its sequence numbers restarted. There is one exception. A reader
// that takes the place of its writer (package rwlock) keeps the writer's token, because the next writer may be in the
// queue already.
//
// A token protects only a resource that refuses older tokens. The resource must see the token at the first read of the
// section, because a fence that checks only writes loses updates. Package fence has the check.
//
// Source: ZooKeeper stamps each created node with the id of the transaction that created it (Stat.czxid).
type Token int64

// String returns the token in decimal.
func (t Token) String() string { return strconv.FormatInt(int64(t), 10) }

// Participant is one contender in a queue, a holder or a waiter.
type Participant struct {
	// Path of the contender as the client sees it, without the chroot.
	Path string
	// ID is the data of the contender as text. By default it is the identity of its client ("host/pid").
	ID string
	// Token is the czxid of the contender, and the token of its hold. The hold of a reader that has taken its writer's
	// place has the writer's token, which is smaller.
	Token Token
	// Session that owns the contender.
	Session int64
	// Since is when the contender joined the queue, by the server's clock.
	Since time.Time
}
