// Package mutex is a lock across processes: one caller at a time holds the lock on a path in ZooKeeper.
//
//	m, err := mutex.New(client, "/app/report")
//	err = m.Do(ctx, func(ctx context.Context, h *zkrecipes.Hold) error {
//		return report(ctx) // ends with ctx when the hold is lost
//	})
//
// # What is guaranteed
//
// No other caller, in Go or in Java, gets the lock before the hold has ended in this process. A hold ends when it is
// released, when its session ends, when [zkrecipes.Hold.ValidUntil] passes, or when its node is deleted, whichever is
// first. Its context ends with it, and the cause of the context says why. Work that stops with the context has stopped
// before the next holder starts, if the clocks of client and server run at nearly the same rate and the process runs.
//
// Reads of the client that holds the lock, in its hold, see all that the last holder wrote in ZooKeeper before its own hold
// ended. No sync is needed: the server that grants has applied the end of the last hold, and no later read of the client is
// older. If the last hold was of the same session, they see each of its writes that was answered. Reads of another client may be older.
//
// # What happens on disconnect, expiry and close
//
// A disconnect alone ends nothing. The hold lives until its deadline, and goes on if a server answers in time;
// [WithLossOnSuspend] ends it at once. When the session ends, its holds end for good. A later Lock is a new hold with a
// larger token. A waiter whose session ends queues again in the next session, at the end of the queue. Closing the client
// ends its holds, and its waiters return ErrClosed.
//
// # How fair it is
//
// First come, first served, in the order in which the server created the nodes. A release wakes one waiter.
//
// # What is not guaranteed
//
// A process can be frozen after it has looked at its hold. It then acts when another process holds the lock. A resource
// that must not see this checks tokens: see package fence, and [zkrecipes.Hold.Txn] for writes in ZooKeeper.
//
// The guarantee rests on the deadline. Package conn says what the deadline does not cover.
//
// A success of TryLock is always current. A refusal, and the result of Queue, may be up to 1.5 ticks old if ZooKeeper's
// leader was just replaced.
//
// # Nested locking
//
// A hold excludes everything else, also in its own process: goroutines exclude each other as processes do. A Lock whose
// context descends from a live hold on the same path could only wait for its own caller, so it is ErrDeadlock at once. This
// also holds through Sub, and through a second client. Equal paths on two ensembles are two locks.
//
// With [WithReentrance], Lock returns another hold on the same node there. So a function may lock what its caller has locked.
// Ownership goes through the context, and not through the goroutine: goroutines that share the context of a hold are inside
// together. This is why it is an option. It works within one client and its Subs.
//
// [zkrecipes.HoldFromContext] gives a function the hold that its caller has, without another Lock.
//
// # What it costs
//
// Each caller has one node. A holder watches its own node, a waiter the node just ahead of it. A waiter also watches its own node
// if it is next, or behind a caller of its session. Callers in one process that wait for the same node share the watch.
//
//   - An uncontended Lock takes one round trip, and a release another one.
//   - Joining a queue takes one more. If a waiter was next when it joined, the event of the release grants it. A waiter further
//     back lists once when it is woken.
//   - If the next waiter uses the same client, or one that its Sub made, the release hands over to it at once, without a round
//     trip. Objects with WithKazoo and objects without it do not hand over to each other. Until the server has deleted the node of the last hold, others see it at the head. If a Hold.Txn is unanswered, the
//     release hands nothing over, and the waiter waits for the deletion. A transaction in which the caller checks the node itself
//     is not known here: write with Hold.Txn.
//   - A section that ends at once is three requests. It is two, create and delete, for a client that has the lock to
//     itself. A longer hold adds its watch.
//   - The first Lock below a path that exists takes three requests more, one of which makes the lock's path.
//   - A client that locks again and again in one session has a further watch, on the path itself.
//   - A woken waiter that was not next reads the list of the queue, which grows with it.
//   - With [WithEagerHandOver], between more than two sessions, a waiter lists before its turn comes, and the event of the release
//     grants it. That takes about eight requests a section instead of five, and a release wakes two clients.
//   - A waiter takes about 3 KiB of heap and no goroutine beside the caller's own. Ten thousand on one lock are tested.
//
// The nodes are those of Curator's InterProcessMutex, so both exclude each other. So does an election with
// election.Selector on the same path.
//
// With the option [WithKazoo], programs in Python that use kazoo share the path.
package mutex
