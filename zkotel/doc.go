// Package zkotel exports traces of zkrecipes to OpenTelemetry, and metrics of caches, kept nodes, groups and values.
// The tracer that [New] returns creates spans for a client's operations; several clients may share one:
//
//	tracer, err := zkotel.New()
//	client, err := conn.Dial(ctx, servers, conn.WithTracer(tracer))
//
// # Spans
//
//   - "acquire mutex", and likewise for the other recipes: from the call to the grant or the error. Its parent is the
//     span of the caller's context. Its status is an error if the outcome is closed or failed.
//   - "hold mutex": from the grant to the end of the hold. Its parent is the span of the caller's context, and it is
//     linked to the acquisition's span. It is the span of the hold's context, so work with that context appears below
//     it. Its status is an error if the hold was lost.
//   - "zookeeper create", and likewise for the other operations, only with [WithRequests]: one request. Its parent is
//     the span of its context, usually an acquisition or a hold. A request without a recording parent gets no span.
//     The parent of the heartbeat is the span of the context that was passed to Dial, so it creates spans only while
//     that one has not ended. Its status is an error, unless the answer is one that callers expect: no-node,
//     node-exists, bad-version, not-empty.
//
// The recipe is mutex, rwlock-read, rwlock-write, semaphore, election or barrier.
//
// # Across the hand-over
//
// ZooKeeper does not propagate a trace from one holder to the next, which is usually another process. To let you relate
// the two, acquisitions and holds carry the path, which is the same for both, and the token, which grows with every
// acquisition. Of two holds with the same zkrecipes.path, the one with the larger zkrecipes.token came later. If a
// resource checks tokens, have it add the token to its own span, so that you can find that span by the token.
//
// # Attributes
//
//   - zkrecipes.recipe, zkrecipes.name, zkrecipes.path: the recipe, the name set with its option WithTracerName, if
//     any, and the path of the queue. On acquisitions and holds.
//   - zkrecipes.token: the fencing token, a number. On holds, and on acquisitions that were granted.
//   - zkrecipes.outcome: on acquisitions, granted, busy, canceled, closed or failed. On holds, released, or the
//     reason for the loss: expired, deadline, node-deleted, closed, suspended or refused.
//   - zkrecipes.try: whether the caller does not wait for holders. On acquisitions.
//   - zkrecipes.position: the place in the queue at which the caller first saw itself; 1 if there was no
//     contender ahead, 0 if it never saw the queue. On acquisitions.
//   - zkrecipes.contender: the contender's path. On holds.
//   - db.system.name, db.operation.name, zkrecipes.path, error.type: "zookeeper", the operation, the path, and
//     a short name of the error, if there is one. On requests.
//
// # Metrics
//
// [Cache] and [Node] register one object with a meter, [Group] and [Value] the views of one loop:
//
//	registration, views, err := zkotel.Group(meter, "workers", g.Watch(ctx))
//	for view, err := range views {
//
// For all other metrics of this library, use zkprom. The attributes are zkrecipes.recipe (cache, node, group or
// value) and zkrecipes.name, which you choose.
//
//   - zkrecipes.view.current: 1 while the client is connected and notified of every change, else 0. For a group or a
//     value it is what the most recent view reported.
//   - zkrecipes.view.age: how many seconds ago the server had the state that the view shows; absent before the first
//     view. For a group or a value it is 0 while the view is current.
//   - zkrecipes.cache.nodes, zkrecipes.cache.size: what the cache holds; the size is in bytes.
//   - zkrecipes.cache.pending, zkrecipes.cache.failed: how many parts still need to be read or watched again, and how
//     many could not be read. A part is a node's data or its list of children.
//   - zkrecipes.node.present: 1 if the kept node existed and was owned by this client.
//   - zkrecipes.group.members: how many members the group has.
package zkotel
