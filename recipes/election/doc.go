// Package election elects one leader among the processes that campaign on a path in ZooKeeper. The nodes are those of
// Apache Curator's LeaderLatch or LeaderSelector.
//
//	e, err := election.New(client, "/app/leader")
//	...
//	err = e.Run(ctx, func(ctx context.Context, t *election.Term) error {
//		return lead(ctx, t) // stops when ctx ends
//	})
//
// # What is guaranteed
//
// At most one term is alive at a time, by the clock that [zkrecipes.Hold.Err] looks at. If a leader is cut off, frozen or
// expired, its term has ended before the next candidate is elected: the deadline of the term is earlier than the servers'
// expiry of the session. The token is the number of the term, and each term has a larger one than all before it.
//
// Reads of the client that leads, in its term, see all that the last leader wrote in ZooKeeper before its own term ended. No
// sync is needed: the server that elects has applied the end of the last term, and no later read of the client is older. If the
// last term was of the same session, they see each of its writes that was answered. Reads of another client may be older.
//
// # What happens on disconnect, expiry and close
//
// A disconnect alone ends nothing. A leader that is connected again before its deadline is still the leader;
// [WithLossOnSuspend] ends the term at once. A term is lost when its deadline passes, its session ends, its node is
// deleted, or its client is closed. Err says which. [Election.Run] then campaigns again, unless the client is closed.
// Candidates keep their place through short outages. A candidate whose session ends campaigns again in the next session,
// at the end of the queue.
//
// # How fair it is
//
// First come, first served, in the order in which the servers created the candidates, in Go and Java.
//
// # What is not guaranteed
//
// A leader can be frozen after it has looked at its term. It then acts when another leads. Give the token to the resource
// (package fence), or write in ZooKeeper with [zkrecipes.Hold.Txn].
//
// The guarantee rests on the deadline. Package conn says what the deadline does not cover.
//
// The results of Leader and Queue may be up to 1.5 ticks old if ZooKeeper's own leader was just replaced.
//
// # What it costs
//
// A candidate is one ephemeral node. The servers remove its parent when no candidate is left. To campaign takes two
// requests in flight together, create and children, and a getData with a watch if another candidate is ahead. To resign
// is one delete. It wakes one candidate. If a candidate was next when it came, the event makes it leader. It watches its own node for
// that. A candidate further back reads the children once; with [WithEagerHandOver] it does so before its turn comes. If the next candidate is of the leader's session, it leads at once. A leader
// watches its own node. While it leads, its client sends a sync about every eleventh of the session timeout. An observer has one
// watch, on the leader's node.
//
// With the option [WithKazoo], programs in Python that use kazoo share the path.
package election
