// Package rwlock is a read-write lock across processes: any number of readers hold the lock on a path in ZooKeeper, or
// one writer.
//
//	l, err := rwlock.New(client, "/app/config")
//	err = l.RDo(ctx, func(ctx context.Context, h *zkrecipes.Hold) error { return use(ctx) })
//	err = l.Do(ctx, func(ctx context.Context, h *zkrecipes.Hold) error { return edit(ctx, h) })
//
// # What is guaranteed
//
// While a writer holds the lock, no other caller does. While a reader holds it, no writer does. This is so for Go and Java
// together. A hold ends when it is released, when its session ends, when [zkrecipes.Hold.ValidUntil] passes, or when its
// node is deleted, whichever is first. Its context ends with it, and the cause of the context says why. Work that stops
// with the context has stopped before a waiter that the hold kept out gets the lock, if the clocks of client and server
// run at nearly the same rate and the process runs.
//
// Reads of the client that holds the lock, in its hold, see all that the last writer wrote in ZooKeeper before its own hold
// ended. No sync is needed: the server that grants has applied the end of the last hold, and no later read of the client is
// older. If the last hold was of the same session, they see each of its writes that was answered. Reads of another client may be older.
//
// # What happens on disconnect, expiry and close
//
// A disconnect alone ends nothing. The hold lives until its deadline, and goes on if a server answers in time;
// [WithLossOnSuspend] ends it at once. When the session ends, its holds end for good. A waiter whose session ends queues
// again in the next session, at the end of the queue. Closing the client ends its holds, and its waiters return ErrClosed.
//
// # How fair it is
//
// Readers and writers stand in one queue, in the order in which the server created the nodes. A writer waits for all
// contenders ahead of it, a reader for the writers ahead of it. A reader that comes after a waiting writer waits behind it,
// so neither side can starve the other.
//
// # What is not guaranteed
//
// A process can be frozen after it has looked at its hold. It then acts when another process holds the lock. A resource
// that must not see this checks the tokens of writers: see package fence, and [zkrecipes.Hold.Txn] for writes in ZooKeeper.
// A frozen reader may go on with data that a writer has changed since.
//
// The guarantee rests on the deadline. Package conn says what the deadline does not cover.
//
// A success of a try is always current. A refusal, and the result of Queue, may be up to 1.5 ticks old if ZooKeeper's
// leader was just replaced.
//
// # Nested locking
//
// Ownership goes through the context, within one client and its Subs. A call whose context descends from a live hold on the
// same path does not wait for its own caller:
//
//   - Write inside write is ErrDeadlock at once. With [WithReentrance] it returns another hold on the same node. Goroutines
//     that share the context of the first hold are then inside together, which is why it is an option.
//   - Read inside read returns another hold on the same node, with the options of the first. It needs no option, because
//     readers do not exclude each other. A node of its own could stand behind a writer that waits for its caller.
//   - Read inside write is the downgrade: the reader takes the place of its writer, and no writer gets in between them.
//   - Write inside read could never be granted, and is ErrUpgrade at once. Release, lock, and read again.
//   - Through a second client, a lock that would wait for its own caller is ErrDeadlock at once.
//
// # What it costs
//
// Each caller has one node. A holder watches its own node, a writer the node just ahead, a reader the nearest writer ahead. Callers
// in one process that wait for the same node share the watch. An uncontended lock takes one round trip, joining the queue one
// more, a release one. Being woken takes one more, unless only one caller was in the way when the waiter joined. That waiter
// watches its own node, too, and the event grants it; a writer behind a writer always reads. The release of a writer wakes all
// readers up to the next writer. A client that locks again and again in one session has a further watch, on the path itself.
//
// The nodes are those of Curator's InterProcessReadWriteLock, so both exclude each other. With Curator before 5.5 a writer
// may get in when one of Curator's writers becomes a reader.
//
// With the option [WithKazoo], programs in Python that use kazoo share the path.
package rwlock
