// Package mutex provides a distributed lock: at most one caller at a time holds the lock on a path in ZooKeeper.
//
//	m, err := mutex.New(client, "/app/report")
//	err = m.Do(ctx, func(ctx context.Context, h *zkrecipes.Hold) error {
//		return report(ctx) // stops with ctx when the lock is lost
//	})
//
// # Guarantees
//
// No other caller, in Go or in Java, acquires the lock before the hold has ended in this process. A hold ends when it
// is released, when its session ends, when [zkrecipes.Hold.ValidUntil] passes, or when its node is deleted, whichever
// comes first. Its context ends with it, and [context.Cause] returns the reason. Work that stops with the context has
// stopped before the next holder starts, provided that the clocks of client and server run at nearly the same rate and
// the process is running.
//
// While the lock is held, reads through the client that holds it see everything that the previous holder wrote to
// ZooKeeper before its hold ended. No sync is needed: the server that grants has applied the end of the previous hold,
// and no later read of the client goes back in time. If the previous hold belonged to the same session, reads see each
// of its writes that was answered. Reads through another client may be older.
//
// # Failures
//
// A disconnect alone does not end a hold. The hold lives until its deadline and continues if a server answers in time;
// with [WithLossOnSuspend] it ends at once. When the session ends, its holds end for good, and a later Lock is a new
// hold with a larger token. A waiter whose session ends queues again in the next session, at the end of the queue.
// Closing the client ends its holds, and its waiters return ErrClosed.
//
// # Fairness
//
// The lock is granted first come, first served, in the order in which the server created the nodes. A release wakes one
// waiter.
//
// # What is not guaranteed
//
// A process can be paused after it has checked its hold, and then act while another process holds the lock. A resource
// that must not see this has to check tokens: see package fence, and [zkrecipes.Hold.Txn] for writes to ZooKeeper.
//
// The guarantees depend on the deadline. Package [conn] describes what the deadline does not cover.
//
// If TryLock succeeds, you hold the lock. A refusal, and the result of Queue, may be up to 1.5 ticks old if
// ZooKeeper's leader was just replaced.
//
// # Nested locking
//
// A hold excludes everyone else, including its own process: goroutines exclude each other just as processes do. A Lock
// whose context descends from a live hold on the same path could only wait for its own caller, so it fails with
// ErrDeadlock at once. This also applies through Sub and through a second client. Equal paths on two ensembles are two
// locks.
//
// With [WithReentrance], such a Lock returns another hold on the same node instead, so that a function may lock what
// its caller has locked. Ownership follows the context, not the goroutine: goroutines that share the context of a hold
// hold the lock together, which is why this is an option. It works within one client and its Subs.
//
// [zkrecipes.HoldFromContext] gives a function the hold of its caller without another Lock.
//
// # Cost
//
// Each caller has one node. A holder watches its own node, and a waiter the node just ahead of it. A waiter also
// watches its own node if it is next, or behind a caller of the same object. Callers in one process that wait for the
// same node share the watch.
//
//   - An uncontended Lock takes one round trip, and a release another.
//   - Joining a queue takes one more. If a waiter was next when it joined, the event of the release grants it. A waiter
//     further back lists the queue once when it is woken, and that list grows with the queue.
//   - If the next waiter uses the same object, a release hands over to it at once, without a round trip. Use one Mutex
//     for a path: two of them exclude each other, but pay the round trips of two processes. Until the server has
//     deleted the node of the last hold, others see that node at the head. If a Hold.Txn is unanswered, the release
//     hands nothing over, and the waiter waits for the deletion. This does not cover a transaction in which the caller
//     checks the node itself: write with Hold.Txn.
//   - A section that ends at once takes three requests, or two (create and delete) for a client that has the lock to
//     itself. A longer hold adds its watch.
//   - The first Lock below an existing path takes three more requests, one of which creates the lock's path.
//   - A client that locks repeatedly in one session has one more watch, on the path itself.
//   - With [zkrecipes.HandOverEager], between more than two sessions, a waiter lists the queue before it is next, and
//     the event of the release grants it. That takes about eight requests per section instead of five, and a release
//     wakes two clients. [zkrecipes.HandOverAuto] does so only where sections are short.
//   - A waiter takes about 3 KiB of heap and no goroutine besides the caller's own. Ten thousand on one lock are
//     tested.
//
// # Compatibility
//
// The nodes are those of Curator's InterProcessMutex, so both exclude each other, as does an election with
// election.Selector on the same path. With the option [WithKazoo], Python programs that use kazoo share the path.
package mutex
