package zkrecipes

import (
	"strconv"
	"time"
)

// Token is a fencing token: the czxid of the contender behind a [Hold]. Every acquisition has a larger one than all
// before it on the same ensemble, also after a container was reaped and its sequence numbers started again. A reader that
// takes the place of its writer (package rwlock) goes on with the writer's token, as the next writer may be in line
// already.
//
// A token protects only a resource that refuses older ones, and that resource must see the token at the first read of
// the section: a fence that is checked on the write alone loses updates. Package fence has the check.
//
// Source: ZooKeeper stamps each created node with the id of the transaction that created it (Stat.czxid).
type Token int64

// String returns the token in decimal.
func (t Token) String() string { return strconv.FormatInt(int64(t), 10) }

// Participant is one contender in a queue: the holder, or one who waits.
type Participant struct {
	// Path of the contender, as the client sees it: the chroot is taken off.
	Path string
	// ID is the data of the contender as text: by default the identity of its client ("host/pid").
	ID string
	// Token the contender has, or will have, as a holder: its czxid. A hold of a reader that has taken its writer's place has
	// that of the writer, a smaller one.
	Token Token
	// Session that owns the contender.
	Session int64
	// Since is when the contender joined the queue, by the server's clock.
	Since time.Time
}
