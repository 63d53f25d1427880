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
// expired, its term ends before the next candidate is elected, because a term's deadline is earlier than the moment
// when the servers expire its session. A term's number is its token, which is larger than that of every earlier term.
//
// During a term, reads through the leader's client see everything that the previous leader wrote to ZooKeeper before
// its term ended. You need no sync: the server that elects the leader has applied the end of the previous term, and the
// client's later reads never go back in time. If the previous term belonged to the same session, reads see each of its
// writes that was answered. Reads through another client may be stale.
//
// # Failures
//
// A disconnect alone does not end a term: unless you choose [WithLossOnSuspend], a leader that reconnects before its
// deadline still leads. A term is lost when its deadline passes, its session ends, its node is deleted, or its client
// is closed, and Err returns which. [Election.Run] then campaigns again, unless the client is closed. Candidates keep
// their places through short outages. A candidate whose session ends rejoins the queue at the back in the next session.
// When a campaign fails, the caller is no longer a candidate, and its node is deleted in the background.
//
// # Fairness
//
// Candidates lead first come, first served, in the order in which the servers created their nodes, in Go and Java
// alike.
//
// With [Election.Appoint], the leader can hand over to a candidate of its choice. Candidates ahead of that one that
// opted in with [WithStandBack] then move to the back of the queue. Even so, only the first in the queue ever leads.
//
// # What is not guaranteed
//
// A leader can check its term, be paused, and then act while another leads. To protect a resource against that, pass it
// the token (see package fence), or write to ZooKeeper with [zkrecipes.Hold.Txn]. The guarantees also depend on the
// deadline; package [conn] describes what the deadline does not cover.
//
// Right after ZooKeeper's own leader is replaced, what Leader and Queue return may be up to 1.5 ticks old.
//
// # Cost
//
// A candidate is one ephemeral node, whose parent the servers remove when no candidate is left. Campaigning takes two
// requests that are in flight together, create and children, and a getData with a watch if another candidate is ahead.
// Resigning takes one delete, which by default wakes one candidate. If that candidate was next when it joined, the
// event itself makes it leader, for which it watches its own node. A candidate further back reads the children once,
// or, with [zkrecipes.HandOverEager], has already read them. If the next candidate belongs to the leader's session, it
// leads at once. A leader watches its own node, and while it leads, its client sends a sync about every eleventh of the
// session timeout. An observer has one watch, on the leader's node.
//
// # Compatibility
//
// The nodes are those of Curator's LeaderLatch, or of its LeaderSelector with [WithLayout]. With the option
// [WithKazoo], Python programs that use kazoo share the path.
package election
