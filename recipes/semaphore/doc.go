// Package semaphore is a semaphore across processes: a number of leases, of which all who use the same path in ZooKeeper
// together hold at most as many as the limit.
//
//	s, err := semaphore.New(client, "/app/uploads", 10)
//	h, err := s.Acquire(ctx, 3)
//	defer h.Release(ctx)
//
// # While they are held
//
// No more than the limit are held, in Go and in Java together. A hold stands for all leases of one Acquire and ends, for
// all of them, at the earliest of its release, the end of its session, the passing of [zkrecipes.Hold.ValidUntil] and the
// deletion of one of its nodes by anyone; its context ends with it, and says why.
//
// # The limit
//
// It is what everybody says it is: there is nothing in ZooKeeper that would make those agree who give different limits
// for one path, and the largest counts. That more leases are out than one's own limit allows is logged, once, as a
// warning; [Semaphore.Holders] shows them. [WithLimitNode] keeps the limit in a node that all follow, also Java's
// SharedCount; lowering it takes nothing from those who hold, it keeps others out until enough have been given back.
//
// # Disconnect, expiry, close
//
// A disconnect ends nothing by itself: the hold lives up to its deadline, which was proven before, and goes on if a
// server answers in time; [WithLossOnSuspend] is for those who want out at once. When the session ends, so does the hold,
// for good, and its leases are free. One who waits goes on waiting in the next session, at the end of the line. Closing
// the client ends its holds and its waiters.
//
// # Fairness
//
// First come, first served, and nobody is passed by: one who waits for many leases keeps those behind it waiting, though
// there may be enough for them, since otherwise it might wait for ever.
//
// # What it does not guarantee
//
// A process can be frozen between looking at its hold and acting on it, and act when others hold its leases already. A
// resource that must not see that can refuse tokens it has seen the end of; a fence as for a lock, which refuses all but
// the newest, does not fit where several hold at once.
//
// A "no" of a try, and what Holders and Limit return, is as new as the call as far as the leader knows; one that has been
// replaced takes up to a tick and a half to find out. A "yes" is never old.
//
// Holds are not nested: Acquire with the context of a hold takes more leases, and waits for ever if that needs those that
// the caller has.
//
// # Cost
//
// One node per lease, and one in the line while waiting; each lease is watched by its holder, the list of leases by the
// first in line, and the node just ahead by each of the others. A client that acquires again and again in one session has
// two more watches, on the parents of both. An uncontended Acquire takes two round trips, three with a limit node. n leases
// are made in one transaction and removed in one; who has stood in line, and finds enough of them, leaves the line in the
// transaction that makes them.
//
// The nodes are those of Curator's InterProcessSemaphoreV2, and both count each other's leases. A lease alone under a
// limit of 1 is what Curator calls InterProcessSemaphoreMutex.
package semaphore
