// Package node keeps an ephemeral node in ZooKeeper: there while the client is connected, owned by its session, with the data
// that was set last. It is how a process says that it is there.
//
//	n, err := node.New(client, "/app/workers/w1", []byte("10.0.0.7:8080"))
//	...
//	defer n.Close(ctx)
//	err = n.Ready(ctx) // the node is there
//
// # What is guaranteed
//
// While a current [State] says Exists, the server had the node at AsOf, owned by the session of the client. If the node is
// deleted, or the session ends, it is made again as soon as the client is connected. If a node of an earlier session of the
// client is still there, one transaction deletes it and makes the new one, so no reader sees a moment without the node. There
// are never two nodes of one object. A node of another client is never taken for ours: it is waited for, refused
// ([WithRefusal]) or replaced ([WithReplace]).
//
// # What happens on disconnect, expiry and close
//
// At a disconnect the node stays as long as its session lives. The state is no longer current at once, and so it is if no server
// has answered for the session timeout. If the session ends, the servers delete the node, and it is made again in the next
// session. [Node.Close] deletes the node if it is ours. A node that another client has made at the path stays. When the client
// is closed, its session ends, and the node with it.
//
// A node that others delete or replace in a loop is made again after pauses of about 50 ms to 5 s. Each deletion is logged at Warn.
// A reader of [Node.Watch] sees a new Czxid. After 10 s in which the node stood, the next deletion is answered at once. The same
// pauses follow what the server refuses.
//
// # What is not guaranteed
//
// Other clients may see the node later, since they read what their server knows. The process may be dead: the node of a process
// that has died stays until its session expires.
//
// ZooKeeper cannot compare incarnations of a node. If our node goes, and another client makes its own with the same version,
// within the round trip between our read and our write, the write goes to that node. To make that unlikely, our nodes begin
// at version 1, and the node of the session before is read behind a sync before it is deleted.
//
// # What it costs
//
// One ephemeral node, whose parents are containers, and one watch. To make it takes one transaction of two operations, in
// one round trip; then a getData with a watch. Set takes one round trip, and a getData after it. Close takes two. If there is a
// node of our session before, four round trips more. The access list of the client must let it write and read its own nodes.
package node
