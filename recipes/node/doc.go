// Package node maintains an ephemeral node in ZooKeeper that announces a process. The node exists while the client is
// connected, is owned by the client's session, and contains the data set last.
//
//	n, err := node.New(client, "/app/workers/w1", []byte("10.0.0.7:8080"))
//	...
//	defer n.Close(ctx)
//	err = n.Ready(ctx) // the node exists
//
// # Guarantees
//
// If a [State] is current and has Exists set, the server had the node at AsOf, owned by the client's session. If the
// node is deleted or the session ends, the node is recreated as soon as the client is connected. When a node from one
// of the client's earlier sessions still exists, one transaction deletes it and creates the new one, so that readers
// don't find the node missing in between. The client then closes the earlier session, a second after it reconnects at
// the latest.
//
// One Node never has two nodes, and it never mistakes another client's node for its own. Instead, it waits until that
// node is gone, fails ([WithRefusal]) or replaces it ([WithReplace]).
//
// # Failures
//
// After a disconnect, the node remains as long as its session lives. Its state immediately stops being current, as it
// does when no server has answered for the session timeout. If the session ends, the servers delete the node, and it is
// recreated in the next session. [Node.Close] deletes the node if it is the client's own, and leaves one that another
// client has created at the path. When the client is closed, its session ends and the node disappears.
//
// If others delete or replace the node in a loop, it is recreated after pauses of about 50 ms to 5 seconds; operations
// that the server refuses are retried after the same pauses. If the data exceed the servers' jute.maxbuffer, each attempt
// costs the client its connection, so the next one follows after a minute, or as soon as there are other data.
//
// Once the node has existed undisturbed for 10 seconds, it is recreated immediately after the next deletion, without a
// pause. Each deletion is logged at Warn, and a reader of [Node.Watch] sees a new Czxid.
//
// # What is not guaranteed
//
// Other clients may see the node later, because they read what their own server knows. Nor does a node prove that its
// process is alive, since a dead process's node remains until its session expires.
//
// ZooKeeper can't compare incarnations of a node. Suppose that the node is deleted and another client creates its own
// with the same version, all within the round trip between this library's read and its write: the write then goes to
// the other client's node. To make this unlikely, this package's nodes start at version 1, and a node from an earlier
// session is read after a sync before it is deleted.
//
// # Cost
//
// A Node has one ephemeral node, whose parents are containers, and uses a single watch. Creating the node takes one
// transaction of two operations, in one round trip, and then a getData with a watch. Set reads the node and writes it,
// in two round trips, and is followed by another getData. Close takes two round trips. If a node from one of the
// client's earlier sessions exists, four more are needed. The client's ACL must allow it to read and write its own
// nodes.
//
// # Compatibility
//
// The node is a plain ephemeral node, like that of Curator's PersistentNode, so programs in any language can read it.
package node
