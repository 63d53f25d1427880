// Package value shares a value, or a counter, among processes: the data of one node in ZooKeeper. The bytes are those of
// Apache Curator's SharedCount, SharedValue and DistributedAtomicLong, of kazoo's Counter, or JSON.
//
//	v, err := value.New(client, "/app/config", value.JSON[Config]())
//	...
//	config, _, err := v.Update(ctx, func(c Config) (Config, error) {
//		c.Limit++
//		return c, nil
//	})
//
//	hits, err := value.NewCounter(client, "/app/hits", value.AtomicLong())
//	...
//	sum, err := hits.Add(ctx, 1)
//
// # What is guaranteed
//
// No update is lost: a write is applied only to the state that it was made from. [Value.Set] alone replaces any state, and
// [Value.SetHeld] does so only while a lock is held.
//
// No write is applied twice. If a reply is lost, the node is read, and the write is sent again only if at most one of the
// copies can be applied.
//
// [Counter.Add] counts exactly once while the session lives, also if replies are lost. Each counter has a marker for that, an
// ephemeral child of the node, and one transaction writes both.
//
// # What happens on disconnect, expiry and close
//
// A call waits for the connection, within its context, and goes on in the next session. If the outcome of a write cannot be
// known, the error matches zkrecipes.ErrUnknownOutcome: read before writing again. [Value.CompareAndSet] and [Value.Update]
// return it if the reply is lost and the node does not show that the write was refused. [Value.Set] and [Value.SetHeld] take
// it for written if the node holds their value, and [Value.Delete] takes it for deleted if there is no node. [Counter.Add] returns it only if the session or the context ended before the answer.
//
// [Value.Watch] tells at once when its view is no longer current, and goes on when the client is connected again.
//
// When the client is closed, calls return zkrecipes.ErrClosed.
//
// # What is not guaranteed
//
// ZooKeeper counts the versions of a node from its creation. If a node is deleted, made again, and written as often, all
// between the read and the write of one call of a [Value], the write replaces the new state. [Counter.Add] is safe from that.
//
// The marker needs permission to create children of the node, and a node with a marker cannot be deleted.
//
// Each write goes to a quorum, and an ensemble makes some thousand a second for all its clients. A counter is no metric. For
// ids, reserve blocks with [Counter.Next].
//
// If clients write at the same time, one succeeds. The others pause for some round trips, 100 ms at most, and try again. So 64
// clients that add all the time need about eight requests for each addition.
//
// # What it costs
//
// A value is one node, with plain containers above it. Get is a sync and a read. Set, SetHeld, CompareAndSet and Update read
// and write: two round trips. Delete is a sync, a read and a delete. A refusal takes a sync and a read more. The first addition of a counter in a session makes the
// marker, reads and writes. The following ones take one round trip each, or two more for every time that another client was
// faster. [Value.Watch] has one watch and reads once for each change.
package value
