// Package mutex provides a distributed lock: at most one caller at a time holds the lock on a path in ZooKeeper.
//
//	m, err := mutex.New(client, "/app/report")
//	err = m.Do(ctx, func(ctx context.Context, h *zkrecipes.Hold) error {
//		return report(ctx) // stops when ctx is canceled because the lock is lost
//	})
//
// # Guarantees
//
// Nobody else, in Go or in Java, can acquire the lock until your hold has ended in this process, as long as nobody
// deletes its node by hand. A hold ends when you release it, when its session ends, when its deadline
// ([zkrecipes.Hold.ValidUntil]) passes, or when its node is deleted, whichever comes first. Its context is then
// canceled, and [context.Cause] returns the reason. Work that stops when the context is canceled has therefore stopped
// before the next holder starts, provided that client and server clocks run at nearly the same rate and that the
// process is running.
//
// While you hold the lock, reads through the same client see everything that the previous holder wrote to ZooKeeper
// before its hold ended. You don't have to call Sync first, because the server that grants the lock has already applied
// the end of the previous hold, and the client's later reads never go back in time. If the previous hold belonged to
// the same session, reads see every write of that hold that was answered. Reads through another client may be stale.
//
// # Failures
//
// A disconnect alone does not end a hold. Unless you choose [WithLossOnSuspend], the hold stays valid until its
// deadline, and beyond it if a server answers in time. When the session ends, on the other hand, its holds end for
// good, and the next Lock returns a new hold with a larger token. Waiters whose session ends rejoin the queue at the
// back in the next session.
//
// If the reply to the create is lost, Lock finds its node by the UUID in the node's name. When an acquisition fails,
// the caller leaves the queue, and the call returns once its node has been deleted. The deletion continues in the
// background if the context is done first, or if the call could not find out whether its node exists, for example
// because a server failed on the create. If you close the client, its holds end and its waiters return ErrClosed.
//
// # Fairness
//
// Waiters acquire the lock first come, first served, in the order in which the servers created their nodes. By default,
// a release wakes only one of them.
//
// # What is not guaranteed
//
// A process can check its hold, be paused, and then act while another process holds the lock. To protect a resource
// against that, have the resource check tokens (see package fence), or write to ZooKeeper with [zkrecipes.Hold.Txn].
// The guarantees also depend on the deadline; package [conn] explains what it doesn't cover.
//
// If TryLock succeeds, you hold the lock. A refusal, however, may be up to 1.5 ticks old when ZooKeeper's leader has
// just been replaced. The same applies to the list that Queue returns.
//
// # Nested locking
//
// Goroutines exclude each other just as processes do. If you call Lock with a context that is derived from a live hold
// on the same path, it could only wait for its own caller, so it immediately fails with ErrDeadlock, even through Sub
// or a second client. The same path on two ensembles is two separate locks.
//
// With [WithReentrance], such a call returns another hold on the same node instead, so that a function can lock what
// its caller has already locked. Ownership follows the context rather than the goroutine. You have to opt in because
// goroutines that share a hold's context then hold the lock together. Reentrance works within one client and its Subs.
//
// If a function only needs its caller's hold, it can call [zkrecipes.HoldFromContext] instead.
//
// # Cost
//
// Each caller has one node. A holder watches its own node, while a waiter watches the node just ahead of it. A waiter
// that is next, or that is behind a caller using the same Mutex, watches its own node as well. Callers of one client
// that wait for the same node share a watch.
//
//   - An uncontended Lock takes one round trip, and so does a release.
//   - Joining a queue takes one more. If a waiter was next when it joined, the release event alone grants it the lock.
//     A waiter further back has to list the queue once when it wakes, and that list grows with the queue.
//   - If the next waiter uses the same Mutex, a release hands the lock over to it immediately, without a round trip.
//     Share one Mutex per path where you can: two of them exclude each other, but need as many round trips as two
//     processes. After a hand-over, other clients see the previous hold's node at the head of the queue until the
//     server deletes it. While a Hold.Txn is unanswered, or if its outcome is unknown, a release hands nothing over,
//     and the waiter waits for the deletion instead. This doesn't cover your own transactions that check the node, so
//     write with Hold.Txn.
//   - A critical section that ends immediately takes three requests, or two (create and delete) if the client has the
//     lock to itself. For a longer hold, add the request that sets its watch.
//   - The first Lock below an existing path takes three more requests, one of which creates the lock's path.
//   - A client that locks repeatedly in one session uses one more watch, on the path itself.
//   - With [zkrecipes.HandOverEager], when more than two sessions contend, a waiter lists the queue before it is next,
//     so that the release event alone grants it the lock. That takes about eight requests per section instead of five,
//     and each release wakes two clients. [zkrecipes.HandOverAuto] does so only where sections are short.
//   - A waiter takes about 3 KiB of heap, and no goroutine other than the caller's own. This is tested with ten
//     thousand waiters on one lock.
//
// # Compatibility
//
// The nodes are those of Curator's InterProcessMutex, so the two exclude each other. The same goes for an election with
// election.Selector on the same path. With the option [WithKazoo], Python programs that use kazoo can share the path.
package mutex
