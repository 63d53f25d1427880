// Package zkprom exports metrics of zkrecipes to Prometheus. A [Collector] is a tracer of one client and a
// [prometheus.Collector]:
//
//	metrics, err := zkprom.New()
//	prometheus.MustRegister(metrics)
//	client, err := conn.Dial(ctx, servers, conn.WithTracer(metrics.Tracer()))
//
// Use one collector for each client. If a process has several clients, register each collector with distinct labels;
// see [prometheus.WrapRegistererWith].
//
// # Metrics
//
// Acquisitions and holds have the labels recipe and name. The recipe is mutex, rwlock-read, rwlock-write, semaphore,
// election or barrier. The name is set with the recipe's option WithTracerName, and is empty without it. All durations
// are in seconds.
//
//   - zkrecipes_acquire_seconds{recipe,name,outcome}: histogram of how long acquisitions took. The outcome is granted,
//     busy (a Try call was refused), canceled (the context was canceled or timed out), closed (the client was closed)
//     or failed.
//   - zkrecipes_waiting{recipe,name}: acquisitions that are currently waiting.
//   - zkrecipes_hold_seconds{recipe,name}: histogram of how long holds were held, observed when they end.
//   - zkrecipes_holds{recipe,name}: current holds. Nested holds on one contender count once.
//   - zkrecipes_hold_losses_total{recipe,name,reason}: holds that ended without a release. The reason is expired,
//     deadline, node-deleted, closed, suspended or refused. From the first acquisition on, all reasons are present,
//     starting at 0.
//   - zkrecipes_hold_deadline_seconds{recipe,name}: time from the scrape to the nearest deadline of a hold; absent
//     without a hold. In normal operation it stays above a quarter of the session timeout.
//   - zkrecipes_session_state{state}: 1 for the client's current state, 0 for the others: connecting, connected,
//     suspended, lost, closed.
//   - zkrecipes_session_state_seconds: how long the client has been in its current state.
//   - zkrecipes_session_state_changes_total{state}: how often the client entered each state. It reveals changes
//     between two scrapes.
//   - zkrecipes_session_timeout_seconds: the session timeout that the server granted; absent before the first
//     session.
//   - zkrecipes_connect_seconds{server,outcome}: histogram of how long attempts to connect took. The server is named
//     as in the connect string. The outcome is connected, unreachable, timeout, refused, expired or failed; see
//     [zkrecipes.Connect].
//   - zkrecipes_request_seconds{op}: histogram of the time from a request to its answer. The op is as in
//     [zkrecipes.Request].
//   - zkrecipes_request_errors_total{op,code}: requests that ended with an error. Some are part of normal
//     operation, such as no-node for a create below a missing parent.
//
// For metrics of shards, pass [Collector.ShardTracer] to shard.WithTracer. These metrics have the label name, which you
// set with the shards' WithTracerName, but not the label recipe, and are present from the first shard, or the first
// plan, on. The locks of shards are counted as mutexes with that name.
//
//   - zkrecipes_shards_owned{name}: shards that this member currently has.
//   - zkrecipes_shards_waiting{name}: shards that the plan assigns to this member but that it does not have yet.
//   - zkrecipes_shard_longest_wait_seconds{name}: how long this member has been waiting for the shard it has waited
//     for longest; 0 if it waits for none.
//   - zkrecipes_shard_wait_seconds{name}: histogram of these waits, observed when this member obtains the shard. No
//     shard was without an owner for longer, counted from the plan, or from when this member lost it. If a shard moves
//     from a working member, that member still has it for most of the wait. If the previous member crashed, however,
//     add the time before the plan, which no other process can measure: that member's session timeout, and up to 1.5
//     ticks of the servers.
//   - zkrecipes_shard_moves_total{name}: shards that this member, while it led, took from members that had them. The
//     sum over all members is the number of moves.
//
// # Caches, nodes, groups and values
//
// [Cache] and [Node] return the metrics of one object, [Group] and [Value] those of the views that one loop receives.
// Register each of them yourself, under a name you choose:
//
//	settings, err := zkprom.Cache("settings", c)
//	prometheus.MustRegister(settings)
//	workers, views, err := zkprom.Group("workers", g.Watch(ctx))
//	prometheus.MustRegister(workers)
//	for view, err := range views {
//
// They have the labels recipe (cache, node, group or value) and name:
//
//   - zkrecipes_view_current{recipe,name}: 1 while the client is connected and notified of every change, else 0.
//   - zkrecipes_view_age_seconds{recipe,name}: how long ago the server had the state that the view shows; absent
//     before the first view. For a group or a value it is 0 while the view is current.
//   - zkrecipes_cache_nodes, zkrecipes_cache_bytes: what the cache holds.
//   - zkrecipes_cache_pending_parts: how many parts still need to be read or watched again. A part is a node's data
//     or its list of children.
//   - zkrecipes_cache_failed_parts: how many parts could not be read.
//   - zkrecipes_node_present: 1 if the kept node existed and was owned by this client.
//   - zkrecipes_group_members: how many members the group has.
//
// # Cardinality
//
// Paths are not labels unless you set [WithPaths], which adds the label path to the metrics of acquisitions, holds and
// shards. To limit the number of series, there are at most 100 combinations of recipe, name and path; see
// [WithMaxNames]. All others are counted together, under the name "(other)". The same limit applies to servers.
package zkprom
