// Package value shares a value, or a counter, among processes as the data of one node in ZooKeeper. The bytes are those
// of Apache Curator's SharedCount, SharedValue and DistributedAtomicLong, of kazoo's Counter, or JSON.
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
// # Guarantees
//
// No update is lost: a write is applied only to the state from which it was computed. [UpdateAll] changes several
// values in one transaction, computed from a single state of everything that it has read. Only [Value.Set] replaces any
// state, and [Value.SetHeld] does so only while a lock is held.
//
// No write is applied twice. If a reply is lost, the node is read, and the write is sent again only if at most one of
// the copies can be applied.
//
// [Counter.Add] counts exactly once while the session lives, even if replies are lost. For this, each counter has a
// marker, an ephemeral child of the node, and one transaction writes both.
//
// # Failures
//
// A call waits for the connection within its context, and continues in the next session. If the outcome of a write
// cannot be determined, the error matches zkrecipes.ErrUnknownOutcome: read before you write again.
// [Value.CompareAndSet], [Value.Update] and [UpdateAll] return it if the reply is lost and the node does not show that
// the write was refused. [Value.Set] and [Value.SetHeld] treat the write as done if the node holds their value, and
// [Value.Delete] treats a missing node as deleted. [Counter.Add] returns it only if the session or the context ended
// before the answer arrived.
//
// [Value.Watch] reports at once when its view is no longer current, and continues when the client has reconnected.
//
// When the client is closed, calls return zkrecipes.ErrClosed.
//
// # Fairness
//
// If clients write at the same time, one succeeds. The others pause for a few round trips, at most 100 ms, and try
// again. 64 clients that add continuously therefore need about eight requests for each addition.
//
// # What is not guaranteed
//
// ZooKeeper counts the versions of a node from its creation. If a node is deleted, created again and written as often,
// all between the read and the write of one call of a [Value], the write replaces the new state. [Counter.Add] is not
// affected.
//
// The marker needs permission to create children of the node, and a node with a marker cannot be deleted.
//
// Each write goes to a quorum, and an ensemble performs some thousand a second for all its clients together. Do not use
// a counter as a metric. For ids, reserve blocks with [Counter.Next].
//
// # Cost
//
// A value is one node, with plain containers above it. Get takes a sync and a read. Set, SetHeld, CompareAndSet and
// Update read and write, which takes two round trips. Delete takes a sync, a read and a delete. A refusal takes another
// sync and read. The first addition of a counter in a session creates the marker, reads and writes. Each later one
// takes one round trip, and two more each time that another client was faster. [Value.Watch] has one watch and reads
// once for each change.
//
// # Compatibility
//
// The [Codec] decides which programs can share a node. [Bytes], [SharedCount] and [AtomicLong] are the formats of
// Curator. [KazooCounter] is that of kazoo's Counter, as is SharedCount if the Counter has the option support_curator.
// [Gzip] compresses as Curator does.
package value
