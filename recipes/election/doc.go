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
// At most one term is alive at a time, by the clock that [zkrecipes.Hold.Err] checks. If a leader is cut off or paused,
// or if its session expires, its term ends before the next candidate is elected, because a term's deadline is earlier
// than the moment when the servers expire its session. Each term is numbered by its token, which is larger than that of
// every earlier term.
//
// During a term, reads through the leader's client see everything that the previous leader wrote to ZooKeeper before
// its term ended. You don't have to call Sync first, because the server that elects the leader has already applied the
// end of the previous term, and the client's later reads never go back in time. If the previous term belonged to the
// same session, reads see every write of that term that was answered. Reads through another client may be stale.
//
// # Failures
//
// A disconnect alone does not end a term: unless you choose [WithLossOnSuspend], a leader that reconnects before its
// deadline still leads. A term is lost when its deadline passes, its session ends, its node is deleted, or its client
// is closed; Err returns the reason. [Election.Run] then campaigns again, unless the client is closed.
//
// Candidates keep their places through short outages, but a candidate whose session ends rejoins the queue at the back
// in the next session. When a campaign fails, the caller stops being a candidate, and the call returns once its node
// has been deleted. The deletion continues in the background if the context is done first, or if the call could not
// find out whether its node exists, for example because a server failed on the create.
//
// # Fairness
//
// Candidates lead first come, first served, in the order in which the servers created their nodes. This applies to Go
// and Java candidates alike.
//
// With [Election.Appoint], the leader can hand over to a candidate of its choice. Candidates that are ahead of that one
// and have opted in with [WithStandBack] then move to the back of the queue. Even so, only the first in the queue ever
// leads.
//
// # What is not guaranteed
//
// A leader can check its term, be paused, and then act while another one leads. To protect a resource against that,
// pass the token to the resource (see package fence), or write to ZooKeeper with [zkrecipes.Hold.Txn]. The guarantees
// also depend on the deadline; package [conn] explains what it doesn't cover.
//
// When ZooKeeper's own leader has just been replaced, what Leader and Queue return may be up to 1.5 ticks old.
//
// # Cost
//
// A candidate is one ephemeral node, whose parent the servers remove when there are no candidates left. Campaigning
// takes two requests that are in flight together, create and children, and a getData with a watch if another candidate
// is ahead, or two if the candidate is next. A leader watches its own node, and while it leads, its client sends a sync
// about every eleventh of the session timeout. An observer uses a single watch, on the leader's node.
//
// Resigning takes one delete, which by default wakes one candidate. If that candidate was next when it joined, the
// event alone makes it the leader, because it also watches its own node. A candidate further back has to read the
// children once, or, with [zkrecipes.HandOverEager], has already read them. If the next candidate stands through the
// same Election in the leader's session, it leads immediately.
//
// # Compatibility
//
// The nodes are those of Curator's LeaderLatch, or of its LeaderSelector with [WithLayout]. With the option
// [WithKazoo], Python programs that use kazoo can share the path as well.
package election
