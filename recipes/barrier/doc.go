// Package barrier holds processes back until a barrier is lowered, or until enough of them have come together.
//
//	b, err := barrier.New(client, "/app/maintenance")
//	...
//	err = b.Wait(ctx) // returns when the barrier is down
//
//	d, err := barrier.NewDouble(client, "/app/step", 3)
//	...
//	round, err := d.Enter(ctx) // returns when three members are there
//	part := parts[round.Rank()]
//	...
//	err = round.Leave(ctx) // returns when all three have left
//
// # What is guaranteed
//
// [Barrier.Wait] returns nil only if the node was absent at a moment of the call, as far as ZooKeeper's leader knows. The nodes
// are those of Curator's DistributedBarrier.
//
// [Double.Enter] returns a round only if n distinct members were there at one instant. One transaction writes the round into the
// nodes of all n, and it fails if one of them is gone or was let in before. So each member is in one round, a round has n
// members, and nothing that a crash leaves behind can let in another one.
//
// [Round.Leave] returns nil only if no member of the round was left at one instant of the call.
//
// # What happens on disconnect, expiry and close
//
// A call waits for the connection, within its context. Waiters go on in the next session. A member whose session ends before it
// is let in queues again, behind the others. If the session ends after that, the member has lost its round, as a hold is lost, and
// counts as left. When the client is closed, calls return zkrecipes.ErrClosed.
//
// # What is not guaranteed
//
// A member whose process has died is there until its session expires. So a round may begin with members that are gone.
//
// After a lost reply [Barrier.Set] may not know whether the barrier was up. It never raises it a second time by itself.
//
// The nodes of a double barrier are not those of Curator or kazoo, whose double barrier lets in a lone member if a round before
// has crashed. The two must not share a path.
//
// # What it costs
//
// A barrier is one node, with plain containers above it. Each waiter has one watch on it, and all of them are woken at
// once. Set is one round trip. Remove takes three, and Wait two if the barrier is down.
//
// A member of a double barrier is one ephemeral node, with a watch on itself alone. To enter takes a create, a list and a read
// of the own node. [Round.Members] takes a sync, a list and a read of each member. The member that completes the round also reads the nodes of all members, and writes the n of the round in one
// transaction. To leave takes a delete and a list for each time that the last member changes.
package barrier
