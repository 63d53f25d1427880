// Package rwlock provides a distributed read-write lock: any number of readers, or a single writer, hold the lock on a
// path in ZooKeeper.
//
//	l, err := rwlock.New(client, "/app/config")
//	err = l.RDo(ctx, func(ctx context.Context, h *zkrecipes.Hold) error { return use(ctx) })
//	err = l.Do(ctx, func(ctx context.Context, h *zkrecipes.Hold) error { return edit(ctx, h) })
//
// # Guarantees
//
// While a writer holds the lock, no other caller does. While a reader holds it, no writer does. This is true for Go and
// Java together. A hold ends when it is released, when its session ends, when [zkrecipes.Hold.ValidUntil] passes, or
// when its node is deleted, whichever comes first. Its context ends with it, and [context.Cause] returns the reason.
// Work that stops with the context has stopped before any waiter that the hold excluded acquires the lock, provided
// that the clocks of client and server run at nearly the same rate and the process is running.
//
// While the lock is held, reads through the client that holds it see everything that the previous writer wrote to
// ZooKeeper before its hold ended. No sync is needed: the server that grants has applied the end of the previous hold,
// and no later read of the client goes back in time. If the previous hold belonged to the same session, reads see each
// of its writes that was answered. Reads through another client may be older.
//
// # Failures
//
// A disconnect alone does not end a hold. The hold lives until its deadline and continues if a server answers in time;
// with [WithLossOnSuspend] it ends at once. When the session ends, its holds end for good. A waiter whose session ends
// queues again in the next session, at the end of the queue. Closing the client ends its holds, and its waiters return
// ErrClosed.
//
// # Fairness
//
// Readers and writers share one queue, in the order in which the server created the nodes. A writer waits for all
// contenders ahead of it, and a reader for the writers ahead of it. A reader that arrives after a waiting writer waits
// behind it, so neither side can starve the other.
//
// # What is not guaranteed
//
// A process can be paused after it has checked its hold, and then act while another process holds the lock. A resource
// that must not see this has to check the tokens of writers: see package fence, and [zkrecipes.Hold.Txn] for writes to
// ZooKeeper. A paused reader may continue with data that a writer has changed since.
//
// The guarantees depend on the deadline. Package [conn] describes what the deadline does not cover.
//
// If a try succeeds, you hold the lock. A refusal, and the result of Queue, may be up to 1.5 ticks old if ZooKeeper's
// leader was just replaced.
//
// # Nested locking
//
// Ownership follows the context, within one client and its Subs. A call whose context descends from a live hold on the
// same path does not wait for its own caller:
//
//   - A write inside a write fails with ErrDeadlock at once. With [WithReentrance] it returns another hold on the same
//     node. Goroutines that share the context of the first hold then hold the lock together, which is why it is an
//     option.
//   - A read inside a read returns another hold on the same node, with the options of the first. It needs no option,
//     because readers do not exclude each other. A node of its own could end up behind a writer that waits for its
//     caller.
//   - A read inside a write is the downgrade: the reader takes the place of its writer, and no writer acquires the lock
//     in between.
//   - A write inside a read could never be granted, and fails with ErrUpgrade at once. Release, lock, and read again.
//   - Through a second client, a lock that would wait for its own caller fails with ErrDeadlock at once.
//
// # Cost
//
// Each caller has one node. A holder watches its own node, a writer the node just ahead of it, and a reader the nearest
// writer ahead. Callers in one process that wait for the same node share the watch. An uncontended lock takes one round
// trip, joining the queue one more, and a release one. Being woken takes one more, unless only one caller was ahead
// when the waiter joined: that waiter also watches its own node, and the event grants it. A writer behind a writer
// always reads. The release of a writer wakes all readers up to the next writer. A client that locks repeatedly in one
// session has one more watch, on the path itself.
//
// # Compatibility
//
// The nodes are those of Curator's InterProcessReadWriteLock, so both exclude each other. With Curator before 5.5 a
// writer may acquire the lock while one of Curator's writers becomes a reader. With the option [WithKazoo], Python
// programs that use kazoo share the path.
package rwlock
