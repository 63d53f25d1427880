// Package zkrecipes defines what all recipes share: [Hold], [Token], [Participant], [Freshness] and the errors. The
// recipes are locks, leader election, groups, caches and more on ZooKeeper, compatible with Apache Curator 5.
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
//		// ctx is canceled when the lock is lost. The resource checks h.Token().
//		return bill(ctx, h.Token())
//	})
//
// # Packages
//
//   - conn is the client. It connects, reconnects, opens a new session when the old one ends, and knows until when a
//     session is proven alive.
//   - recipes/mutex, recipes/rwlock, recipes/semaphore, recipes/election and the double barrier of recipes/barrier
//     grant holds, each represented by a [Hold]. recipes/multilock acquires several of them together.
//   - recipes/node and recipes/group announce processes and list them. recipes/cache and recipes/value share data.
//   - recipes/discovery registers and lists service instances, interoperating with Java programs. The module zkgrpc
//     uses it to resolve gRPC targets.
//   - recipes/shard divides work among members, with a fenced lock for each shard.
//   - sasl authenticates a client with DIGEST-MD5, and the module zkkerberos with Kerberos.
//   - fence rejects stale tokens at the resource that a hold protects.
//   - layout is for tools: it finds out what kind of queue a node is, who holds, and what each waiter waits for.
//   - zkhttp serves who leads and whether the client is healthy.
//   - zkprom exports Prometheus metrics and zkotel OpenTelemetry spans. Both are separate modules; see [Tracer].
//   - zktest is a ZooKeeper server inside the test process, and zktest/check verifies the histories of locks under
//     test. The program cmd/zktestd is the same server for tests in other languages.
//   - cmd/zkr, a separate module, runs any program under a lock and shows which process holds what.
//
// The guides are in the docs directory of the repository. Begin with docs/guides/first-steps.md;
// docs/guides/choosing.md helps you choose a recipe.
//
// # Conventions
//
// The same thing has the same name in every package.
//
//   - Watch yields the current view, then a view after every change, each with its [Freshness]. Iteration stops
//     silently when ctx ends or the caller breaks. If it cannot continue, the final value is an error.
//   - Queue lists the holders and the waiters.
//   - Release ends a hold. Close ends what runs in the background.
//   - To limit how long a call waits, pass a context with a deadline; the deadline does not limit the hold. A call
//     returns soon after its context ends, connected or not, with an error that matches the context's cause; an
//     acquisition returns a [*WaitError]. If that cause is itself a server's answer to another call, such as
//     zk.ErrNoNode in an errgroup, the error prints it but does not match it.
//
// # Errors
//
// Match errors with [errors.Is], and the types with [errors.As]. Each error is declared in one place:
//
//   - This package has those that several packages return: [ErrLocked], [ErrLost], [ErrReleased], [ErrFenced],
//     [ErrUpgrade], [ErrDeadlock], [ErrNoLeader], [ErrUnknownOutcome], [ErrTooLarge], [ErrSessionFull],
//     [ErrSequenceExhausted], [ErrForeignContender], [ErrUnsupportedServer], [ErrTaken], [ErrClosed] and
//     [ErrAuthFailed]. [*BusyError], [*LostError], [*TakenError], [*WaitError] and [*OpError] carry details.
//   - go-zookeeper has the server errors that it knows, such as zk.ErrNoNode, zk.ErrNodeExists, zk.ErrBadVersion,
//     zk.ErrNotEmpty and zk.ErrNoAuth. All others are a [Code], such as [CodeThrottled].
//   - Other packages have the errors that concern only them: cache.ErrTooMuch, discovery.ErrNoInstance,
//     election.ErrNotStanding, node.ErrDeleted, shard.ErrMoved and value.ErrChanged; fence.ErrStale,
//     fence.ErrInvalid, fence.ErrInUse and fence.ErrCorrupt; sasl.ErrUnproven.
//
// # What is guaranteed
//
// While [Hold.Err] returns nil, no other contender holds what the hold represents. A hold ends by itself before
// another contender can be granted: its deadline is proven by requests that the leader of the ensemble has answered,
// rather than counted from the moment a connection was lost. In a partition the old holder therefore learns of its
// loss before the next grant. A hold that has ended never comes back, and the next acquisition has a larger [Token].
//
// # What is not guaranteed
//
// A process may check its hold, find it alive, and be paused for a minute before it writes. No lock service can
// prevent that late write. Three things help:
//
//   - [Hold.Txn] writes to ZooKeeper only if the hold is still held when the leader applies the write.
//   - [Hold.Token] lets any other resource reject a stale holder. Package fence implements the check.
//   - [Hold.Context] stops work that checks its context.
//
// The deadline requires clocks that run at nearly the same rate. Package conn describes what it does not cover.
//
// # Failures
//
//   - If the connection is lost, holds continue until their deadlines, and waiters keep their places. If a server
//     resumes the session in time, nothing else happens. The option WithLossOnSuspend of mutex, rwlock, semaphore and
//     election ends holds at once instead.
//   - If the deadline passes, all holds of the session end with a [*LostError]. Waiters keep their places as long as
//     the session lives.
//   - If the session ends, its holds end, and its waiters rejoin the queue at the back in the next session.
//   - If a contender is deleted by hand, its hold ends, or its waiter rejoins the queue at the back.
//   - If the client is closed, all its holds and waiters end. Its nodes are gone when Close returns, provided that a
//     server answers.
//
// # Working with Java
//
// Nodes have the names, order and data of Apache Curator 5, so Go and Java programs can share a lock. Both need the
// same path below the same chroot or namespace. Their access lists must let each program create and delete below that
// path, and read the other's nodes; their identities need not match. On a read-write lock, Java needs Curator 5.5 or
// later, because older releases admit a writer during a downgrade.
//
//   - InterProcessMutex is recipes/mutex, InterProcessMultiLock is recipes/multilock, and Revoker is Mutex.Revoke.
//   - InterProcessReadWriteLock is recipes/rwlock.
//   - InterProcessSemaphoreV2 is recipes/semaphore. InterProcessSemaphoreMutex is a semaphore with a limit of 1. For
//     a SharedCount as the limit, use the option WithLimitNode.
//   - LeaderLatch is recipes/election. LeaderSelector is recipes/election with WithLayout(Selector).
//   - A namespace is a chroot, or conn.Client.Sub.
//
// Curator's locks are reentrant by thread. Here locks are exclusive by default, and the option WithReentrance of
// mutex and rwlock lets calls nest by context, as package mutex explains.
package zkrecipes
