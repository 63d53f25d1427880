// Package conn keeps a connection to a ZooKeeper ensemble: it connects, reconnects, opens a new session when one has
// ended, and says up to which moment a session is proven to be alive.
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
// Suspended says that the connection is gone while the session may live on. Lost says that the session is over, by the
// word of the server or for want of answers for a whole timeout, and every hold on it with it; the client opens a new
// one by itself. [Client.States] misses none of them, however slow its reader.
//
// # Operations
//
// Every operation takes a context and returns with an error that matches its cause soon after it ends, connected or not.
// While there is no connection operations wait for one.
//
// Reads and Sync are repeated until they are answered. Writes are repeated only as long as they were certainly not
// executed. One whose reply was lost, or whose context ended first, may have been executed: its error matches
// zkrecipes.ErrUnknownOutcome, and it may still be executed shortly after. Two writes of Client look for themselves: a
// versioned [Client.Set] is repeated if the node still has the version, and [Client.Delete] takes a node that is gone
// for success. Operations of Session end with it; reads of Client go on in the next session, and never go back in time: a
// server that lags behind what this client has seen refuses it. The exception is an ensemble without any server as new, such
// as one restored from a backup: when servers have refused it for a session timeout, the client takes what there is.
//
// Bad paths and flags, and requests above [WithMaxRequestSize], are refused before anything is sent.
// What the server said can be matched with errors.Is: the variables of go-zookeeper, such as zk.ErrNoNode, and [Code]
// for codes that it has none for. [OpError] names the operation and the path.
//
// A [Watch] fires at the first change, and whenever a connection has been away: whoever waits reads again.
//
// The calls that start something and do not wait for it ([Session.StartCreate], [Session.StartDelete],
// [Session.ReadChildren]), and what belongs to them, are what the recipes are made of. A program that uses recipes has no
// need for them.
//
// # Namespaces, access, encryption
//
// A chroot in the connect string, and [Client.Sub], put a prefix before every path that goes out and take it off every
// path that comes back. Its nodes need not exist for the recipes, which make them as containers; [Client.Create] and
// [Client.Multi] do not make them. [WithAuth] sends credentials on every connection before any request; when they are
// refused the session ends and calls fail with [ErrAuthFailed]. [WithACL] is the access list of what is created without
// one of its own. [WithTLS] verifies the name in the connect string. SASL is not supported.
//
// # Proof of liveness
//
// [Session.ValidUntil] promises: before that moment, on the clock of this process, no server has ended the session, so
// its ephemeral nodes are still there unless somebody has deleted them.
//
// The leader of the ensemble ends sessions, from what its followers report to it at least twice a tick. What a follower
// answers proves nothing by itself: one that is cut off goes on answering for a while. What the leader has answered
// (sync, create, delete, set, multi) proves that every contact at least half a tick older has been reported, since both
// travel the same connection in order. So, with T the negotiated timeout: take the newest request that the leader has
// served and answered, sent at p; take the newest request whose answer had come by p - T/4, sent at c; then
//
//	ValidUntil = c + T - margin
//
// A quarter of T is the most that half a tick can be, since a server grants no less than two ticks by default. Told the
// tick with [WithTickTime], a tick and a half takes its place if that is shorter. If the ensemble's minSessionTimeout is
// set below two ticks, WithTickTime is needed for the promise to hold. All times are taken before a request leaves, and
// are monotonic.
//
// The connect answer for a new session proves its own request, because a quorum has agreed to it. That for a session which
// is resumed does not: a leader that was frozen or cut off, and replaced, may give it before it finds out, which takes it
// up to a tick and a half, while its successor counts from its own beginning. The first write that succeeds on the
// connection shows that there was no successor, and then the connect request counts. While anybody holds, a transaction
// that changes nothing is sent for that, once for every connection.
//
// From the moment a resumption is asked for, the server may count with a shorter timeout than before. Until an answer
// tells, the deadline is at most two ticks after the request left, as told with WithTickTime, otherwise T/10. A server
// that hangs up without an answer has granted nothing. A session that is resumed with so long a timeout that it cannot be
// proven any more ends.
//
// The margin, T/20 unless [WithSafetyMargin] says otherwise, is for clocks that run at different rates, here and on the
// leader, and for a follower that reports a little late.
//
// The promise does not cover:
//
//   - a process that is frozen, or a virtual machine whose monotonic clock stands while it is suspended: the code that
//     runs after it has looked at the clock may run late, by any time;
//   - a leader that has been replaced, and goes on answering the client until it finds out, or a server that reports
//     through an observer master, when the session timeout is below six ticks;
//   - a leader that was frozen for long enough to be replaced, though for less than the 3T/8 after which the client tries
//     another server, and when it goes on is cut off from the others so that it cannot find out, with the client on its
//     side: it takes itself for the leader for syncLimit ticks more;
//   - a server that resumes a session with a shorter timeout than it had, and dies before it can answer, or does so only
//     after another server has resumed the session; or grants less than two ticks. While maxSessionTimeout is lowered
//     below what clients ask for, such servers can exist;
//   - clocks whose rates differ by more than the margin.
//
// For these there is the fencing token of a hold.
//
// The proof is kept fresh only while somebody needs it ([Session.Retain], as every contender and hold does): then a sync
// goes out every T/8, which in good health keeps the deadline at least about 0.45 T ahead, and a connection that leaves
// one unanswered for T/4, while no part of a reply arrives, is dropped for another server. A reply that takes long to
// arrive holds up the answers behind it: a hold can run out meanwhile, so read large lists with a client of their own. An idle session is not proven, and is not lost for that:
// [Session.Prove] asks.
//
// # What it logs
//
// To the logger of [WithLogger], by default nowhere: changes of state and dropped connections as Info, the end of a
// session and connections that do not end as Warn, failed attempts to connect and what go-zookeeper says as Debug. The
// recipes log as Warn what an operator should look at, such as children of a queue that are no contenders. That a hold
// was lost is not logged: its owner is told. Credentials and session passwords are never logged. A log handler that is slow
// or blocks holds nothing up: a goroutine of its own writes, up to 1,000 records wait, and of more the number is logged.
//
// There are no metrics; [Client.States] and the errors are what to count.
//
// # What it costs
//
// A client has about six goroutines, one more for each node of a hold, and one for each operation that waits for room on
// the connection. go-zookeeper, which opens, keeps and closes the session, allocates 3 MiB of buffers for a connection. It
// sends a ping every T/3, and while there are contenders or holds a sync goes out every T/8. After a reconnect a client
// that holds sends a transaction that changes nothing, and those who wait set their watches again with a read. Watches are
// shared: a session has at most one for each path and kind.
package conn
