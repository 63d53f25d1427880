package zktest

// A Release is a release of ZooKeeper, identified by its number, such as "3.8.4". Two numbers, such as "3.8", stand
// for the newest release of that line that zktest was compared with.
type Release string

// The releases that have a name. All others, from 3.8.0 and 3.9.0 on, are identified by their numbers.
const (
	Release38 Release = "3.8" // 3.8.7
	Release39 Release = "3.9" // 3.9.6
	// ReleaseDebian is what Debian 12 packages: 3.8.0, which withholds events as 3.8.4 does.
	ReleaseDebian Release = "3.8.0-11+deb12u2"
)

// WithRelease selects the ZooKeeper release to follow where releases differ; the default is [Release39]. These are the
// differences:
//
//   - 3.8.2, 3.9.0: create2 in a multi is answered with the Stat. Before, it was answered like create.
//   - 3.8.4, 3.9.2: exists needs read permission, and a client that may not read a node gets none of its events.
//     Before, neither needed a permission.
//   - 3.8.5, 3.9.3: check outside a multi is answered like an unknown request. Before, it got no answer if it
//     succeeded, and damaged the server's log.
//   - 3.9.0: an event carries the zxid of its transaction; before, -1. A connection can have several watches of
//     different modes on a path and remove them one by one. Before, the newest replaced the others.
//   - 3.8.7, 3.9.6: setWatches sends no events for nodes that the client may not read, and accepts watches on them.
//   - 3.9.0: a client can send deleteContainer. It deletes any node that is empty and not ephemeral, and needs no
//     permission. Before, the path was never valid. Since 3.8.7 and 3.9.6, it ends the connection.
//   - 3.9.0: a write that the server cannot read takes no zxid. Before, only reconfig took none.
//   - 3.9.0 to 3.9.2: the answer to every handshake has the read-only flag. Before and after, only if the client sent
//     one.
//   - 3.9.4: an ACL of scheme ip may contain an IPv6 address.
func WithRelease(r Release) Option { return option(func(c *config) { c.release = r }) }
