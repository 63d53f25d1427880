// Package zkrecipes is the vocabulary that all recipes share: [Hold], [Token], [Participant] and the errors. It is the
// page to start from.
//
// # The map
//
//   - conn: the client. Connects, reconnects, opens the next session when one is over, and knows of each until when it
//     is proven alive.
//   - recipes/election, recipes/mutex, recipes/rwlock, recipes/semaphore: what you came for. Each acquires a [Hold].
//   - fence: refuses stale tokens at the resource that a hold protects.
//   - zktest: a ZooKeeper inside the test process, for your tests as for ours.
//
// # What is guaranteed
//
// While [Hold.Err] is nil, nobody else holds what the hold stands for, by the clock that it was asked at. A hold ends by
// itself before the server can let another in: its deadline is proven from requests that the leader of the ensemble has
// answered, not guessed from the moment a connection was lost. So in a partition the old holder knows first. A hold that
// has ended is never regained; what is acquired next has a larger [Token].
//
// # What is not, and what to do about it
//
// No lock service can stop a process that has looked, found its hold alive, and is then frozen for a minute between the
// look and the write. Three things can:
//
//   - [Hold.Txn] writes in ZooKeeper only if the hold is still held when the write is applied;
//   - [Hold.Token], checked by the resource with package fence from the first read of the section on;
//   - [Hold.Context], which ends work that looks at it.
//
// The deadline also rests on clocks that run at nearly the same rate; package conn says exactly on what.
//
// # What happens when
//
//   - The connection is lost: nothing at first. Holds run on to their deadlines, waiters keep their places. If a server
//     answers for the same session in time, it was as if nothing had happened. See each recipe's WithLossOnSuspend for
//     callers that would rather stop at once.
//   - The deadline passes: all holds of the session end, with a [*LostError]. Waiters keep their places as long as the
//     session lives.
//   - The session ends: its holds end as well. Waiters queue again, at the end of the line, in the next session.
//   - Somebody deletes a contender by hand: its hold ends, or its waiter queues again.
//   - The client is closed: everything ends, and its nodes are gone when Close returns, if a server could be reached.
//
// # Working with Java
//
// The nodes are those of Apache Curator 5, names, order and data, so that Go and Java take turns on one lock. Both must
// use the same chroot or namespace. On a read-write lock, Java needs Curator 5.5 or later to be kept out of a downgrade.
//
//   - InterProcessMutex is recipes/mutex, InterProcessMultiLock its LockAll, and Revoker its Revoke.
//   - InterProcessReadWriteLock is recipes/rwlock.
//   - InterProcessSemaphoreV2 is recipes/semaphore, and InterProcessSemaphoreMutex one with a limit of 1. SharedCount, as
//     its limit, is WithLimitNode.
//   - LeaderLatch is recipes/election, and LeaderSelector the same with WithLayout(Selector).
//   - A namespace is a chroot, or conn.Client.Sub.
//
// Of Curator's other recipes, barriers, queues, caches, counters and group membership, there is none here. To take turns
// with a Curator that runs, give both the same path below the same chroot, and access lists under which either may create
// and delete below it and read what the other makes; nothing else has to agree, not even the identities.
//
// Reentrance is by context, not by thread: package mutex says how.
package zkrecipes
