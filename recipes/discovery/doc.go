// Package discovery registers and finds the instances of services in ZooKeeper, interoperable with Java programs that
// use Apache Curator, Spring Cloud, Dubbo or Finagle.
//
//	d, err := discovery.New(client, "/services")
//	...
//	r, err := d.Register(ctx, discovery.Instance{Service: "orders", Port: 8080})
//	...
//	defer r.Close(ctx)
//	for view, err := range d.Watch(ctx, "orders") {
//		use(view.Instances())
//	}
//
// # Guarantees
//
// When [Discovery.Register] returns, the node of the instance exists. It is maintained as in package node: if it is
// deleted, or its session ends, it is created again. A reconnect within the session writes nothing, so no reader sees
// an event. A node of another session is never mistaken for the registration's own. If the id is taken, the error names
// the owner.
//
// A [View] is one instant of one server, like a view of package group. Views of [Discovery.Watch] follow each other in
// the order of ZooKeeper's transactions, and none is yielded twice. After the last change, the last view shows what
// exists. A node that does not decode, and an instance without an address or with an impossible port, is an [Entry]
// with an error. The other instances are still shown.
//
// # Failures
//
// When the connection is lost, or no server has answered for the session timeout, Watch yields the last view again at
// once, with Current false. Its instances most likely still exist: a program that can do without ZooKeeper keeps using
// them. A registration whose session ends is repeated in the next one, with the first request. [Registration.Close]
// deletes the node if it is the registration's own. When the client is closed, its registrations are gone, and Watch
// ends with ErrClosed.
//
// # What is not guaranteed
//
// An instance in a view may have died since. A process that has died stays in the views until its session expires, and
// a process that hangs stays as long as its client answers. Callers should therefore try another instance after an
// error; gRPC has health checks of its own. A caller may have read an instance before the instance closed its
// registration, so keep serving for a moment.
//
// # Cost
//
// A registration is one ephemeral node. Registering takes one transaction, and a getData with a watch. A client that
// follows a service has one watch on the list and one on each instance; package group describes what that costs, and up
// to which size. As measured with 1,000 instances that 100 clients follow (TestCost_ManyFollowers), it takes 202
// requests when an instance joins, which are a list and a getData for each client, 203 when one changes, and 102 to 121
// when one leaves, which are a list for each client and another for some.
//
// # Compatibility
//
// A [Codec] defines where the nodes are, and what they contain. [Curator] is the default; the others are [Spring],
// [Dubbo] and [Finagle]. All nodes are written as the Java libraries write them, and each side reads what the other
// wrote.
//
// Source: Curator's curator-x-discovery.
package discovery
