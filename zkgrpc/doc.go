// Package zkgrpc lets gRPC clients find servers through ZooKeeper, and takes servers out of it before they stop. What is written
// there is that of package discovery, so Java services of Curator, Spring Cloud or Dubbo are found, too.
//
// A client:
//
//	client, err := conn.Dial(ctx, "zk1:2181,zk2:2181,zk3:2181")
//	d, err := discovery.New(client, "/services")
//	zk, err := zkgrpc.NewResolver(d)
//	channel, err := grpc.NewClient("zk:///orders", grpc.WithResolvers(zk),
//		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"round_robin": {}}]}`), ...)
//
// A server:
//
//	err := zkgrpc.Serve(ctx, server, listener, d, discovery.Instance{Service: "orders"})
//
// Nothing is registered globally. Without a balancer in the service config, gRPC takes pick_first, with which every channel calls the
// oldest instance alone.
//
// # What is guaranteed
//
// A channel has the addresses of the newest view that discovery.Watch has told: those of the instances whose entry has no
// error, and which are not disabled and have a port. If two instances have one address, it has the newer. A weight that changes breaks no connection.
//
// [Serve] registers the server after its listener takes connections, and stops it only when it is out of ZooKeeper and the settle time
// is over, or when that took too long. Calls that are under way at a drain end as usual.
//
// # What happens on disconnect, expiry and close
//
// While the client is disconnected from ZooKeeper, the channel keeps its addresses, and the log has one warning. The same is true if
// its session expires, or if the client is closed. A channel that has had no view for 5 s fails calls with what is in the way, unless
// they wait for ready. If a node may not be read, the channel keeps its addresses too, and the resolver tries again after 30 s, or
// after 1 s if a connection fails meanwhile.
//
// A server whose session has expired is gone from the channels, although it may still serve. It comes back in its next session, by
// itself. Closing a channel ends its resolver.
//
// # Log
//
// Lines begin with "zkgrpc:", and have the keys service and base:
//
//   - Warn, "no answer of zookeeper": the channel keeps its addresses, which are as of asOf. Info, "zookeeper answers again": lasted is how
//     long that was.
//   - Warn, "service cannot be followed": the watch has ended with an error, or has never begun.
//   - Warn, "service has no instance that can be called": calls fail until there is one.
//   - Warn, "instance is left out": its entry has an error, or it has no port of the kind that is wanted. It is logged once.
//
// # What is not guaranteed
//
// A server that has crashed is listed until its session expires. Its connections break at once, so that a balancer with several
// connections, such as round_robin, calls the others. Calls that were under way fail: a retry policy is for them. A machine that is cut
// off from clients breaks no connection. Keepalive on the client, or a deadline, is for that.
//
// A server may hang while its client answers. gRPC's health checks are for that: see healthCheckConfig in its service config.
//
// # What it costs
//
// A channel follows the service, as package discovery says: one watch on the list and one on each instance. Each channel has its
// own watch, and those of one client share the watches that the server holds. A channel that is idle, which is half an hour without
// calls by default, follows nothing. A server is one ephemeral node.
//
// # Balancers
//
// [FromEndpoint] and [FromAddress] return the instance behind what a balancer is given, with all its metadata. [Weight] and [Zone] read
// the two that services most often have. The balancers of gRPC itself read neither.
//
// Source: gRPC's package resolver, and its document on naming.
package zkgrpc
