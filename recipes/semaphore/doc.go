// Package semaphore is a semaphore across processes: all callers on a path in ZooKeeper together hold at most as many
// leases as the limit.
//
//	s, err := semaphore.New(client, "/app/uploads", 10)
//	h, err := s.Acquire(ctx, 3)
//	defer h.Release(ctx)
//
// # What is guaranteed
//
// Callers in Go and Java together hold no more leases than the limit. A hold stands for all leases of one Acquire. It ends
// for all of them when it is released, when its session ends, when [zkrecipes.Hold.ValidUntil] passes, or when one of its
// nodes is deleted, whichever is first. Its context ends with it, and the cause of the context says why.
//
// # The limit
//
// Each semaphore is given a limit, and ZooKeeper does not compare them. If limits differ, the largest one counts. If more
// leases are out than its own limit allows, a client logs one warning; [Semaphore.Holders] lists the leases.
//
// [WithLimitNode] keeps the limit in a node that all semaphores follow, also Java's SharedCount. If the limit is lowered,
// holders keep their leases, and waiters wait until enough leases are released.
//
// # What happens on disconnect, expiry and close
//
// A disconnect alone ends nothing. The hold lives until its deadline, and goes on if a server answers in time;
// [WithLossOnSuspend] ends it at once. When the session ends, its holds end for good, and their leases are free. A waiter
// whose session ends queues again in the next session, at the end of the queue. Closing the client ends its holds, and its
// waiters return ErrClosed.
//
// # How fair it is
//
// First come, first served. A waiter that wants many leases keeps the waiters behind it waiting, also when there are enough
// leases for them. Otherwise it might wait for ever.
//
// # What is not guaranteed
//
// A process can be frozen after it has looked at its hold. It then acts when other callers hold its leases. A fence that
// refuses all but the newest token does not fit here, since several callers hold at once. The resource can refuse tokens
// whose holds it has seen end.
//
// The guarantee rests on the deadline. Package conn says what the deadline does not cover.
//
// A success of TryAcquire is always current. A refusal, and the results of Holders, Queue and Limit, may be up to 1.5
// ticks old if ZooKeeper's leader was just replaced.
//
// Holds are not nested. Acquire with the context of a hold takes more leases. It waits for ever if it needs the leases that
// its own caller holds.
//
// # What it costs
//
// Each lease is a node that its holder watches. A client has room for about 19,000: see [conn.WithMaxRequestSize]. Each waiter has
// one more node. The first waiter watches the list of leases, each other waiter the node just ahead of it. An uncontended Acquire
// takes two round trips, three with a limit node. All leases of a hold are created in one transaction and deleted in one.
//
// The nodes are those of Curator's InterProcessSemaphoreV2, and each side counts the other's leases. One lease under a
// limit of 1 is Curator's InterProcessSemaphoreMutex.
//
// With the option [WithKazoo], programs in Python that use kazoo share the path.
package semaphore
