// Package zkrecipes is the root of ZooKeeper recipes for Go in the style of Apache Curator. It has what all recipes
// share: [Hold], [Token], [Participant], [Freshness] and the errors. Start reading here.
//
// A program dials one client and uses any number of recipes on it:
//
//	client, err := conn.Dial(ctx, "zk1:2181,zk2:2181,zk3:2181/myapp")
//	if err != nil {
//		return err
//	}
//	defer client.Close()
//
//	m, err := mutex.New(client, "/locks/invoices")
//	if err != nil {
//		return err
//	}
//	err = m.Do(ctx, func(ctx context.Context, h *zkrecipes.Hold) error {
//		// ctx ends when the lock is lost. The resource checks h.Token().
//		return bill(ctx, h.Token())
//	})
//
// # Packages
//
//   - conn is the client. It connects, reconnects and opens the next session. It knows until when a session is proven alive.
//   - recipes/mutex, recipes/rwlock, recipes/semaphore and recipes/election are the recipes. Each grants a [Hold]. So does
//     the double barrier of recipes/barrier.
//   - recipes/node and recipes/group say which processes are there. recipes/cache and recipes/value share data.
//   - recipes/discovery lists the instances of services, beside Java programs.
//   - zkhttp has handlers that tell who leads, and whether the client works.
//   - fence refuses stale tokens at the resource that a hold protects.
//   - zkprom has metrics for Prometheus, and zkotel spans for OpenTelemetry. Both are modules of their own. See [Tracer].
//     The module zkgrpc finds servers of gRPC.
//   - zktest is a ZooKeeper server inside the test process. zktest/check judges what the users of a lock saw.
//   - cmd/zkr, a module of its own, runs any program under a lock, and shows which process holds what.
//
// The same thing has the same name in all of them. Watch yields a view now and after every change, with its [Freshness]. Queue
// lists the holders and the waiters. Release ends a hold, and Close what works in the background.
//
// The docs directory of the repository has guides. Begin with docs/guides/first-steps.md, and choose a recipe with
// docs/guides/choosing.md.
//
// # What is guaranteed
//
// While [Hold.Err] is nil, no other contender holds what the hold stands for. A hold ends by itself before another contender
// can be granted. Its deadline is proven by requests that the leader of the ensemble has answered. It does not count
// from the moment a connection was lost. So in a partition the old holder learns of its loss before the next grant.
// A hold that has ended never comes back. The next acquisition has a larger [Token].
//
// # What is not guaranteed
//
// A process may look at its hold, find it alive, and be frozen for a minute before it writes. No lock service can prevent
// that late write. Three things help:
//
//   - [Hold.Txn] writes in ZooKeeper only if the hold is still held when the leader applies the write.
//   - [Hold.Token] lets another resource refuse a stale holder. Package fence has the check.
//   - [Hold.Context] ends work that looks at its context.
//
// The deadline needs clocks that run at nearly the same rate. Package conn says what the deadline does not cover.
//
// # Faults
//
//   - If the connection is lost, holds run on to their deadlines and waiters keep their places. If a server answers for
//     the same session in time, nothing else happens. The option WithLossOnSuspend, of mutex, rwlock, semaphore and election,
//     ends holds at once.
//   - If the deadline passes, all holds of the session end with a [*LostError]. Waiters keep their places as long as the
//     session lives.
//   - If the session ends, its holds end. Its waiters queue again in the next session, at the tail.
//   - If a contender is deleted by hand, its hold ends, or its waiter queues again.
//   - If the client is closed, all its holds and waiters end. Its nodes are gone when Close returns, if a server answers.
//
// # Working with Java
//
// The nodes have the names, order and data of Apache Curator 5, so Go and Java programs take turns on one lock. Both need
// the same path below the same chroot or namespace. Their access lists must let each program create and delete below that
// path, and read the nodes of the other. Their identities need not agree. On a read-write lock, Java needs Curator 5.5 or
// later: older releases let a writer in during a downgrade.
//
//   - InterProcessMutex is recipes/mutex, InterProcessMultiLock is its LockAll, and Revoker is its Revoke.
//   - InterProcessReadWriteLock is recipes/rwlock.
//   - InterProcessSemaphoreV2 is recipes/semaphore. InterProcessSemaphoreMutex is a semaphore with a limit of 1. A
//     SharedCount as the limit is the option WithLimitNode.
//   - LeaderLatch is recipes/election. LeaderSelector is recipes/election with WithLayout(Selector).
//   - A namespace is a chroot, or conn.Client.Sub.
//
// Curator's locks are reentrant by thread. Here exclusion is the default. The option WithReentrance of mutex and rwlock lets
// calls nest by context, as package mutex explains.
package zkrecipes
