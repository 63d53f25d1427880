// Package conn keeps a connection to a ZooKeeper ensemble. It connects, reconnects, and opens a new session when one has
// ended. It says up to which moment a session is proven to be alive.
//
// [New] and [Dial] return a [Client], which lives through many sessions. A [Session] is one of them: an operation issued on it
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
// Bad paths and flags, requests above [WithMaxRequestSize], and more ephemeral nodes than servers survive, are refused before anything
// is sent. Errors of the server match the variables of go-zookeeper, such as zk.ErrNoNode, or else a zkrecipes.Code. zkrecipes.OpError
// names the operation and the path.
//
// A watch is a channel that is closed once: at the first change, or when the connection was lost. Then read again.
// [Session.GetW], [Session.ExistsW] and [Session.ChildrenW] read and set one. [Client.Watch] does all that for one node, in a
// loop that says when its view is no longer current.
//
// # Namespaces, access, encryption
//
// A chroot in the connect string, and [Client.Sub], put a prefix before every path that goes out and remove it from every
// path that comes back. Recipes and [Client.CreateAll] create the nodes of the prefix as containers; [Client.Create] and
// [Client.Multi] do not.
//
// [WithAuth] sends credentials on every connection before any request. If a server refuses them, the client goes on to the next one. If
// all servers refuse, the session ends, and calls fail with zkrecipes.ErrAuthFailed; Run, Watch and caches resume when a server accepts
// the credentials. [WithACL] is the access list of nodes that are created without their own. [WithTLS] verifies the name
// in the connect string, and [WithTLSFunc] takes certificates that change. [WithSASL] shows who the client is by SASL, see package sasl.
//
// # Servers that change
//
// Names are looked up again before each round of attempts to connect. [WithServers] asks a function for the names, a connect string with
// dns-srv:// takes them from SRV records, and [WithEnsembleTracking] from the dynamic configuration of the ensemble. A new list counts from the
// next round on. [WithRebalance] spreads clients again after a rolling restart. Sessions and holds live on as over any reconnect.
//
// # Proof of liveness
//
// [Session.ValidUntil] promises: before that moment, on the clock of this process, no server has ended the session. So its
// ephemeral nodes are still there, unless a client has deleted them. docs/design.md says what that rests on: "The rule of C2".
// The promise does not cover these cases, for which a hold has a fencing token:
//
//   - a process that is frozen, or a virtual machine that is suspended;
//   - a leader that was replaced, or an observer master, if the session timeout is below six ticks; or a leader that was frozen
//     and is then cut off together with the client;
//   - a shorter session timeout, if the answer that grants it is lost: see [WithLeastTimeout];
//   - clocks whose rates differ by more than the margin: see [WithSafetyMargin].
//
// The playground draws the deadline and the end of the session side by side, on faults of the reader's choice:
// https://zkrecipes.github.io/zkrecipes/, or make playground in a clone.
//
// Only a session with holds is proven. While servers answer within a fiftieth of the timeout, a hold that is not quite new has more
// than 0.55 of it left; a new one has at least 0.3. A client needs up to an eighth to come back. So holds survive an outage of 0.45
// of the timeout, if the servers refuse connections meanwhile. If packets are swallowed, they survive 0.29. A large reply delays
// the answers behind it, and a hold can run out meanwhile: so read large lists with a client of their own.
//
// When the deadline passes, all holds of the client end before the first of them is logged, traced and removed. To end 1,000 holds
// takes about 5 ms of processor time. So the 20,000 or so that a session may have (see [WithMaxRequestSize]) end within the default
// margin of [WithSafetyMargin], which is 750 ms of 15 s. Work of the program that waits for the end of one hold may delay
// the end of others. If a caller asks a hold, that hold ends itself at its deadline.
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
//   - Info, "zookeeper: the servers are others now": see [WithServers] and [WithEnsembleTracking].
//   - Warn, "zookeeper: cannot ask for the servers, the last ones stay", and "a part of the servers cannot be used": the first of
//     such errors in a row.
//   - Warn, "zookeeper: cannot follow the configuration of the ensemble", and "an older configuration of the ensemble is ignored": see
//     [WithEnsembleTracking]. The keys version and newest are those of the configurations.
//   - Info, "zookeeper: the chroot did not exist and was made": it is new, or was empty for a while, or is a typing error.
//   - Warn, "zookeeper: the session has many ephemeral nodes, and more are refused soon": see [WithMaxRequestSize]. The keys bytes and
//     limit say how near that is.
//   - Warn: what an operator should look at, such as children of a queue that are no contenders.
//
// The keys are the same everywhere:
//
//	server    the server as in the connect string, and behind a name its address: "zk1:2181 (10.0.0.1)"
//	source    what has named the servers
//	servers   the servers by the new list
//	were      the servers by the list before
//	session   id of the session, as the servers log it
//	sasl      who the client is by WithSASL
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
// goes out when nothing was answered for T/3, and while there is a hold a sync about every T/11. After a reconnect, a client with a
// hold sends a transaction that changes nothing, and so does a client with waiters. Waiters set their watches again with a read. Watches are shared: a
// session has at most one for each path and kind.
//
// An event may be lost. So each call that waits, and each hold, reads again after two to three session timeouts what it watches. All
// of one session together read 200 times a second at most. So each of 6,000 calls reads every 30 to 45 s at the default timeout,
// and each of 20,000 every 100 to 150 s. A lost event is noticed as late.
package conn
