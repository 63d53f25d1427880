// Package barrier blocks processes until a barrier is removed, until enough of them have arrived, or until a latch has
// been counted down.
//
//	b, err := barrier.New(client, "/app/maintenance")
//	...
//	err = b.Wait(ctx) // returns when the barrier is down
//
//	d, err := barrier.NewDouble(client, "/app/step", 3)
//	...
//	round, err := d.Enter(ctx) // returns when three members have arrived
//	part := parts[round.Rank()]
//	...
//	err = round.Leave(ctx) // returns when all three have left
//
//	l, err := barrier.NewLatch(client, "/app/loaded", 10)
//	...
//	left, err := l.CountDown(ctx, "shard-7")
//	...
//	err = l.Wait(ctx) // returns after ten counts
//
// # Guarantees
//
// [Barrier.Wait] returns nil only if the node was absent at some moment during the call, as far as ZooKeeper's leader
// knew.
//
// [Double.Enter] returns a round only if n distinct members were present at one instant. A single transaction writes
// the round into the nodes of all n members, and fails if one of them is gone or has already been admitted. As a
// result, each member is in one round, a round has n members, and nothing that a crash leaves behind can admit another.
//
// [Round.Leave] returns nil only if there was an instant during the call at which no member of the round remained.
//
// [Latch.CountDown] counts once for each call without a name, and once for each name no matter how often you call it,
// even if replies are lost or sessions end. The final count opens the latch in the same transaction.
//
// # Failures
//
// A call waits for a connection until its context is done, and waiters continue in the next session. If a member's
// session ends before the member is admitted, it queues again, behind the others. If the session ends later, the member
// has lost its round, as with any hold, and counts as having left. When the client is closed, calls return
// zkrecipes.ErrClosed.
//
// # Fairness
//
// A double barrier admits members in the order in which they arrive, n at a time. Barriers and latches, by contrast,
// release all waiters at the same time.
//
// # What is not guaranteed
//
// A member whose process has died remains present until its session expires, so a round may begin with members that are
// already gone.
//
// If a reply is lost, [Barrier.Set] may be unable to tell whether the barrier was up. It never raises the barrier a
// second time on its own.
//
// # Cost
//
// A barrier is one node, with plain containers above it. Each waiter uses a single watch on that node, and all waiters
// wake together. Set takes one round trip, Remove two, or three if the barrier is already down, and Wait two if it is
// down.
//
// A member of a double barrier is one ephemeral node, and while the member waits to enter, it watches only that node.
// Entering takes a create, a list and a read of the member's own node. The member that completes the round also reads
// all members' nodes, and writes the n nodes that form the round in one transaction. [Round.Members] takes a sync, a
// list and a read of each member. Leaving takes a delete, and a list each time the last remaining member changes.
//
// A latch is one node, with a child for each count; all of them remain until you delete them. A count takes two reads
// and a transaction, and the same again if another client counts at the same time. If the latch is open or the name has
// already counted, the two reads are repeated after a transaction that changes nothing. Waiting takes a sync and two
// reads, and one more when the latch opens; earlier counts cost a waiter nothing.
//
// # Compatibility
//
// [Barrier] uses the same nodes as Curator's DistributedBarrier. The nodes of [Double] differ from those of Curator and
// kazoo, whose double barriers admit a lone member if an earlier round crashed, so never use their double barriers on
// the same path. Neither Curator nor kazoo has a [Latch].
package barrier
