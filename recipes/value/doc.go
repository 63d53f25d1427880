// Package value shares a value or a counter among processes as the data of one ZooKeeper node. The data has the format
// of Apache Curator's SharedCount, SharedValue and DistributedAtomicLong, or of kazoo's Counter, or is JSON or text.
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
// No update is lost: a write is applied only to the state it was computed from. [UpdateAll] changes several values in
// one transaction, computed from a single state of everything that it read. Only [Value.Set] overwrites whatever it
// finds, and [Value.SetHeld] does so only while a lock is held.
//
// No write is applied twice. If a reply is lost, the node is read, and the write is sent again only if at most one of
// the copies can be applied.
//
// [Counter.Add] counts exactly once while the session lives, even if replies are lost. To make this possible, each
// counter has a marker, which is an ephemeral child of the node, and every addition writes both in one transaction.
//
// # Failures
//
// A call waits for a connection until its context ends, and continues in the next session. If the outcome of a write
// cannot be determined, the error matches zkrecipes.ErrUnknownOutcome: read before you write again.
// [Value.CompareAndSet], [Value.Update] and [UpdateAll] return it if the reply is lost and the node does not show that
// the write was refused. [Value.Set] and [Value.SetHeld] treat the write as done if the node holds their value, and
// [Value.Delete] treats a missing node as deleted. [Counter.Add] returns it only if the session or the context ends
// before the answer arrives.
//
// [Value.Watch] reports at once when its view is no longer current, and continues when the client reconnects. When the
// client is closed, calls return zkrecipes.ErrClosed.
//
// # Fairness
//
// If clients write at the same time, one succeeds, while the others pause for a few round trips, at most 100 ms, and
// retry. With 64 clients that add continuously, each addition therefore takes about eight requests.
//
// # What is not guaranteed
//
// ZooKeeper counts a node's versions from its creation. If a node is deleted, recreated and written the same number of
// times, all between the read and the write of one call to a [Value], the write replaces the new state. [Counter.Add]
// is not affected.
//
// Nodes that recipes create as parents of their own nodes, such as the path of a lock, are containers. Servers delete a
// container, together with its data, some time after its last child is gone, so never keep a value in one.
//
// The marker requires permission to create children of the node, and a node with a marker cannot be deleted.
//
// Each write goes to a quorum, and an ensemble handles a few thousand writes a second for all its clients together. Do
// not use a counter as a metric, and if you need ids, reserve blocks of them with [Counter.Next].
//
// # Cost
//
// A value is one node, with plain containers above it. Get takes a sync and a read. Set, SetHeld, CompareAndSet and
// Update read and write, in two round trips. Delete takes a sync, a read and a delete. ErrChanged, or an error from
// Update's function, takes another sync and read. A counter's first addition in a session creates the marker, reads and
// writes. Each later one takes one round trip, plus two each time that another client changes the counter first.
// [Value.Watch] has one watch, and reads once for each change.
//
// # Compatibility
//
// The [Codec] determines which programs can share a node. [Bytes], [SharedCount] and [AtomicLong] are Curator's
// formats. [KazooCounter] is the format of kazoo's Counter, unless the Counter has the option support_curator: then use
// SharedCount. [Gzip] compresses as Curator does.
package value
