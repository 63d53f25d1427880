// Package conn keeps a connection to a ZooKeeper ensemble. It connects, reconnects, and opens a new session when one has
// ended. It says up to which moment a session is proven to be alive.
//
// [Dial] returns a [Client], which lives through many sessions. A [Session] is one of them: an operation issued on it
// runs in it or fails, and nothing that belongs to it ever runs in the session after it. Recipes work on sessions;
// applications mostly work on the client.
//
// # States
//
//	             first session            connection lost
//	Connecting ----------------> Connected ---------------> Suspended
//	                              ^  |  ^                       |  |
//	                              |  |  +-----------------------+  |
//	                              |  |     same session again      |
//	                  next session|  |session over                 |session over
//	                              |  v                             |
//	                              Lost <---------------------------+
//
//	Close leads from every state to Closed, and nothing leads from there.
//
// Suspended: the connection is gone, and the session may live on. Lost: the session is over, and every hold with it. The
// server said so, or answered nothing for a whole timeout. The client opens a new session by itself.
// [Client.States] misses no state, however slow its reader is.
//
// # Operations
//
// Every operation takes a context and returns soon after it ends, connected or not, with an error that matches its cause. If the
// cause is what a server has answered to another call, such as zk.ErrNoNode in an errgroup, the error prints it only.
// Without a connection, operations wait for one. The error then names the server, and why it gives no answer:
//
//	get /app: context deadline exceeded (connect to zk1:2181: connection refused)
//
// Reads and [Client.Sync] are repeated until a server answers. A write is repeated only as long as it was certainly not executed.
// If the reply to a write is lost, or its context ends first, its error matches zkrecipes.ErrUnknownOutcome: it may have been
// executed, or may be executed shortly after. Three writes of Client find out by reading: a versioned [Client.Set] is sent
// again if the node still has the version, and [Client.Delete] takes a missing node for success. [Client.CreateAll] makes
// missing parents, and takes a node with its data for success.
//
// Operations of Session end with it. Reads of Client go on in the next session, and never go back in time: a server that lags
// behind what this client has seen refuses it. There is one exception. If servers have only refused for a session timeout,
// as after an ensemble was restored from a backup, the client takes what there is.
//
// Bad paths and flags, and requests above [WithMaxRequestSize], are refused before anything is sent. Errors of the server
// match the variables of go-zookeeper, such as zk.ErrNoNode, or else a [Code]. [OpError] names the operation and the path.
//
// A watch is a channel that is closed once: at the first change, or when the connection was lost. Then read again.
// [Session.GetW], [Session.ExistsW] and [Session.ChildrenW] read and set one. [Client.Follow] does all that for one node, in a
// loop that says when its view is no longer current.
//
// # Namespaces, access, encryption
//
// A chroot in the connect string, and [Client.Sub], put a prefix before every path that goes out and remove it from every
// path that comes back. Recipes and [Client.CreateAll] create the nodes of the prefix as containers; [Client.Create] and
// [Client.Multi] do not.
//
// [WithAuth] sends credentials on every connection before any request. If they are refused, the session ends, and calls fail
// with [ErrAuthFailed]. [WithACL] is the access list of nodes that are created without their own. [WithTLS] verifies the name
// in the connect string. SASL is not supported.
//
// # Proof of liveness
//
// [Session.ValidUntil] promises: before that moment, on the clock of this process, no server has ended the session. So its
// ephemeral nodes are still there, unless a client has deleted them.
//
// The leader of the ensemble ends sessions, by what its followers report to it at least twice a tick. An answer of a follower
// proves nothing by itself: a follower that is cut off goes on answering for a while. An answer of the leader (to sync, create,
// delete, set, multi) proves that every contact at least half a tick older has been reported, since answer and report travel
// the same connection in order. So, with T the least timeout negotiated for the session: let p be when the newest request was
// sent that the leader has served and answered. Let c be when the newest request was sent whose answer came by p - T/4. Then
//
//	ValidUntil = c + T - margin
//
// Half a tick is at most T/4, since a server grants no less than two ticks by default. With [WithTickTime], a tick and a half
// takes the place of T/4 if that is shorter. If minSessionTimeout of the ensemble is below two ticks, the promise needs
// WithTickTime. All times are monotonic, and taken before a request leaves.
//
// The connect answer for a new session proves its own request, because a quorum has agreed to it. The connect answer for a
// resumed session does not: a leader that was replaced may give it before it finds out, which takes up to a tick and a half.
// Its successor counts from its own beginning. The first write that succeeds on the connection
// shows that there was no successor, and then the connect request counts. While there is a hold, the client sends a
// transaction that changes nothing for that, once for every connection.
//
// The client asks for the timeout that it was granted when it resumes a session. A server with a lower maximum counts with
// that, and its answer may be lost. With [WithLeastTimeout], the deadline is at most that long after the request left, until
// an answer comes. A server that hangs up without an answer may have resumed the session all the same. If a session is resumed
// with a timeout so long that it cannot be proven any more, it ends.
//
// The margin, T/20 unless [WithSafetyMargin] says otherwise, is for clocks that run at different rates, here and on the
// leader, and for a follower that reports a little late.
//
// The promise does not cover:
//
//   - a process that is frozen, or a virtual machine whose monotonic clock stands while it is suspended: code that has looked
//     at the clock may run late, by any time;
//   - a leader that was replaced, and goes on answering the client until it finds out, or a server that reports through an
//     observer master, if the session timeout is below six ticks;
//   - a leader that was frozen for long enough to be replaced, but for less than the 3T/8 after which the client tries another
//     server. If it is then cut off with the client on its side, it takes itself for the leader for syncLimit ticks more;
//   - a server that resumes a session with a shorter timeout than before, if its answer is lost or another server has resumed
//     the session since. Such servers exist while maxSessionTimeout is lowered below what clients ask for. WithLeastTimeout
//     covers the answers that are lost, unless a server grants less than that;
//   - clocks whose rates differ by more than the margin.
//
// For these cases a hold has a fencing token.
//
// The proof is kept fresh only while there is a hold. Then a sync goes out every T/8, which in good health keeps the deadline
// at least about 0.45 T ahead. If a sync is unanswered for T/4, and no part of a reply arrives meanwhile, the connection is
// dropped for another server. A reply that takes long to arrive delays the answers behind it, and a hold can run out
// meanwhile: so read large lists with a client of their own. A session without holds is not proven, and is not lost for that.
//
// # What it logs
//
// To the logger of [WithLogger], by default [slog.Default]:
//
//   - Info, "zookeeper: connected", "suspended" and "closed": the state has changed.
//   - Warn, "zookeeper: session lost": the session has ended, other than by Close, and every hold with it.
//   - Warn, "zookeeper: hold lost": a hold has ended, and its owner did not release it. Info if the client was closed.
//   - Info, "zookeeper: cannot connect": an attempt has failed. The first is logged, then one after 1 s, 2 s, 4 s and so on, at
//     last one every five minutes. The others are Debug.
//   - Info, "zookeeper: the chroot did not exist and was made": it is new, or was empty for a while, or is a typing error.
//   - Warn: what an operator should look at, such as children of a queue that are no contenders.
//
// The keys are the same everywhere:
//
//	server    address of the server, as in the connect string
//	session   id of the session, as the servers log it
//	timeout   session timeout that the server has granted
//	error     the cause
//	reason    why a session or a hold has ended; see zkrecipes.LossReason
//	was       state before
//	lasted    how long that state lasted
//	holds     how many contenders are held now
//	left      how long until their deadline
//	attempts  how many attempts to connect have failed since a server was there
//	for       how long that has been so
//	path      node that the record is about
//	token     fencing token of the hold
//	held      how long it was held
//
// Credentials, session passwords and the data of nodes are never logged. A log handler that is slow or blocks delays nothing: a
// goroutine of its own writes, up to 1,000 records wait, and the number of dropped records is logged with the key "dropped".
//
// [Client.Status] has the same facts for a health check.
//
// # What it costs
//
// A client has four goroutines, and one more for each node of a hold. A session takes about 32 KB to open and close. A ping
// goes out every T/3, and while there is a hold a sync every T/8. After a reconnect, a client with a hold sends a transaction
// that changes nothing, and so does a client with waiters. Waiters set their watches again with a read. Watches are shared: a
// session has at most one for each path and kind.
package conn
