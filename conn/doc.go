// Package conn connects to a ZooKeeper ensemble. A client reconnects by itself, opens a new session when the old one
// ends, and keeps track of the time until which its session is proven to be alive.
//
// [New] and [Dial] return a [Client], which outlives individual sessions. A [Session] represents one of them: an
// operation issued on it either runs in that session or fails, and nothing that belongs to it ever runs in a later
// session. Recipes work on sessions, whereas applications mostly work on the client.
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
//	Close leads from every state to Closed, which is final.
//
// In Suspended the connection is lost, but the session may still be alive. In Lost the session is over, and every hold
// with it, for one of the reasons listed at [Session], except Close. The client then opens a new session by itself.
// [Client.States] reports every transition, no matter how slow its reader is.
//
// # Operations
//
// Every operation takes a context and returns shortly after the context is done, connected or not, with an error that
// matches its cause; package zkrecipes describes this under "Conventions". Without a connection, operations wait for
// one, and the error then names the server and the reason why it did not answer:
//
//	get /app: context deadline exceeded (connect to zk1:2181: connection refused)
//
// Reads and [Client.Sync] are retried until a server answers, whereas a write is retried only while it certainly was
// not executed. If the reply to a write is lost, or the context is done before it arrives, the error matches
// zkrecipes.ErrUnknownOutcome, because the write may have been executed, or may be executed shortly afterwards.
//
// Some of Client's writes resolve this by reading the node, so that you rarely have to. [Client.Set] and
// [Client.SetACL] with a version send the write again if the node still has that version. After a lost reply,
// [Client.Delete] treats a missing node as success, and [Client.CreateAll], which also creates missing parents, does
// the same for an existing node with the same data. [Client.DeleteAll] deletes until nothing is left. Finally,
// [Client.CreateProtected] puts a UUID into the node's name, by which it can find the node afterwards.
//
// A Session's operations end with it, while a Client's reads continue in the next session. Reads never go back in time,
// because a server that lags behind what this client has seen refuses the client. There is one exception: if the
// servers have answered only with refusals for a whole session timeout, for example because the ensemble was restored
// from a backup, the client accepts what they have.
//
// Invalid paths and flags are rejected immediately, even without a connection. Requests above [WithMaxRequestSize], and
// more ephemeral nodes than the servers can survive, are rejected before any request is sent. Server errors match
// go-zookeeper's variables, such as zk.ErrNoNode, or else a zkrecipes.Code. To find out which operation failed and on
// which path, use zkrecipes.OpError.
//
// A watch is a channel that is closed once: at the first change, when the client has reconnected, when the session
// ends, or when the client removes its watches on the node. You then read the node again. [Session.GetW],
// [Session.ExistsW] and [Session.ChildrenW] read and set a watch. To follow one node, use [Client.Watch] instead, which
// does this in a loop and reports when its view may be out of date.
//
// # Namespaces, access, encryption
//
// A chroot in the connect string, or [Client.Sub], prepends a prefix to every path that is sent and removes it from
// every path that is received. Recipes and [Client.CreateAll] create the nodes of the prefix as containers;
// [Client.Create] and [Client.Multi] do not.
//
// [WithAuth] sends credentials on every connection, before any request, and [WithSASL] authenticates the client with
// SASL; see package sasl. If a server refuses, the client tries the next one. If all servers refuse, the session ends
// and calls fail with zkrecipes.ErrAuthFailed, but Run, Watch and caches will resume when a server accepts the
// credentials.
//
// [WithACL] sets the access control list (ACL) of nodes created without an explicit one, and [WithACLFunc] sets an ACL
// for each path. [WithTLS] verifies the server's name as given in the connect string, and [WithTLSFunc] supports
// certificates that change.
//
// # Servers that change
//
// Names are resolved again before each round of connection attempts. If the servers themselves change, there are three
// ways to find them: [WithServers] takes their names from a function, a connect string with dns-srv:// from SRV
// records, and [WithEnsembleTracking] from the dynamic configuration of the ensemble. A new list takes effect with the
// next round. Use [WithRebalance] to balance load again after a rolling restart or when servers join the ensemble, and
// [WithPreferredServers] to prefer servers nearby. Sessions and holds survive a move between servers, just like any
// other reconnect.
//
// # Proof of liveness
//
// [Session.ValidUntil] guarantees that no server ends the session before that moment, on this process's clock. Until
// then, its ephemeral nodes still exist unless a client has deleted them. docs/design.md explains the argument under
// "The rule of C2". The guarantee does not cover the following cases, for which a hold has a fencing token:
//
//   - a process that is frozen, or a virtual machine that is suspended;
//   - a leader that was replaced, or an observer master, if the session timeout is below six ticks;
//   - a session timeout below two ticks, which servers grant only if their minSessionTimeout was lowered, unless
//     [WithTickTime] is given;
//   - a leader that was frozen and is then cut off together with the client;
//   - a shorter session timeout, if the answer that grants it is lost: see [WithLeastTimeout];
//   - clocks whose rates differ by more than the margin: see [WithSafetyMargin].
//
// To see the deadline and the end of the session side by side, under faults you choose, open the playground at
// https://zkrecipes.github.io/zkrecipes/, or run make playground in a clone.
//
// The client keeps a session proven while it has holds, and while it acquires or removes a contender, but not for
// callers that only wait in a queue. While servers answer within a fiftieth of the timeout, a hold has more than 0.55
// of the timeout left, or at least 0.3 if it is new. If the servers refuse connections during an outage, holds survive
// one of 0.45 of the timeout: the client reconnects within an eighth of it afterwards. If packets are dropped, attempts
// to connect have to time out first, and holds survive 0.29. Because a large reply delays the answers behind it, a hold
// can run out before they arrive, so read large lists with a separate client.
//
// When the deadline passes, all of the client's holds end before the first of them is logged, traced and removed.
// Ending 1,000 holds takes about 5 ms of processor time, so even the 20,000 or so that a session may have (see
// [WithMaxRequestSize]) end within the default margin of [WithSafetyMargin], which is 750 ms of 15 seconds. Work that
// your program does at the end of one hold may delay the end of others. However, a hold whose state is queried ends
// itself at its deadline.
//
// # Logging
//
// The client logs to the logger set by [WithLogger], by default [slog.Default]:
//
//   - Info, "zookeeper: connected", "suspended" and "closed": the state changed.
//   - Warn, "zookeeper: session lost": the session ended, other than by Close, and with it every hold.
//   - Warn, "zookeeper: hold lost": a hold ended without being released by its owner. If the client was closed, the
//     level is Info.
//   - Info, "zookeeper: cannot connect": an attempt failed. The first failure is logged, then one after 1, 2, 4 seconds
//     and so on, up to one every five minutes. All others are logged at Debug.
//   - Info, "zookeeper: the list of servers has changed": the client has a new list of servers; see [WithServers] and
//     [WithEnsembleTracking].
//   - Warn, "zookeeper: cannot look up the servers, keeping the previous ones" and "some servers cannot be used":
//     of several such errors in a row, only the first is logged, or with [WithEnsembleTracking] one for each
//     configuration.
//   - Warn, "zookeeper: cannot follow the configuration of the ensemble" and "ignored an outdated configuration of the
//     ensemble": see [WithEnsembleTracking]. The keys version and newest identify the configurations.
//   - Info, "zookeeper: the chroot did not exist and was created": the chroot is new, was empty for a while, or is
//     misspelled.
//   - Warn, "zookeeper: the session approaches its limit of ephemeral nodes": see [WithMaxRequestSize].
//     The keys bytes and limit show how close the limit is.
//   - Warn, "zookeeper: the session timeout is too short for WithTickTime": the servers granted less than about two
//     thirds of what [WithTickTime] declares, with the default margin, so holds are lost. One of the two is wrong.
//     The key tick is what was declared.
//   - Warn: anything else that an operator should look at, such as children of a queue that are not contenders.
//
// The keys are the same everywhere:
//
//	server    the server as in the connect string, and behind a name its address: "zk1:2181 (10.0.0.1)"
//	source    where the list of servers comes from
//	servers   the servers on the new list
//	were      the servers on the previous list
//	session   the session's ID, as the servers log it
//	sasl      the client's identity with WithSASL
//	timeout   session timeout that the server granted
//	error     the cause
//	reason    why a session or a hold ended; see zkrecipes.LossReason
//	was       previous state
//	lasted    how long that state lasted
//	holds     how many contenders are held now
//	left      how long until their deadline
//	attempts  how many attempts to connect have failed since the client was last connected
//	for       how long that has been so
//	path      node that the record is about
//	token     the hold's fencing token
//	held      how long it was held
//
// Credentials, session passwords and the data of nodes are never logged. A slow or blocked log handler delays nothing
// else, because a separate goroutine writes the records. Only [Client.Close] waits for the handler, for at most a
// second. Up to 1,000 records may be waiting. Any more are dropped, and their number is logged with the key "dropped".
//
// For health checks, [Client.Status] reports the same facts.
//
// # Cost
//
// A client has four goroutines, and one more for each node of a hold. Opening and closing a session takes about 32 KB
// of memory. The client sends a ping T/3 after sending the latest ping, sync or write that was answered, where T is the
// session timeout, and while there is a hold it also sends a sync about every T/11. After a reconnect, a client
// with a hold sends a transaction that has no effect, and so may one with waiters. Its waiters list their queue again,
// once for all callers of an object, and each sets its watch again with a read. Because watches are shared, a session
// has at most one for each path and kind.
//
// Events can get lost. Each waiting call and each hold therefore rereads what it watches after two to three session
// timeouts, at a rate of at most 200 calls a second for the whole session, usually with one or two reads each. For
// example, at the default timeout, each of 6,000 calls rereads every 30 to 45 seconds, and each of 20,000 calls every
// 100 to 150 seconds. It can take that long to notice a lost event.
package conn
