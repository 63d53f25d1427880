// Package rwlock provides a distributed read-write lock: any number of readers, or a single writer, hold the lock on a
// path in ZooKeeper.
//
//	l, err := rwlock.New(client, "/locks/config")
//	err = l.RDo(ctx, func(ctx context.Context, h *zkrecipes.Hold) error { return use(ctx) })
//	err = l.Do(ctx, func(ctx context.Context, h *zkrecipes.Hold) error { return edit(ctx, h) })
//
// # Guarantees
//
// While a writer holds the lock, nobody else does, and while a reader holds it, no writer does, whether the programs
// are written in Go or in Java. A hold ends when you release it, when its session ends, when its deadline
// ([zkrecipes.Hold.ValidUntil]) passes, or when its node is deleted, whichever comes first. Its context is then
// canceled, and [context.Cause] returns the reason. Work that stops when the context is canceled has therefore stopped
// before any waiter that the hold excluded acquires the lock, provided that client and server clocks run at nearly the
// same rate and that the process is running.
//
// While you hold the lock, reads through the same client see everything that the previous writer wrote to ZooKeeper
// before its hold ended. You don't have to call Sync first, because the server that grants the lock has already applied
// the end of the previous hold, and the client's later reads never go back in time. If the previous hold belonged to
// the same session, reads see every write of that hold that was answered. Reads through another client may be stale.
//
// # Failures
//
// A disconnect alone does not end a hold. Unless you choose [WithLossOnSuspend], the hold stays valid until its
// deadline, and beyond it if a server answers in time. When the session ends, on the other hand, its holds end for
// good. Waiters whose session ends rejoin the queue at the back in the next session.
//
// When an acquisition fails, the caller leaves the queue, and the call returns once its node has been deleted. The
// deletion continues in the background if the context is done first, or if the call could not find out whether its node
// exists, for example because a server failed on the create. If you close the client, its holds end and its waiters
// return ErrClosed.
//
// # Fairness
//
// Readers and writers share one queue, in the order in which the servers created their nodes. A writer waits for
// everyone ahead of it, but a reader only for the writers ahead of it. Neither side can starve the other, because a
// reader that arrives after a waiting writer has to wait behind it.
//
// # What is not guaranteed
//
// A process can check its hold, be paused, and then act while another process holds the lock. To protect a resource
// against that, have the resource check the writers' tokens (see package fence), or write to ZooKeeper with
// [zkrecipes.Hold.Txn]. A reader that was paused may likewise continue with data that a writer has since changed. The
// guarantees also depend on the deadline; package [conn] explains what it doesn't cover.
//
// If TryLock or TryRLock succeeds, you hold the lock. A refusal, however, may be up to 1.5 ticks old when ZooKeeper's
// leader has just been replaced. The same applies to the list that Queue returns.
//
// # Nested locking
//
// Ownership follows the context, within one client and its Subs. A call whose context is derived from a live hold on
// the same path never waits for its own caller. What it does instead depends on the kinds of the two locks:
//
//   - A write inside a write immediately fails with ErrDeadlock. With [WithReentrance], it returns another hold on the
//     same node instead. You have to opt in because goroutines that share the first hold's context then hold the lock
//     together.
//   - A read inside a read returns another hold on the same node, with the first one's options. You don't have to opt
//     in, because readers don't exclude each other, whereas a second node could end up behind a writer that waits for
//     the caller.
//   - A read inside a write is a downgrade: the reader takes its writer's place in the queue, and no writer acquires
//     the lock in between.
//   - A write inside a read could never be granted, so it immediately fails with ErrUpgrade. Release the read lock,
//     acquire the write lock, and read again.
//   - Through a second client, a lock that would wait for its own caller immediately fails with ErrDeadlock.
//
// # Cost
//
// Each caller has one node. A holder watches its own node, a waiting writer the node just ahead of it, and a waiting
// reader the nearest writer ahead. Callers of one client that wait for the same node share a watch.
//
// An uncontended lock takes one round trip, joining the queue takes one more, and a release takes one. Waking up takes
// another, unless the caller that a waiter watches is its only obstacle: then it also watches its own node, so the
// event alone grants it the lock. A writer behind another writer always has to read. When a writer releases the lock,
// all readers up to the next writer wake.
//
// # Compatibility
//
// The nodes are those of Curator's InterProcessReadWriteLock, so the two exclude each other. With Curator before 5.5,
// however, a writer may acquire the lock while one of Curator's writers becomes a reader. With the option [WithKazoo],
// Python programs that use kazoo can share the path.
package rwlock
