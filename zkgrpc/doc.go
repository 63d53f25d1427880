// Package zkgrpc resolves gRPC targets through ZooKeeper, and removes servers from ZooKeeper before they stop.
// It uses the formats of package discovery, so it also finds Java services of Curator, Spring Cloud or Dubbo.
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
// Nothing is registered globally. Configure a balancer in the service config, as above, because without one gRPC uses
// pick_first, and every channel calls only the oldest instance.
//
// # What is guaranteed
//
// A channel has the addresses in the latest view from discovery.Watch: those of all instances that have a port and are
// not disabled, and whose entry's Err is nil. If two instances have the same address, it uses the newer one. A change
// to the weight doesn't break a connection.
//
// [Serve] registers the server once its listener accepts connections. When the context is done, it removes the server
// from ZooKeeper, waits for the settle time, and only then stops it. A removal that takes too long delays the stop only
// by the time set with [WithRemoval]. Calls in progress at a drain complete, unless they take longer than [WithGrace]
// allows.
//
// # Disconnects, expiry and close
//
// While the client is disconnected from ZooKeeper, the channel keeps its addresses, and one warning is logged. The same
// applies if its session expires, or if the client is closed. If a channel gets no view within 5 seconds of starting,
// its calls fail with the reason, up to 1 second later, unless they wait for ready. If the client isn't permitted to
// read a node, the channel keeps its addresses too, and the resolver tries again after 30 seconds, or as early as after
// 1 second if a connection fails.
//
// A channel that becomes idle, which by default means half an hour without calls, gives up its addresses. Its next call
// starts the channel again, and fails if ZooKeeper is down. To keep the addresses of a channel with rare calls, use
// grpc.WithIdleTimeout(0).
//
// A server whose session expires disappears from the channels, even though it may still be serving. It reappears by
// itself in its next session. Closing a channel ends its resolver.
//
// # Logging
//
// Messages begin with "zkgrpc:" and have the keys service and base:
//
//   - Warn, "no answer from zookeeper": the channel keeps its addresses, which are as of asOf, or has none yet, because
//     of error. Info, "zookeeper answers again": the key lasted is how long that was.
//   - Warn, "cannot follow a service", logged once until there is a view: the watch ended with an error.
//   - Warn, "service has no instance that can be called": calls fail until there is one.
//   - Warn, "skipping an instance", logged once: its entry's Err is set, or it has no port of the required kind.
//
// # What is not guaranteed
//
// A server that crashes stays listed until its session expires. Because its connections break immediately, a balancer
// with several connections, such as round_robin, calls the others. Calls in progress fail, so use a retry policy for
// them. However, a machine that is cut off from clients doesn't break any connection; to detect that, use keepalive on
// the client, or a deadline.
//
// A server that is being drained sends no GOAWAY until every connection that it has accepted completes its handshake or
// times out. A port check that connects and sends nothing therefore delays the drain by up to two minutes, which is
// longer than [Serve] waits. If you expect such connections, set grpc.ConnectionTimeout to a few seconds.
//
// A server may hang while its client still answers. To detect that, use gRPC's health checks: healthCheckConfig in
// gRPC's service config, which gRPC ignores unless the program imports google.golang.org/grpc/health.
//
// # Cost
//
// A channel follows the service as package discovery describes, with one watch on the list and one on each instance.
// Each channel has its own watch, but the channels of one client share the watches on the server. An idle channel does
// not follow the service. A server takes one ephemeral node.
//
// # Balancers
//
// [FromEndpoint] and [FromAddress] return the instance behind an endpoint or address that a balancer receives, with
// all its metadata. [Weight] and [Zone] read the two most common values. gRPC's own balancers read neither.
//
// Source: gRPC's package resolver, and its document on naming.
package zkgrpc
