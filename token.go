package zkrecipes

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/zkrecipes/zkrecipes/layout"
)

// Token is a fencing token: the czxid of the contender behind a [Hold]. Every new contender has a larger token than all
// earlier ones on the same ensemble, even if a container was reaped and its sequence numbers started over. Of two
// contenders that exclude each other, the one that is granted later has the larger token. Holds on one contender, such
// as those of a reentrant mutex, share a token. When a write lock is downgraded to a read lock (package rwlock), it
// keeps the writer's token, because the next writer may already have its own.
//
// Tokens of different locks follow the order in which the contenders were created, which may not be that of the grants.
// Never compare tokens of different locks.
//
// A token protects a resource only if the resource rejects older tokens. The resource must see the token as early as
// the first read of the critical section, because a fence that is checked only on writes doesn't prevent lost updates.
// Package fence implements the check.
//
// Source: ZooKeeper stamps each created node with the ID of the transaction that created it (Stat.czxid).
type Token int64

// String returns the token in decimal.
func (t Token) String() string { return strconv.FormatInt(int64(t), 10) }

// Participant is one contender in a queue: a holder or a waiter.
type Participant struct {
	// Path of the contender, without the chroot.
	Path string
	// Data is the contender's data: what was passed to the recipe's WithData option, or by default the identity of its
	// client ("host/pid"). It must not be modified. A request to release the hold replaces the data.
	Data []byte
	// Name is Data as text. It is empty if Data is not UTF-8 or is a request to release.
	Name string
	// Token that the contender has, or will have, as a holder: its czxid. A reader downgraded from a writer has the
	// writer's token instead, which is smaller.
	Token Token
	// Session that owns the contender.
	Session int64
	// Since is when the contender joined the queue, by the server's clock.
	Since time.Time
}

// String describes the contender as errors do: its name, session and token, and when it joined.
func (p Participant) String() string {
	name := "unnamed" // its contender has no data
	switch {
	case p.Name != "":
		name = strconv.Quote(strings.ToValidUTF8(excerpt(p.Name), "")) // without a part of the last letter
	case string(p.Data) == layout.RevokeRequest: // which Curator's Revoker writes over the name
		name = "a contender that was asked to release"
	case len(p.Data) > 0:
		name = strconv.Quote(string(excerpt(p.Data)))
	}
	session := fmt.Sprintf("session 0x%x", uint64(p.Session))
	if p.Session == 0 {
		session = "not ephemeral: it stays when its process ends"
	}
	return fmt.Sprintf("%s (%s, token %d, since %s)", name, session, p.Token, p.Since.Format(time.RFC3339))
}
