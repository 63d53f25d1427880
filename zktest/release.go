package zktest

import "github.com/zkrecipes/zkrecipes/zktest/internal/proto"

// A Release is a release of ZooKeeper, identified by its number, such as "3.8.4". A number with only two parts, such as
// "3.8", means the latest release of that line that zktest was compared with.
type Release string

// The releases that have a name. Use the number of any other release, from 3.8.0 and 3.9.0 on.
const (
	Release38 Release = "3.8" // 3.8.7
	Release39 Release = "3.9" // 3.9.6
	// ReleaseDebian is what Debian 12 packages: 3.8.0, which withholds events as 3.8.4 does.
	ReleaseDebian Release = proto.Debian
)

// WithRelease selects the ZooKeeper release whose behavior the server follows; the default is [Release39]. The releases
// differ as follows:
//
//   - 3.8.2, 3.9.0: create2 in a multi is answered with the Stat. Previously it was answered like create.
//   - 3.8.4, 3.9.2: exists needs read permission, and a client that may not read a node gets none of its events.
//     Previously neither required permission.
//   - 3.8.5, 3.9.3: check outside a multi is answered like an unknown request. Previously, if it succeeded, it got no
//     answer and damaged the server's log.
//   - 3.9.0: an event carries the zxid of its transaction; previously it carried -1. A connection can have several
//     watches of different modes on a path and remove them one by one. Previously the latest one replaced the others.
//   - 3.8.7, 3.9.6: setWatches sends no events for nodes that the client may not read, and accepts watches on them.
//   - 3.9.0: a client can send deleteContainer. It deletes any node that is empty and not ephemeral, and needs no
//     permission. Previously the path was never valid. Since 3.8.7 and 3.9.6, the request ends the connection.
//   - 3.9.0: a write that the server cannot parse takes no zxid. Previously only reconfig took none.
//   - 3.9.0 to 3.9.2: the answer to every handshake has the read-only flag. In all other releases it has one only if
//     the client sent one.
//   - 3.9.4: an ACL of scheme ip may contain an IPv6 address.
func WithRelease(r Release) Option { return option(func(c *config) { c.release = r }) }
