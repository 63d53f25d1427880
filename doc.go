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
//   - conn is the client. It connects, reconnects, opens a new session when the old one ends, and keeps track of the
//     time until which a session is proven to be alive.
//   - recipes/mutex, recipes/rwlock, recipes/semaphore, recipes/election and the double barrier of recipes/barrier
//     grant holds, each represented by a [Hold]. recipes/multilock acquires several of them together.
//   - recipes/node and recipes/group announce processes and list them. recipes/cache and recipes/value share data.
//   - recipes/discovery registers and lists service instances, interoperating with Java programs. The module zkgrpc
//     uses it to resolve gRPC targets.
//   - recipes/shard divides work among members, with a fenced lock for each shard.
//   - sasl authenticates a client with DIGEST-MD5, and the module zkkerberos with Kerberos.
//   - fence rejects stale tokens at the resource that a hold protects.
//   - layout is for tools. It determines what kind of queue a node is, who the holders are, and what each waiter is
//     waiting for.
//   - zkhttp provides HTTP handlers that report who leads and whether the client is healthy.
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
// The same name means the same thing in every package.
//
//   - Watch yields the current view, and then another after every change, each with its [Freshness]. Caches are the
//     exception: they yield the changes. Iteration stops silently when ctx is done or the caller breaks out of the
//     loop. If Watch can't continue, the final value is an error.
//   - A result that is at least as recent as the call may be up to 1.5 ticks older than that if ZooKeeper's leader has
//     just been replaced: see conn.Client.Sync.
//   - Queue lists the holders and the waiters.
//   - Release ends a hold, whereas Close stops whatever runs in the background.
//   - To limit how long a call waits, pass a context with a deadline. It bounds the call itself, not how long a hold is
//     held. When its context is done, a call returns shortly afterwards, connected or not, with an error that matches
//     the context's cause; for an acquisition, this is a [*WaitError]. There is one exception: if the cause is itself
//     the result of another call, such as zk.ErrNoNode or [ErrFenced] in an errgroup, the error's text includes the
//     cause, but the error does not match that result.
//
// # Errors
//
// Match errors with [errors.Is], and error types with [errors.As]. Each error is declared in exactly one place:
//
//   - This package declares the errors that several packages return: [ErrLocked], [ErrLost], [ErrReleased],
//     [ErrFenced], [ErrUpgrade], [ErrDeadlock], [ErrNoLeader], [ErrUnknownOutcome], [ErrTooLarge], [ErrSessionFull],
//     [ErrSequenceExhausted], [ErrForeignContender], [ErrUnsupportedServer], [ErrTaken], [ErrClosed] and
//     [ErrAuthFailed]. [*BusyError], [*LostError], [*TakenError], [*WaitError] and [*OpError] carry the details.
//   - go-zookeeper declares the server errors it knows, such as zk.ErrNoNode, zk.ErrNodeExists, zk.ErrBadVersion,
//     zk.ErrNotEmpty and zk.ErrNoAuth. Any other server error is a [Code], such as [CodeThrottled].
//   - Other packages declare the errors that only they return: cache.ErrTooMuch, discovery.ErrNoInstance,
//     election.ErrNotStanding, node.ErrDeleted, shard.ErrMoved and value.ErrChanged; fence.ErrStale, fence.ErrInvalid,
//     fence.ErrInUse and fence.ErrCorrupt; sasl.ErrUnproven.
//
// Any call that contacts the servers may also return context.Cause(ctx), [ErrClosed] or, while all servers refuse the
// client's credentials, [ErrAuthFailed], even if its own list of errors doesn't mention them.
//
// # What is guaranteed
//
// While [Hold.Err] returns nil, no other contender holds what the hold represents, as long as nobody deletes nodes by
// hand. A hold ends by itself before another contender can be granted, because its deadline is proven by requests that
// the leader of the ensemble has answered, rather than counted from the moment the connection was lost. As a result,
// the old holder learns of its loss before the next grant even in a partition. A hold that has ended never comes back,
// and the next acquisition gets a larger [Token].
//
// # What is not guaranteed
//
// A process may check its hold, find it alive, and then be paused for a minute before it writes. No lock service can
// prevent that late write, but three things help:
//
//   - [Hold.Txn] writes to ZooKeeper only if the hold is still held when the leader applies the write.
//   - [Hold.Token] lets any other resource reject a stale holder. Package fence implements the check.
//   - [Hold.Context] stops work that checks its context.
//
// The deadline requires clocks that run at nearly the same rate. Package conn describes the cases the deadline does not
// cover.
//
// # Failures
//
//   - If the connection is lost, holds remain valid until their deadlines, and waiters keep their places. If a server
//     resumes the session in time, nothing else happens. With the option WithLossOnSuspend of mutex, rwlock, semaphore
//     and election, holds end immediately instead.
//   - If the deadline passes, all of the session's holds end with a [*LostError], whereas waiters keep their places for
//     as long as the session lives. An answer extends the holds only if it was read before the deadline, and only those
//     that have not ended by the time it is processed: after the deadline, a query ends the hold and the others on its
//     contender, and the session's timer ends all holds.
//   - When the session ends, so do its holds. Its waiters rejoin the queue at the back in the next session.
//   - If a contender is deleted by hand, its holder loses the hold. A waiter rejoins the queue at the back: immediately
//     if it is next in line, unless it is a writer behind a writer or shares the queue with kazoo, and otherwise at the
//     latest when the contender that it waits for leaves. If somebody deletes each of its contenders, it pauses from
//     the sixth on, for up to about a second.
//   - Closing the client ends all its holds and waiters. Its nodes are gone when Close returns, provided that a server
//     answers.
//
// # Working with Java
//
// Nodes have the same names, order and data as those of Apache Curator 5, so Go and Java programs can share a lock if
// both use the same path below the same chroot or namespace. Their access control lists (ACLs) must allow each program
// to create and delete nodes below that path and to read the other's nodes, but their identities don't have to match.
// To share a read-write lock, Java needs Curator 5.5 or later, because older releases admit a writer during a
// downgrade.
//
//   - InterProcessMutex is recipes/mutex, InterProcessMultiLock is recipes/multilock, and Revoker is Mutex.Revoke.
//   - InterProcessReadWriteLock is recipes/rwlock.
//   - InterProcessSemaphoreV2 is recipes/semaphore. InterProcessSemaphoreMutex is a semaphore with a limit of 1. For
//     a SharedCount as the limit, use the option WithLimitNode.
//   - LeaderLatch is recipes/election. LeaderSelector is recipes/election with WithLayout(Selector).
//   - A namespace is a chroot, or conn.Client.Sub.
//
// Curator's locks are reentrant per thread. Here, locks are exclusive by default, but the option WithReentrance of
// mutex and rwlock lets calls nest by context, as package mutex explains.
package zkrecipes
