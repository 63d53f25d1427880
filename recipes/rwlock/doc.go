// Package rwlock provides a distributed read-write lock: any number of readers, or a single writer, hold the lock on a
// path in ZooKeeper.
//
//	l, err := rwlock.New(client, "/locks/config")
//	err = l.RDo(ctx, func(ctx context.Context, h *zkrecipes.Hold) error { return use(ctx) })
//	err = l.Do(ctx, func(ctx context.Context, h *zkrecipes.Hold) error { return edit(ctx, h) })
//
// # Guarantees
//
// While a writer holds the lock, no other caller does, and while a reader holds it, no writer does, in Go and Java
// together. A hold ends when you release it, its session ends, [zkrecipes.Hold.ValidUntil] passes, or its node is
// deleted, whichever comes first. Its context is then canceled, and [context.Cause] returns the reason, so work that
// stops with the context has stopped before any waiter that the hold excluded acquires the lock. This assumes that
// client and server clocks run at nearly the same rate and that the process is running.
//
// While you hold the lock, reads through the same client see everything that the previous writer wrote to ZooKeeper
// before its hold ended. You need no sync: the server that grants the lock has applied the end of the previous hold,
// and the client's later reads never go back in time. If the previous hold belonged to the same session, reads see each
// of its writes that was answered. Reads through another client may be stale.
//
// # Failures
//
// A disconnect alone does not end a hold: unless you choose [WithLossOnSuspend], the hold lives until its deadline and
// continues if a server answers in time. When the session ends, its holds end for good. A waiter whose session ends
// rejoins the queue at the back in the next session.
//
// When an acquisition fails, the caller leaves the queue, and its node is deleted in the background. Closing the client
// ends its holds, and its waiters return ErrClosed.
//
// # Fairness
//
// Readers and writers share one queue, in the order in which the servers created the nodes. A writer waits for everyone
// ahead of it, and a reader for the writers ahead of it. Since a reader that arrives after a waiting writer waits
// behind it, neither side can starve the other.
//
// # What is not guaranteed
//
// A process can check its hold, be paused, and then act while another process holds the lock. To protect a resource
// against that, have it check the writers' tokens (see package fence), or write to ZooKeeper with [zkrecipes.Hold.Txn].
// A paused reader may continue with data that a writer has changed since. The guarantees also depend on the deadline;
// package [conn] describes what the deadline does not cover.
//
// If TryLock or TryRLock succeeds, you hold the lock. Right after ZooKeeper's leader is replaced, however, a refusal
// may be up to 1.5 ticks old, and so may what Queue returns.
//
// # Nested locking
//
// Ownership follows the context, within one client and its Subs. A call whose context descends from a live hold on the
// same path never waits for its own caller:
//
//   - A write inside a write fails with ErrDeadlock at once. With [WithReentrance] it returns another hold on the same
//     node instead. Goroutines that share the first hold's context then hold the lock together, which is why you have
//     to opt in.
//   - A read inside a read returns another hold on the same node, with the first one's options. It needs no option of
//     its own, because readers do not exclude each other, whereas a second node could end up behind a writer that waits
//     for the caller.
//   - A read inside a write is a downgrade: the reader takes its writer's place in the queue, and no writer acquires
//     the lock in between.
//   - A write inside a read could never be granted, so it fails with ErrUpgrade at once. Release the read lock, acquire
//     the write lock, and read again.
//   - Through a second client, a lock that would wait for its own caller fails with ErrDeadlock at once.
//
// # Cost
//
// Each caller has one node. A holder watches its own node, a waiting writer the node just ahead of it, and a waiting
// reader the nearest writer ahead. Callers in one process that wait for the same node share the watch. An uncontended
// lock takes one round trip, joining the queue one more, and a release one. Waking up takes another, unless only one
// caller was ahead when the waiter joined: that waiter also watches its own node, and the event grants it the lock. A
// writer behind another writer always reads. When a writer releases, all readers up to the next writer wake. A client
// that locks repeatedly in one session has one more watch, on the path itself.
//
// # Compatibility
//
// The nodes are those of Curator's InterProcessReadWriteLock, so the two exclude each other. With Curator before 5.5, a
// writer may acquire the lock while one of Curator's writers becomes a reader. With the option [WithKazoo], Python
// programs that use kazoo share the path.
package rwlock
