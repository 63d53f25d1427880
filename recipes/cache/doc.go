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
// A node never goes back in time: once the cache has shown a state of it, it never shows an older one, unless the
// ensemble has lost transactions because it was restored from a backup. If a server lags behind one that answered
// before, the cache drops its answer and repeats the request behind a sync. The cache also compares the transactions
// that created a node, so it can distinguish a node that was deleted and recreated from one whose data was set: Watch
// then yields a Deleted and a Created.
//
// Once the nodes stop changing and the connection is stable, the cache equals the server's tree. If you can't wait for
// that, [Cache.Sync] blocks until the cache has everything committed before the call, as far as ZooKeeper's leader
// knows and the client is allowed to read it.
//
// The cache also knows how old it is. [Cache.View] returns a time, AsOf, and whether the cache is current, which means
// that it has everything its server had at that time. If the client is connected to a follower, that server may lag
// behind the ensemble's leader.
//
// A slow reader of [Cache.Watch] neither blocks the cache nor fills a queue. Instead, intermediate states are skipped,
// but never the last one.
//
// # Failures
//
// After a disconnect, or when no server answers for a whole session timeout, the entries remain readable but become
// stale. The view shows this immediately, and readers of [Cache.Watch] receive Behind.
//
// When the client reconnects, in the same session or a new one, the cache sets its watches again. The server then
// reports which of them would have fired while the client was away, and the cache rereads only those nodes. If the
// server refuses to set watches, or three connections in a row break on that request, the cache rereads all nodes
// instead, until a recheck finds that the server can set watches.
//
// [Cache.Close] removes the watches that no other cache on the same client needs. Closing the client also closes the
// cache. You can still read entries after that, but calls that wait return an error that matches [zkrecipes.ErrClosed].
//
// A cache that exceeds its limit on nodes or bytes stops with [ErrTooMuch].
//
// # Nodes that cannot be read
//
// If the client may not read a node, or its list of children is larger than conn.WithMaxReplySize, the node's
// [Entry.Err] is set. View.Failed counts these failures. They don't affect View.Current, and Ready and Sync return such
// an error only if the node is the root. Because ZooKeeper does not notify the cache when a node becomes readable,
// [Cache.Sync] and each recheck, by default one every five minutes, try again; see [WithRecheck].
//
// Since ZooKeeper 3.8.4 and 3.9.2, servers withhold a node's events while the client may not read it. As a result, only
// the next Sync or recheck finds what was written during that time, even if the node has become readable again. Until
// then, the cache counts as current even though it has the old data. If the node is still unreadable and was not
// written to, the cache keeps the data it read before.
//
// From ZooKeeper 3.8.7 and 3.9.6 on, servers also withhold it from a Sync, a recheck or a reconnect during that time.
// If there was one, the cache keeps the old data until the node changes again.
//
// # What is not guaranteed
//
// A cache is not transactional: if two nodes are changed in one transaction, the cache may show one change before the
// other. Its contents may also predate a lock that you hold, so call [Cache.Sync] after acquiring the lock.
//
// After servers are restored from a backup, they can report different nodes under transaction IDs that the cache has
// already seen. The cache notices this if the servers' transaction IDs have gone back. If they have not, close the
// cache and open a new one.
//
// # Cost
//
// A cache creates no nodes. On the server it has at most two watches for each cached node, one on its data and one on
// its children. Loading a tree takes a getData for each node, a getChildren for each node with children, and one
// request for every few thousand leaves to set their watches. After that, a change to a node's data takes one request.
// When children are created or deleted, the cache reads the whole list and each new child, so a node with many children
// that come and go is expensive. A reconnect, a recheck and a Sync each take one request for every few thousand nodes;
// a recheck and a Sync also reread whatever has changed since the previous one. If the server cannot set watches again,
// each of the three reads all nodes.
//
// In memory, a node takes about 110 bytes plus its name and data, and some 70 more if it has children or is ephemeral.
// To save memory, use [WithoutData], which keeps no data, or [WithFilter], which leaves out nodes that you don't need.
//
// # Compatibility
//
// A cache only reads, so it does not matter which client writes the nodes. [Node], [Children] and [Tree] correspond to
// Curator's NodeCache, PathChildrenCache and TreeCache.
package cache
