package zkrecipes

import (
	"strconv"
	"time"
)

// Token is a fencing token: the czxid of the contender behind a [Hold]. Every acquisition has a larger token than all
// acquisitions before it on the same ensemble, also after a container was reaped and its sequence numbers started again.
// A reader that takes the place of its writer (package rwlock) keeps the writer's token, since the next writer may have
// its own already.
//
// A token protects only a resource that refuses older ones, and that resource must see the token at the first read of
// the section: a fence that is checked on the write alone loses updates. Package fence has the check.
//
// Source: ZooKeeper stamps each created node with the id of the transaction that created it (Stat.czxid).
type Token int64

// String returns the token in decimal.
func (t Token) String() string { return strconv.FormatInt(int64(t), 10) }

// Participant is one contender in a queue: a holder or a waiter.
type Participant struct {
	// Path of the contender, as the client sees it: the chroot is taken off.
	Path string
	// Data of the contender: what the option WithData of its recipe says, by default the identity of its client ("host/pid").
	// They must not be changed. A request to release replaces them.
	Data []byte
	// Name is Data as text. It is empty if Data are no UTF-8, or are a request to release.
	Name string
	// Token that the contender has, or will have, as a holder: its czxid. A reader that has taken its writer's place has
	// the writer's token instead, which is smaller.
	Token Token
	// Session that owns the contender.
	Session int64
	// Since is when the contender joined the queue, by the server's clock.
	Since time.Time
}
