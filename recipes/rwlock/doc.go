// Package rwlock is a read-write lock across processes: of all who use the same path in ZooKeeper, any number hold it as
// readers, or one as the writer.
//
//	l, err := rwlock.New(client, "/app/config")
//	err = l.RDo(ctx, func(ctx context.Context, h *zkrecipes.Hold) error { return use(ctx) })
//	err = l.Do(ctx, func(ctx context.Context, h *zkrecipes.Hold) error { return edit(ctx, h) })
//
// # While it is held
//
// While a writer holds, nobody else does; while a reader holds, no writer does, in Go or in Java. A hold ends at the
// earliest of its release, the end of its session, the passing of [zkrecipes.Hold.ValidUntil] and the deletion of its node
// by anyone; its context ends with it, and says why. What stops when that context does has stopped before anybody is let
// in whom the hold kept out, as far as clocks run alike and the process runs at all.
//
// # Disconnect, expiry, close
//
// A disconnect ends nothing by itself: the hold lives up to its deadline, which was proven before, and goes on if a
// server answers in time; [WithLossOnSuspend] is for those who want out at once. When the session ends, so does the hold,
// for good. One who waits goes on waiting in the next session, at the end of the line. Closing the client ends its holds
// and its waiters.
//
// # Fairness
//
// Readers and writers stand in one line, by the order in which the server made the nodes. A writer waits for all ahead of
// it, a reader for the writers ahead of it: readers who come after a waiting writer wait behind it, so neither side can
// starve the other.
//
// # Nested locking
//
// Ownership goes through the context. Write inside write and read inside read return another hold on the same contender,
// with the options of the first. Read inside write is the downgrade: the reader takes the place of its writer, and no
// writer gets in between the two. Write inside read could never be granted, and is ErrUpgrade at once: release, lock, and
// look again at what was read.
//
// # What it does not guarantee
//
// A process can be frozen between looking at its hold and acting on it, and act when another holds already. A resource
// that must not see that checks tokens: package fence does, and for writes in ZooKeeper [zkrecipes.Hold.Txn]. Both are for
// writers; a reader that was frozen has read what it has read.
//
// A "no" of a try, and what Queue returns, is as new as the call as far as the leader knows; one that has been replaced
// takes up to a tick and a half to find out. A "yes" is never old.
//
// # Cost
//
// One node per caller, holder or waiter, and one watch: the holder's on itself, a writer's on the node just ahead, a
// reader's on the nearest writer ahead; callers in one process that wait for the same node share one. A client that locks
// again and again in one session has one more, on the path itself. An uncontended lock takes one round trip, joining the
// line another one, being woken one, a release one. A release of a writer wakes all readers up to the next one.
//
// The nodes are those of Curator's InterProcessReadWriteLock, and both exclude each other. With Curator before 5.5 a
// writer may get in when one of its writers becomes a reader.
package rwlock
