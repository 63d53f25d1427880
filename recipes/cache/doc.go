// Package cache keeps an in-memory copy of ZooKeeper nodes that follows every change: of a single node, of a node and
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
// Each path only moves forward: the cache never shows an older state of a node after a newer one. Because it compares
// the transactions that created a node, it distinguishes a node that was deleted and recreated from one whose data was
// set.
//
// Once the nodes and the connection are quiet, the cache equals the server's tree. At any time, [Cache.Sync] blocks
// until the cache has everything that was committed before the call, as far as ZooKeeper's leader knows and the client
// may read.
//
// The cache knows its age: [Cache.View] returns a time, AsOf, and whether the cache is current, which means that it has
// everything its server had at that time. While the client is connected to a follower, that server may lag behind the
// ensemble's leader.
//
// A slow reader of [Cache.Watch] neither blocks the cache nor fills a queue. It misses intermediate steps, but never
// the last state.
//
// # Failures
//
// After a disconnect, or when no server answers for a whole session timeout, the entries remain readable but become
// stale. The view shows this at once, and readers of [Cache.Watch] receive Behind.
//
// When the client reconnects, in the same session or a new one, the cache sets its watches again, and rereads only the
// nodes whose watches would have fired in the meantime, which the server reports. If the server refuses to set watches,
// or three connections in a row break on that request, the cache rereads all nodes instead, until a recheck finds that
// the server can set watches.
//
// [Cache.Close] removes the watches that no other cache on the same client needs. Closing the client ends the cache
// too. Entries can still be read after that, while calls that wait return an error that matches [zkrecipes.ErrClosed].
//
// A cache that exceeds its limit on nodes or bytes ends with [ErrTooMuch].
//
// # Nodes that cannot be read
//
// If the client may not read a node, or its list of children is larger than conn.WithMaxReplySize, the node's entry has
// an error. View.Failed counts such failures, which leave View.Current true and do not make Sync fail. Only if the root
// is such a node do Ready and Sync return its error. ZooKeeper does not notify the cache when such a node becomes
// readable, so [Cache.Sync] and each recheck try again; see [WithRecheck].
//
// Since ZooKeeper 3.8.4 and 3.9.2, servers withhold a node's events while the client may not read it. What is written
// in that time is found only by the next Sync or recheck, even if the node is readable again by then. Until then, the
// cache counts as current although it has the old data. If the node is still unreadable and was not written, the cache
// keeps the data that it read before.
//
// # What is not guaranteed
//
// A cache is not transactional: two nodes that were changed together change one after the other. Its contents may also
// be older than a lock that you hold, so call [Cache.Sync] after acquiring the lock.
//
// Servers that are restored from a backup can report different nodes under old transaction ids. The cache notices this
// if the servers' transaction ids have gone back. Otherwise, close the cache and open a new one.
//
// # Cost
//
// A cache creates no nodes. On the server it has at most two watches for each cached node, one on its data and one on
// its children. Loading a tree takes a getData for each node, a getChildren for each node with children, and one
// request for every few thousand leaves to set their watches. A change takes one request after its event. When children
// are created or deleted, the cache reads the whole list and each new child, so a node whose many children come and go
// is expensive. A reconnect, a recheck and a Sync each take one request for every few thousand nodes; a recheck and a
// Sync also reread what has changed since the previous one. If the server cannot set watches again, each of them reads
// all nodes.
//
// In memory, a node takes about 110 bytes plus its name and data, and some 70 more if it has children or is ephemeral.
// [WithoutData] saves the data, and [WithFilter] leaves out nodes, which are then neither read nor watched.
//
// # Compatibility
//
// A cache only reads, so it does not matter which client writes the nodes. [Node], [Children] and [Tree] correspond to
// Curator's NodeCache, PathChildrenCache and TreeCache.
package cache
