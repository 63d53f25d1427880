// Package mutex provides a distributed lock: at most one caller at a time holds the lock on a path in ZooKeeper.
//
//	m, err := mutex.New(client, "/app/report")
//	err = m.Do(ctx, func(ctx context.Context, h *zkrecipes.Hold) error {
//		return report(ctx) // stops with ctx when the lock is lost
//	})
//
// # Guarantees
//
// No other caller, in Go or in Java, acquires the lock until the hold ends in this process. A hold ends when you
// release it, its session ends, [zkrecipes.Hold.ValidUntil] passes, or its node is deleted, whichever comes first. Its
// context is then canceled, and [context.Cause] returns the reason, so work that stops with the context has stopped
// before the next holder starts. This assumes that client and server clocks run at nearly the same rate and that the
// process is running.
//
// While you hold the lock, reads through the same client see everything that the previous holder wrote to ZooKeeper
// before its hold ended. You need no sync: the server that grants the lock has applied the end of the previous hold,
// and the client's later reads never go back in time. If the previous hold belonged to the same session, reads see each
// of its writes that was answered. Reads through another client may be stale.
//
// # Failures
//
// A disconnect alone does not end a hold: unless you choose [WithLossOnSuspend], the hold lives until its deadline and
// continues if a server answers in time. When the session ends, its holds end for good, and the next Lock returns a new
// hold with a larger token. A waiter whose session ends rejoins the queue at the back in the next session.
//
// When an acquisition fails, the caller leaves the queue, and its node is deleted in the background. Closing the client
// ends its holds, and its waiters return ErrClosed.
//
// # Fairness
//
// The lock is granted first come, first served, in the order in which the servers created the nodes. By default a
// release wakes one waiter.
//
// # What is not guaranteed
//
// A process can check its hold, be paused, and then act while another process holds the lock. To protect a resource
// against that, have it check tokens (see package fence), or write to ZooKeeper with [zkrecipes.Hold.Txn]. The
// guarantees also depend on the deadline; package [conn] describes what the deadline does not cover.
//
// If TryLock succeeds, you hold the lock. Right after ZooKeeper's leader is replaced, however, a refusal may be up to
// 1.5 ticks old, and so may what Queue returns.
//
// # Nested locking
//
// Goroutines exclude each other just as processes do. If you call Lock with a context that descends from a live hold on
// the same path, even through Sub or a second client, Lock could only wait for its own caller, so it fails with
// ErrDeadlock at once. Equal paths on two ensembles are two locks.
//
// With [WithReentrance], such a Lock returns another hold on the same node instead, so that a function may lock what
// its caller has locked. Ownership follows the context rather than the goroutine: goroutines that share a hold's
// context hold the lock together, which is why you have to opt in. Reentrance works within one client and its Subs.
//
// A function that only needs its caller's hold can get it from [zkrecipes.HoldFromContext] instead.
//
// # Cost
//
// Each caller has one node. A holder watches its own node, and a waiter the node just ahead of it. A waiter that is
// next, or behind a caller of the same object, also watches its own. Callers in one process that wait for the same node
// share the watch.
//
//   - An uncontended Lock takes one round trip, and so does a release.
//   - Joining a queue takes one more. A waiter that was next when it joined is granted the lock by the release event
//     itself. A waiter further back lists the queue once when it wakes, and that list grows with the queue.
//   - If the next waiter uses the same object, a release hands over to it at once, without a round trip. Use one Mutex
//     per path where you can: two of them exclude each other, but cost as many round trips as two processes. Until the
//     server deletes the last hold's node, others see that node at the head. While a Hold.Txn is unanswered, the
//     release hands nothing over, and the waiter waits for the deletion. A transaction of your own that checks the node
//     is not covered by this, so write with Hold.Txn.
//   - A critical section that ends at once takes three requests, or two (create and delete) for a client that has the
//     lock to itself. A longer hold adds its watch.
//   - The first Lock below an existing path takes three more requests, one of which creates the lock's path.
//   - A client that locks repeatedly in one session has one more watch, on the path itself.
//   - With [zkrecipes.HandOverEager], when more than two sessions contend, a waiter lists the queue before it is next,
//     so that the release event grants it the lock. That takes about eight requests per section instead of five, and a
//     release wakes two clients. [zkrecipes.HandOverAuto] does so only where sections are short.
//   - A waiter takes about 3 KiB of heap and no goroutine besides the caller's own. Ten thousand waiters on one lock
//     are tested.
//
// # Compatibility
//
// The nodes are those of Curator's InterProcessMutex, so the two exclude each other, as does an election with
// election.Selector on the same path. With the option [WithKazoo], Python programs that use kazoo share the path.
package mutex
