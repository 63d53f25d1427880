// Package discovery registers and finds service instances in ZooKeeper, in the formats of Java programs that use Apache
// Curator, Spring Cloud, Dubbo or Finagle.
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
// When [Discovery.Register] returns, the instance's node exists. As in package node, it is recreated if it is deleted
// or its session ends, and a node that belongs to another session is never mistaken for the registration's own. A
// reconnect within the session writes nothing, so readers see no event. If the ID is taken, the error from Register
// names the owner.
//
// A [View] captures one instant on one server, like a view in package group. [Discovery.Watch] yields views in the
// order of ZooKeeper's transactions, and repeats one only if Current changes. Once the service stops changing, the last
// view shows what exists. A node that cannot be decoded is shown as an [Entry] whose Err is set, and so is an instance
// without an address or with an invalid port; other instances are not affected.
//
// # Failures
//
// If the connection is lost, or no server answers for a whole session timeout, Watch immediately yields the last view
// again, with Current set to false. Most of its instances probably still exist, so your program can keep using them
// without ZooKeeper. When the client reconnects, Watch reads again and yields a current view. A change that takes an
// eighth of the session timeout to read makes the last view outdated, too: see package group.
//
// If a registration's session ends, the instance is registered again with the next session's first request.
// [Registration.Close] deletes the node if it is the registration's own. Closing the client removes its registrations,
// and Watch then ends with ErrClosed.
//
// # What is not guaranteed
//
// An instance may have died since the view was read: a dead process stays in the views until its session expires, and
// one that hangs stays as long as its client keeps the session alive. If a call fails, try another instance; gRPC has
// health checks of its own. Conversely, callers may have read an instance just before it closed its registration, so
// keep serving for a moment after that.
//
// # Cost
//
// A registration is one ephemeral node. Registering takes one transaction, and a getData with a watch. A client that
// follows a service has one watch on the list and one on each instance; package group describes what that costs, and
// how large a service may be. For example, with 100 clients following 1,000 instances (TestCost_ManyFollowers), we
// measured 202 requests when an instance joins (a list and a getData for each client), 203 when one changes, and 102 to
// 121 when one leaves (a list for each client, and another for some).
//
// # Compatibility
//
// A [Codec] defines where the nodes are and what they contain. The default is [Curator]; the others are [Spring],
// [Dubbo] and [Finagle]. Nodes are written the way the Java libraries write them, and each side reads what the other
// writes.
//
// Source: Curator's curator-x-discovery.
package discovery
