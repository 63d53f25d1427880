// Package semaphore provides a distributed semaphore: all callers on a path in ZooKeeper together hold at most as many
// leases as the limit.
//
//	s, err := semaphore.New(client, "/app/uploads", 10)
//	h, err := s.Acquire(ctx, 3)
//	defer h.Release(ctx)
//
// # Guarantees
//
// Callers in Go and Java together hold no more leases than the limit. A hold represents all leases of one Acquire. It
// ends for all of them when it is released, when its session ends, when [zkrecipes.Hold.ValidUntil] passes, or when one
// of its nodes is deleted, whichever comes first. Its context ends with it, and [context.Cause] returns the reason.
//
// # The limit
//
// Each semaphore is given a limit, and ZooKeeper does not compare them. If limits differ, the largest one counts. A
// client logs one warning if more leases are held than its own limit allows; [Semaphore.Holders] lists the leases.
//
// [WithLimitNode] keeps the limit in a node that all semaphores follow, as Java's SharedCount does. If the limit is
// lowered, holders keep their leases, and waiters wait until enough leases are released.
//
// # Failures
//
// A disconnect alone does not end a hold. The hold lives until its deadline and continues if a server answers in time;
// with [WithLossOnSuspend] it ends at once. When the session ends, its holds end for good and their leases become free.
// A waiter whose session ends queues again in the next session, at the end of the queue. Closing the client ends its
// holds, and its waiters return ErrClosed.
//
// # Fairness
//
// Leases are granted first come, first served. A waiter that wants many leases blocks the waiters behind it even if
// there are enough leases for them, because otherwise it might wait forever.
//
// # What is not guaranteed
//
// A process can be paused after it has checked its hold, and then act while other callers hold its leases. A fence that
// rejects all but the newest token does not help here, because several callers hold leases at once. The resource can
// instead reject the tokens of holds that it has seen end.
//
// The guarantees depend on the deadline. Package [conn] describes what the deadline does not cover.
//
// If TryAcquire succeeds, you hold the leases. A refusal, and the results of Holders, Queue and Limit, may be up to 1.5
// ticks old if ZooKeeper's leader was just replaced.
//
// Holds do not nest. Acquire with the context of a hold takes additional leases, and waits forever if it needs the
// leases that its own caller holds.
//
// # Cost
//
// Each lease is a node that its holder watches. A client has room for about 19,000: see [conn.WithMaxRequestSize]. Each
// waiter has one more node. The first waiter watches the list of leases, and each other waiter the node just ahead of
// it. An uncontended Acquire takes two round trips, or three with a limit node. All leases of a hold are created in one
// transaction and deleted in one.
//
// # Compatibility
//
// The nodes are those of Curator's InterProcessSemaphoreV2, and each side counts the other's leases. One lease
// under a limit of 1 is Curator's InterProcessSemaphoreMutex. With the option [WithKazoo], Python programs that
// use kazoo share the path.
package semaphore
