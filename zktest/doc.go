// Package zktest is a ZooKeeper inside the test process: a single server that speaks the real wire protocol, starts in
// a millisecond, breaks on command, and runs in virtual time.
//
// # Starting one
//
//	srv := zktest.Run(t)                            // on a free port of the loopback, closed when the test ends
//	c, events, err := zk.Connect([]string{srv.Addr()}, 10*time.Second)
//	client, err := conn.Dial(ctx, srv.Addr())       // or, for the recipes of this module
//
// Programs use [Start], which returns an error instead of failing a test. [WithListener] chooses the address.
//
// # In a bubble
//
// In a testing/synctest bubble, where hours pass in milliseconds and every timeout is exact, there can be no sockets.
// The server then runs without a listener and clients dial in memory:
//
//	synctest.Test(t, func(t *testing.T) {
//		srv := zktest.Run(t, zktest.InMemory())
//		c, _, err := zk.Connect([]string{srv.Addr()}, 10*time.Second, zk.WithDialer(srv.DialTimeoutAs("a")))
//		client, err := conn.Dial(t.Context(), srv.Addr(), conn.WithDialer(srv.DialAs("b")))
//		...
//	})
//
// Start the server and the clients inside the bubble, give addresses as IP literals (Addr does), and close every client
// before the test function returns, with t.Cleanup for instance, which runs in reverse order. [Server.Close] waits for
// all goroutines of the server, so nothing is left blocked when the bubble ends. go-zookeeper allocates 3 MiB for each
// connection unless it is told otherwise, with WithMaxBufferSize and WithMaxConnBufferSize.
//
// # Faults
//
// A connection carries the label of the dial function it came through ([Server.DialAs], [Server.DialTimeoutAs]), or of
// the listener ([Server.ServeAs]), and faults select by it or by session: [Label], [Session], [Everyone].
//
//	srv.Intercept(zktest.Match{Op: zktest.OpCreate, Path: "^/locks/"}, zktest.DropReply()) // applied, never answered
//	srv.Expire(srv.SessionOf("a"))                  // on the server, where it counts
//	srv.Stall(zktest.Label("a"), zktest.ToServer)   // one direction of one client becomes a black hole
//	srv.Cut(zktest.Everyone)                        // reset all connections
//	srv.Restart()                                   // all sessions get a full timeout again
//
// See [Server.Intercept] with its actions, [Server.Refuse], [Server.Freeze], [Server.Down], [Server.Reap],
// [Server.SetCversion], [Server.SetZxid], [Server.LoseWatch], [Server.SendEvent]; and, to act as an operator,
// [Server.Create], [Server.Set], [Server.Delete].
//
// # Looking inside
//
// [Server.Tree], [Server.Node], [Server.Sessions], [Server.Ephemerals], [Server.Watches] and [Server.History] show the
// state at one moment; in a bubble, call synctest.Wait first and the moment is well defined. After every transaction
// the server compares its state with books that it keeps apart: no ephemeral node of a dead session, the cversion
// formula, sequence numbers that never repeat before they are exhausted, zxids that only grow, one live connection per
// session. A violation fails the test.
//
// # How faithful it is
//
// Replies, errors and their order, events and their place in the stream are those of ZooKeeper 3.8.0, or of 3.9 on
// request ([WithRelease]). Deliberate differences: a request whose body cannot be decoded gets the real error and then
// loses its connection; there is no disk, no quota ([Fail] can say that one is exceeded), no SASL, no TLS and no
// ensemble; where the real order is that of a hash table (children, ids that scheme auth stands for, the nodes of a
// session that ends), the order is no more useful here, but the same in every run.
package zktest
