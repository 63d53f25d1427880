// Package node maintains an ephemeral node in ZooKeeper that announces a process: the node exists while the client is
// connected, is owned by the client's session, and has the data that was set last.
//
//	n, err := node.New(client, "/app/workers/w1", []byte("10.0.0.7:8080"))
//	...
//	defer n.Close(ctx)
//	err = n.Ready(ctx) // the node exists
//
// # Guarantees
//
// While a current [State] has Exists set, the server had the node at AsOf, owned by the session of the client. If the
// node is deleted, or the session ends, the node is created again as soon as the client is connected. If a node of an
// earlier session of the client still exists, one transaction deletes it and creates the new one, so no reader sees a
// moment without the node. One Node never has two nodes. A node of another client is never mistaken for its own: Node
// waits until it is gone, fails ([WithRefusal]) or replaces it ([WithReplace]).
//
// # Failures
//
// After a disconnect the node remains as long as its session lives. The state stops being current at once, as it does
// when no server has answered for the session timeout. If the session ends, the servers delete the node, and it is
// created again in the next session. [Node.Close] deletes the node if it is the client's own, and leaves one that
// another client has created at the path. When the client is closed, its session ends, and the node with it.
//
// A node that others delete or replace in a loop is created again after pauses of about 50 ms to 5 s. Each deletion is
// logged at Warn, and a reader of [Node.Watch] sees a new Czxid. Once the node has existed undisturbed for 10 s, it is
// created again at once after the next deletion. The same pauses follow an operation that the server refuses.
//
// # What is not guaranteed
//
// Other clients may see the node later, because they read what their own server knows. The process may be dead: the
// node of a process that has died remains until its session expires.
//
// ZooKeeper cannot compare incarnations of a node. If the node is deleted and another client creates its own with the
// same version, within the round trip between this library's read and its write, the write goes to that node. To make
// this unlikely, nodes of this package start at version 1, and the node of an earlier session is read after a sync
// before it is deleted.
//
// # Cost
//
// A Node has one ephemeral node, whose parents are containers, and one watch. Creating it takes one transaction of two
// operations in one round trip, then a getData with a watch. Set takes one round trip, followed by a getData. Close
// takes two. If a node of an earlier session of the client exists, four more round trips are needed. The access list of
// the client must allow it to write and read its own nodes.
//
// # Compatibility
//
// The node is a plain ephemeral node, like that of Curator's PersistentNode, so programs in any language can read it.
package node
