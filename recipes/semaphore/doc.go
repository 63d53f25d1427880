// Package semaphore provides a distributed semaphore: together, the callers on a path in ZooKeeper never hold more
// leases than the limit.
//
//	s, err := semaphore.New(client, "/app/uploads", 10)
//	h, err := s.Acquire(ctx, 3)
//	defer h.Release(ctx)
//
// # Guarantees
//
// Callers in Go and Java together hold no more leases than the limit. A hold represents all of the leases from one call
// to Acquire. It ends for all of them when you release it, when its session ends, when its deadline
// ([zkrecipes.Hold.ValidUntil]) passes, or when one of its nodes is deleted, whichever comes first. Its context is then
// canceled, and [context.Cause] returns the reason.
//
// # The limit
//
// Each Semaphore has its own limit, and ZooKeeper doesn't compare these limits. If they differ, the largest one counts;
// with [WithKazoo], Acquire fails. A Semaphore logs one warning if more leases are held than its own limit allows;
// [Semaphore.Holders] lists the leases.
//
// To change the limit at run time, use [WithLimitNode], which keeps it in a node that all semaphores follow, as with
// Java's SharedCount. If you lower the limit, holders keep their leases, and waiters wait until enough leases are
// released.
//
// # Failures
//
// A disconnect alone does not end a hold. Unless you choose [WithLossOnSuspend], the hold stays valid until its
// deadline, and beyond it if a server answers in time. When the session ends, on the other hand, its holds end for good
// and their leases become free. Waiters whose session ends rejoin the queue at the back in the next session.
//
// When an acquisition fails, the caller holds no leases and leaves the queue, and the call returns once its nodes have
// been deleted. The deletion continues in the background if the context is done first, or if the call could not find
// out whether its nodes exist, for example because a server failed on the create. If you close the client, its holds
// end and its waiters return ErrClosed.
//
// # Fairness
//
// Leases are granted first come, first served. A waiter that wants many leases blocks the waiters behind it even if
// there are enough leases for them, because otherwise it might wait forever.
//
// # What is not guaranteed
//
// A process can check its hold, be paused, and then act while other callers hold its leases. A fence that rejects all
// but the latest token doesn't help here, because several callers hold leases at the same time. Instead, the resource
// can reject the tokens of holds that it knows have ended. The guarantees also depend on the deadline; package [conn]
// explains what it doesn't cover.
//
// If TryAcquire succeeds, you hold the leases. A refusal, however, may be up to 1.5 ticks old when ZooKeeper's leader
// has just been replaced. The same applies to what Holders, Queue and Limit return.
//
// Holds don't nest: if you call Acquire with a hold's context, it takes additional leases, and waits forever if it
// needs those that its own caller holds.
//
// # Cost
//
// Each lease is a node that its holder watches, and a client has room for about 19,000 of them; see
// [conn.WithMaxRequestSize]. A waiter has one node, and the first waiter also has its leases. The first watches the
// list of leases, the limit node and its own node, while each of the others watches the node just ahead of it. An
// uncontended Acquire takes two round trips, or three with a limit node. All leases of a hold are created in one
// transaction, and deleted in another.
//
// # Compatibility
//
// The nodes are those of Curator's InterProcessSemaphoreV2, and each side counts the other's leases. A single lease
// under a limit of 1 is Curator's InterProcessSemaphoreMutex. With the option [WithKazoo], Python programs that use
// kazoo can share the path as well.
package semaphore
