// Package zktest provides a ZooKeeper server inside the test process. It speaks the real wire protocol, fails on
// command, and runs in virtual time.
//
// # Starting a server
//
//	srv := zktest.Run(t)                            // on a free port of the loopback, closed when the test ends
//	c, events, err := zk.Connect([]string{srv.Addr()}, 10*time.Second)
//	client, err := conn.Dial(ctx, srv.Addr())       // or, for the recipes of this module
//
// In a program, use [Start], which returns an error instead of failing a test. [WithListener] sets the address.
//
// To test code that only uses a hold, package fakehold creates one without a server.
//
// # In a bubble
//
// In a testing/synctest bubble, hours pass in milliseconds and every timeout is exact, but sockets don't work there.
// Run the server without a listener instead, and have clients dial in memory:
//
//	synctest.Test(t, func(t *testing.T) {
//		srv := zktest.Run(t, zktest.InMemory())
//		c, _, err := zk.Connect([]string{srv.Addr()}, 10*time.Second, zk.WithDialer(srv.DialTimeoutAs("a")))
//		client, err := conn.Dial(t.Context(), srv.Addr(), conn.WithDialer(srv.DialAs("b")))
//		...
//	})
//
// Start the server and the clients inside the bubble, and use IP literals as addresses, as Addr does. Close every
// client before the test function returns, for example with t.Cleanup, which runs its functions in reverse order.
// [Server.Close] waits for all of the server's goroutines, so none is left blocked when the bubble ends. go-zookeeper
// allocates 3 MiB for each connection, which you can reduce with its options WithMaxBufferSize and
// WithMaxConnBufferSize.
//
// # Faults
//
// Faults select connections by label or by session: [Label], [Session], [Everyone]. A connection gets its label from
// the dial function that opened it ([Server.DialAs], [Server.DialTimeoutAs]), or from its listener ([Server.ServeAs]).
//
//	srv.Intercept(zktest.Match{Op: zktest.OpCreate, Path: "^/locks/"}, zktest.DropReply()) // applied, never answered
//	srv.Expire(srv.SessionOf("a"))                  // on the server, as its timeout would
//	srv.Stall(zktest.Label("a"), zktest.ToServer)   // no byte of this client arrives
//	srv.Cut(zktest.Everyone)                        // end all connections at once
//	srv.Restart()                                   // all sessions get a full timeout again
//	srv.SetWriteLatency(10 * time.Millisecond)      // writes take as long as on a slow disk
//	srv.StopListening()                             // new connections are refused, until srv.Listen(srv.Addr())
//
// See also [Server.Intercept] with its actions, [Server.Refuse], [Server.Freeze], [Server.Down], [Server.Reap],
// [Server.SetCversion], [Server.SetVersion], [Server.SetZxid], [Server.LoseWatch] and [Server.SendEvent]. To write
// without a client, use [Server.Create], [Server.Set] and [Server.Delete].
//
// # Several addresses
//
// [WithFronts] gives the server several addresses, which appear to clients as an ensemble. Each [Front] can be stopped,
// cut off from the others, or made to lag behind. Without a majority, none of them serves requests:
//
//	srv := zktest.Run(t, zktest.WithFronts(3))
//	client, err := conn.Dial(ctx, srv.Addrs())
//	srv.Fronts()[0].Stop()                          // as kill does: connection refused
//	srv.Fronts()[1].Lag()                           // old reads, late events, slow writes; until CatchUp
//	srv.Fronts()[2].Isolate()                       // no majority is left; with WithReadOnlyMode it reads only
//
// With [WithReconfig] the members of the ensemble can change, so that you can test a program while servers are
// replaced; see the example of [Server.Reconfigure]:
//
//	srv.Reconfigure(srv.Fronts()[1:4]...)           // the first leaves: it serves until stopped, and cannot restart
//
// # Inspection
//
// [Server.Tree], [Server.Node], [Server.Sessions], [Server.Ephemerals], [Server.Watches] and [Server.History] show the
// state at a single moment. In a bubble, call synctest.Wait first to make that moment well defined. The server also
// answers the four-letter words.
//
// After every transaction the server checks its state against separate counts: no dead session has an ephemeral node,
// sequence numbers never repeat before they are exhausted, zxids only grow, cversion follows its formula, and each
// session has one live connection. A violation fails the test. The test also fails if a session ends whose ephemeral
// nodes need a transaction above twice [WithMaxBuffer], because that would stop real servers for good. A real server
// accepts some requests that damage it, or that do something other than the client seems to intend. Such a request is
// reported as an [ErrMisuse], which [Run] logs as a warning.
//
// # Fidelity
//
// Replies, errors and their order, events and their position in the stream match those of the ZooKeeper release that
// [WithRelease] selects. Our tests compare them with real servers, using random scripts, malformed requests and null
// strings, quotas, and four-letter words. What you would configure on a real server is an option here: [WithQuotas],
// [WithMaxBuffer], [WithTLS], [WithFourLetterWords], [WithReconfig], [WithReadOnlyMode], [WithExtendedTypes]. For
// authentication and access control there are [WithSASLUsers] (DIGEST-MD5), [WithX509], [WithSASLSuperUsers],
// [WithSuperUser], [WithDigest], [WithRequiredAuth] and [WithoutACLs].
//
// Deliberate differences:
//
//   - There is no disk. Data and sessions survive [Server.Restart], but are lost when the process exits.
//   - All four-letter words are answered by default. A real server answers only srvr. Latencies are always 0. The
//     answer to mntr has 16 keys, and that to conf lacks the settings of the quorum.
//   - A connection without a handshake ends after 10 seconds. A real server takes 10 to 20 seconds.
//   - The server stops reading from a connection that has 4 MiB of unread replies. A real server keeps all replies.
//   - The number of connections from one address is unlimited. A real server accepts 60 (maxClientCnxns).
//   - The fronts are one process: elections and failures take no time, and when a session moves, its old connection
//     ends immediately. A reconfiguration does not change the address that a front listens on.
//   - The leader learns immediately which sessions the other fronts have heard from. A real follower reports them every
//     half tick.
//   - With [WithReadOnlyMode], only the sessions of a read-only front are local. On real servers every session starts
//     as a local one, because the mode requires localSessionsEnabled.
//   - Children, and the nodes of a session, are listed in the order of Java's hash table, as by a real server. Names
//     constructed to collide are an exception: Java uses a tree for more than eight in one bucket. A real server that
//     has loaded a snapshot may list them in another order.
//   - The IDs that scheme auth represents are listed in the order in which the client authenticated.
//   - The handshake is not an operation: if opcode -10 is sent after it, that is a marshalling error.
package zktest
