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
// No update is lost, because a write is applied only to the state it was computed from. [UpdateAll] extends this to
// several values: it changes them in one transaction, computed from a single state of everything it read. The
// exceptions are [Value.Set], which overwrites whatever it finds, and [Value.SetHeld], which does so only while a lock
// is held.
//
// No write is applied twice. If a reply is lost, the call reads the node, and sends the write again only if at most one
// of the copies can be applied.
//
// [Counter.Add] counts exactly once while the session lives, even if replies are lost. To make this possible, each
// counter has a marker, which is an ephemeral child of the node, and every addition writes the node and the marker in
// one transaction.
//
// # Failures
//
// A call waits for a connection until its context is done, and continues in the next session if necessary. If the
// outcome of a write cannot be determined, the error matches zkrecipes.ErrUnknownOutcome, so read the value before you
// write again. [Value.CompareAndSet], [Value.Update] and [UpdateAll] return this error if the reply is lost and the
// node does not show that the write was not applied. For [Value.Set] and [Value.SetHeld], the write counts as done if
// the node holds their value; for [Value.Delete], if the node is missing. [Counter.Add] returns the error if the
// session ends or the context is done before the outcome is known, or if the node or its marker is deleted meanwhile.
//
// [Value.Watch] reports immediately when its view is no longer current, and continues when the client reconnects. After
// the client is closed, calls return zkrecipes.ErrClosed.
//
// # Fairness
//
// If several clients write at the same time, one of them succeeds, while the others back off for a few round trips, at
// most 100 ms, and retry. For example, with 64 clients that add continuously, each addition takes about eight requests.
//
// # What is not guaranteed
//
// ZooKeeper counts a node's versions from its creation. As a result, if a node is deleted, recreated and written the
// same number of times between the read and the write of a single call to a [Value]'s method, the call doesn't notice
// and overwrites the new state. [Counter.Add] is not affected.
//
// Nodes that recipes create as parents of their own nodes, such as the path of a lock, are containers. Never keep a
// value in one, because servers delete a container, together with its data, some time after its last child is gone.
//
// To add to a counter, a client needs permission to create children of the node, because the marker is one. A node with
// a marker cannot be deleted.
//
// Each write goes to a quorum, and an ensemble handles only a few thousand writes a second for all its clients
// together. So don't use a counter as a metric, and if you need IDs, reserve blocks of them with [Counter.Next].
//
// # Cost
//
// A value is one node, with plain containers above it. Get takes a sync and a read. Set, SetHeld, CompareAndSet and
// Update read and write, which takes two round trips. If they return ErrChanged, or if Update's function returns an
// error, they also need another sync and read. Delete takes two round trips, or three if the node does not exist. A
// counter's first addition in a session creates the marker, reads and writes. After that, an addition takes one round
// trip, plus two each time that another client changes the counter first. [Value.Watch] uses a single watch, and reads
// once for each change.
//
// # Compatibility
//
// The [Codec] determines which programs can share a node. [Bytes], [SharedCount] and [AtomicLong] are Curator's
// formats. [KazooCounter] is the format of kazoo's Counter, but if the Counter has the option support_curator, use
// SharedCount instead. [Gzip] compresses as Curator does.
package value
