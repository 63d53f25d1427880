// Package mutex is a lock across processes: of all who use the same path in ZooKeeper, one holds it.
//
//	m, err := mutex.New(client, "/app/report")
//	err = m.Do(ctx, func(ctx context.Context, h *zkrecipes.Hold) error {
//		return report(ctx) // ends with ctx when the hold is lost
//	})
//
// # While it is held
//
// No one else, in Go or in Java, is let in before the hold has ended on this side. A hold ends at the earliest of its
// release, the end of its session, the passing of [zkrecipes.Hold.ValidUntil] and the deletion of its node by anyone; its
// context ends with it, and says why. What stops when that context does has stopped before the next holder starts, as
// far as clocks run alike and the process runs at all.
//
// # Disconnect, expiry, close
//
// A disconnect ends nothing by itself: the hold lives up to its deadline, which was proven before, and goes on if a
// server answers in time; [WithLossOnSuspend] is for those who want out at once. When the session ends, so does the hold,
// for good: what is acquired afterwards is another one, with a larger token. One who waits goes on waiting in the next
// session, at the end of the line. Closing the client ends its holds and its waiters.
//
// # Fairness
//
// First come, first served, by the order in which the server made the nodes. A release wakes one waiter.
//
// # What it does not guarantee
//
// A process can be frozen between looking at its hold and acting on it, and act when another holds already. A resource
// that must not see that checks tokens: package fence does, and for writes in ZooKeeper [zkrecipes.Hold.Txn].
//
// A "no" of a try, and what Queue returns, is as new as the call as far as the leader knows; one that has been replaced
// takes up to a tick and a half to find out. A "yes" is never old.
//
// # Nested locking
//
// Ownership goes through the context. Lock with a context that descends from a live hold on the same path returns
// another hold at once, so that a function may lock what its caller has locked. Goroutines that are given the context of
// a hold are inside together. The options are those of the mutex that was locked first.
//
// # Cost
//
// One node per caller, holder or waiter, and one watch: the holder's on itself, a waiter's on the node just ahead;
// callers in one process that wait for the same node share one. A client that locks again and again in one session has
// one more, on the path itself, until that is deleted or the session ends. An uncontended Lock takes one round trip,
// joining the line another one, being woken one, a release one. A section that ends at once is three requests, and two,
// create and delete, for a client that has the lock to itself: nobody has come since its last section, as the numbers of
// the nodes tell. A longer hold adds its watch. A release wakes one client.
//
// Between sessions who is woken reads the list of the line, which grows with it; within one session two reads do that do
// not. One who waits takes about 3 KiB of heap and no goroutine beside the caller's own: ten thousand on one lock are
// tested.
//
// The nodes are those of Curator's InterProcessMutex, and both exclude each other, as does an election with
// election.Selector on the same path.
package mutex
