// Package cache maintains an in-memory copy of nodes in ZooKeeper that follows every change: of one node, of a node and
// its children, or of a whole tree. It is the counterpart of CuratorCache in Apache Curator for Java.
//
//	config, err := cache.Tree(client, "/app/config")
//	...
//	defer config.Close(ctx)
//	err = config.Ready(ctx)             // blocks until the cache is complete
//	e, ok := config.Get("/app/config/limit")
//
// # Guarantees
//
// Each path only moves forward: what the cache shows of a node is never older than what it has shown before. A node
// that was deleted and created again is distinguished from one that was set, because the cache compares the
// transactions that created it.
//
// Once the nodes and the connection are quiet, the cache equals the tree of the server. At any time, [Cache.Sync]
// blocks until the cache has everything that was committed before the call, as far as ZooKeeper's leader knows and the
// client may read.
//
// The cache reports how old it is. [Cache.View] has a time, AsOf, and reports whether the cache is current, which means
// that it has everything that its server had at that time. While the client is connected to a follower of the ensemble,
// that server may be behind its leader.
//
// A slow reader of [Cache.Watch] blocks nothing and fills no queue. It misses intermediate steps, but never the last
// state.
//
// # Failures
//
// After a disconnect, or if no server has answered for the session timeout, the entries remain readable and become
// stale. The view reports this at once, and readers of [Cache.Watch] receive Behind.
//
// When the client has reconnected, in the same session or a new one, the cache sets its watches again. The server
// reports which of them would have fired in the meantime, and the cache reads only those nodes. If the server refuses
// to set watches, or three connections in a row end when it is asked to, the cache rereads all nodes instead, until a
// recheck finds that the server can set watches.
//
// [Cache.Close] removes the watches that no other cache of the client needs. Closing the client ends the cache too.
// Afterwards entries can still be read, and calls that wait return an error that matches [zkrecipes.ErrClosed].
//
// A cache with more nodes or bytes than its bounds ends with [ErrTooMuch].
//
// # Nodes that cannot be read
//
// A node that the client may not read, or whose list of children is larger than conn.WithMaxReplySize, is an entry with
// an error. View.Failed counts such parts. They leave View.Current true, and Sync returns nil. If the root is such a
// node, Ready and Sync return its error. The cache is not notified when such a node becomes readable. [Cache.Sync] and
// each recheck try again; see [WithRecheck].
//
// Since ZooKeeper 3.8.4 and 3.9.2, servers withhold the events of a node while the client may not read it. What was
// written in that time is found by the next Sync or recheck, even if the node has become readable. Until then the cache
// is current and has the old data. If the node is still unreadable and was not written, the cache keeps the data that
// it read before.
//
// # What is not guaranteed
//
// A cache is not transactional: two nodes that were changed together change one after the other. What the cache shows
// may be older than a lock that the caller holds, so call [Cache.Sync] after the lock was granted.
//
// If the servers are restored from a backup, they can report different nodes under old transaction numbers. The cache
// notices this if the numbers of the servers went back. Otherwise close it and open a new one.
//
// # Cost
//
// A cache creates no nodes. Each cached node has at most two watches on the server, one on its data and one on its
// children. Loading a tree takes one getData for each node, one getChildren for each node with children, and one
// request to set the watches of some thousand leaves. A change takes one request after its event. A change of the
// children takes the whole list, and a getData for each new child, so a node whose many children come and go is
// expensive. A reconnect, a recheck and a Sync each take one request for some thousand nodes. A recheck and a Sync also
// reread what has changed since the previous one. With a server that cannot set watches again, each of them reads all
// nodes.
//
// In memory a node takes about 110 bytes in addition to its name and its data, and some 70 more if it has children or
// is ephemeral. [WithoutData] saves the data. [WithFilter] leaves nodes out, which are then neither read nor watched.
//
// # Compatibility
//
// A cache only reads, so it follows nodes whichever client writes them. [Node], [Children] and [Tree] correspond to
// Curator's NodeCache, PathChildrenCache and TreeCache.
package cache
