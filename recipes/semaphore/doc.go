// Package semaphore provides a distributed semaphore: all callers on a path in ZooKeeper together hold at most as many
// leases as the limit.
//
//	s, err := semaphore.New(client, "/app/uploads", 10)
//	h, err := s.Acquire(ctx, 3)
//	defer h.Release(ctx)
//
// # Guarantees
//
// Callers in Go and Java together hold no more leases than the limit. One hold represents all leases of one Acquire,
// and ends for all of them when you release it, its session ends, [zkrecipes.Hold.ValidUntil] passes, or one of its
// nodes is deleted, whichever comes first. Its context is then canceled, and [context.Cause] returns the reason.
//
// # The limit
//
// Each semaphore is given a limit, and ZooKeeper does not compare them. If limits differ, the largest one counts. A
// client logs one warning if more leases are held than its own limit allows; [Semaphore.Holders] lists the leases.
//
// With [WithLimitNode], the limit is in a node that all semaphores follow, as with Java's SharedCount, so that you can
// change it at run time. If it is lowered, holders keep their leases, and waiters wait until enough leases are
// released.
//
// # Failures
//
// A disconnect alone does not end a hold: unless you choose [WithLossOnSuspend], the hold lives until its deadline and
// continues if a server answers in time. When the session ends, its holds end for good and their leases become free. A
// waiter whose session ends rejoins the queue at the back in the next session.
//
// When an acquisition fails, the caller holds no lease and leaves the queue, and its nodes are deleted in the
// background. Closing the client ends its holds, and its waiters return ErrClosed.
//
// # Fairness
//
// Leases are granted first come, first served. A waiter that wants many leases blocks the waiters behind it even if
// there are enough leases for them, because otherwise it might wait forever.
//
// # What is not guaranteed
//
// A process can check its hold, be paused, and then act while other callers hold its leases. A fence that rejects all
// but the newest token does not help here, because several callers hold leases at once. The resource can instead reject
// the tokens of holds that it has seen end. The guarantees also depend on the deadline; package [conn] describes what
// the deadline does not cover.
//
// If TryAcquire succeeds, you hold the leases. Right after ZooKeeper's leader is replaced, however, a refusal may be up
// to 1.5 ticks old, and so may what Holders, Queue and Limit return.
//
// Holds do not nest: Acquire with a hold's context takes additional leases, and waits forever if it needs those that
// its own caller holds.
//
// # Cost
//
// Each lease is a node that its holder watches, and a client has room for about 19,000 of them; see
// [conn.WithMaxRequestSize]. Each waiter has one more node. The first waiter watches the list of leases, and each of
// the others the node just ahead of it. An uncontended Acquire takes two round trips, or three with a limit node. All
// leases of a hold are created in one transaction and deleted in one.
//
// # Compatibility
//
// The nodes are those of Curator's InterProcessSemaphoreV2, and each side counts the other's leases. One lease under a
// limit of 1 is Curator's InterProcessSemaphoreMutex. With the option [WithKazoo], Python programs that use kazoo share
// the path.
package semaphore
