// Package cache keeps a copy of nodes in memory that follows the nodes in ZooKeeper: of one node, of a node and its
// children, or of a whole tree. It is what Apache Curator's CuratorCache is for Java.
//
//	config, err := cache.Tree(client, "/app/config")
//	...
//	defer config.Close(ctx)
//	err = config.Ready(ctx)             // it was complete once
//	e, ok := config.Get("/app/config/limit")
//
// # What is guaranteed
//
// Each path only goes forward: what the cache shows of a node is never older than what it has shown before. A node that was
// deleted and created again is told from one that was set, since the cache compares the transaction that created it.
//
// When the nodes and the connection are quiet, the cache is the same as the tree of the server. At any time, [Cache.Sync] waits
// until the cache has everything that was committed before the call, as far as ZooKeeper's leader knows and the client may read.
//
// The cache says how old it is. [Cache.View] has a time, AsOf, and says whether the cache is current: it has everything that its
// server had at that time. While the client is connected to a follower of the ensemble, that server may be behind its leader.
//
// A slow reader of [Cache.Watch] keeps nothing waiting and fills no queue. It misses steps in between, never the last state.
//
// # What is not guaranteed
//
// A cache is no transaction: two nodes that were changed together change one after the other. What the cache shows may be
// older than a lock that the caller holds; call [Cache.Sync] after the lock was granted.
//
// If the servers are restored from a backup, they can tell of different nodes under old transaction numbers. The cache notices
// that if the numbers of the servers went back. Otherwise close it and open it anew.
//
// # What happens on disconnect, expiry and close
//
// On disconnect, or if no server has answered for the session timeout, the entries stay readable and grow old. The view says so
// at once, and readers of the changes are told Behind.
//
// When the client is connected again, in the same session or a new one, the cache sets its watches again. The server tells which
// of them would have fired meanwhile, and the cache reads only those nodes. If the server refuses to set watches, or three
// connections in a row end when it is asked to, the cache reads all nodes again instead. It does so until a recheck finds that the
// server can set watches.
//
// [Cache.Close] takes the watches away that no other cache of the client needs. Closing the client ends the cache, too. Afterwards
// entries can be read, and calls that wait return an error that matches [zkrecipes.ErrClosed].
//
// # Nodes that cannot be read
//
// A node that the client may not read, or whose list of children is larger than conn.WithMaxReplySize, is an entry with an error.
// View.Failed counts such parts. They leave View.Current true, and Sync returns nil. If the root is such a node, Ready and Sync
// return its error. Nothing tells the cache when such a node can be read. [Cache.Sync] and each recheck try again, see
// [WithRecheck].
//
// While a node may not be read, the servers withhold its events, since ZooKeeper 3.8.4 and 3.9.2. What was written then is found
// by the next Sync or recheck, although the node may be read again. Until then the cache is current and has the old data. If the
// node is still closed and was not written, the cache keeps the data that it has read before.
//
// A cache with more nodes or bytes than its bounds ends with [ErrTooMuch].
//
// # What it costs
//
// It costs no node. A node has at most two watches on the server, one on its data and one on its children. To load a tree takes one
// getData for each node, one getChildren for each node with children, and one request to set the watches of some thousand leaves. A
// change takes one request after its event. A change of the children takes the whole list, and a getData for each new child. So a
// node with very many children that come and go is expensive. A reconnect, a recheck and a Sync take one request for some thousand
// nodes. A recheck and a Sync also read once more what has changed since the one before. From a server that cannot set watches
// again, each of them reads all nodes.
//
// In memory a node takes about 110 bytes beside its name and its data, and some 70 more if it has children or is ephemeral.
package cache
