// Package election elects one leader among the processes that campaign on a path in ZooKeeper.
//
//	e, err := election.New(client, "/app/leader")
//	...
//	err = e.Run(ctx, func(ctx context.Context, t *election.Term) error {
//		return lead(ctx, t) // stops when ctx is canceled
//	})
//
// # Guarantees
//
// At most one term is alive at a time, by the clock that [zkrecipes.Hold.Err] checks. If a leader is cut off, paused or
// expired, its term has ended before the next candidate is elected, because the deadline of the term is earlier than
// the servers' expiry of the session. The token of a term is its number, which is larger than that of every earlier
// term.
//
// During a term, reads through the leader's client see everything that the previous leader wrote to ZooKeeper before
// its term ended. No sync is needed: the server that elects has applied the end of the previous term, and no later read
// of the client goes back in time. If the previous term belonged to the same session, reads see each of its writes that
// was answered. Reads through another client may be older.
//
// # Failures
//
// A disconnect alone does not end a term. A leader that reconnects before its deadline still leads; with
// [WithLossOnSuspend] the term ends at once. A term is lost when its deadline passes, its session ends, its node is
// deleted, or its client is closed, and Err returns which. [Election.Run] then campaigns again, unless the client is
// closed. Candidates keep their places through short outages. A candidate whose session ends campaigns again in the
// next session, at the end of the queue.
//
// # Fairness
//
// Candidates lead first come, first served, in the order in which the servers created their nodes, in Go and Java
// alike.
//
// The leader can hand over to another candidate of its choice with [Election.Appoint]. Candidates ahead of that one
// that have [WithStandBack] then move to the end of the queue. The first in the queue still leads, always.
//
// # What is not guaranteed
//
// A leader can be paused after it has checked its term, and then act while another leads. Pass the token to the
// resource (package fence), or write to ZooKeeper with [zkrecipes.Hold.Txn].
//
// The guarantees depend on the deadline. Package [conn] describes what the deadline does not cover.
//
// The results of Leader and Queue may be up to 1.5 ticks old if ZooKeeper's own leader was just replaced.
//
// # Cost
//
// A candidate is one ephemeral node. The servers remove its parent when no candidate is left. Campaigning takes two
// requests that are in flight together, create and children, and a getData with a watch if another candidate is ahead.
// Resigning is one delete, which wakes one candidate. If that candidate was next when it joined, the event itself makes
// it leader, for which it watches its own node. A candidate further back reads the children once, or, with
// [zkrecipes.HandOverEager], has already read them. If the next candidate is of the leader's session, it leads at once. A
// leader watches its own node, and while it leads, its client sends a sync about every eleventh of the session timeout.
// An observer has one watch, on the leader's node.
//
// # Compatibility
//
// The nodes are those of Curator's LeaderLatch, or of its LeaderSelector with [WithLayout]. With the option
// [WithKazoo], Python programs that use kazoo share the path.
package election
