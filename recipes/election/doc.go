// Package election lets one of many lead, on the same znodes as Apache Curator's LeaderLatch or LeaderSelector.
//
//	e, err := election.New(client, "/app/leader")
//	...
//	err = e.Run(ctx, func(ctx context.Context, t *election.Term) error {
//		return lead(ctx, t) // stops when ctx ends
//	})
//
// # What is guaranteed
//
// At most one term is alive at a time, by the clock that [zkrecipes.Hold.Err] looks at. A leader that is cut off, frozen
// or expired finds its term ended before the next candidate is elected: its deadline is earlier than the moment at which
// the servers can give it up. Tokens, the numbers of the terms, only grow.
//
// # What happens on disconnect, expiry and close
//
// A lost connection alone ends nothing: a leader that is back before its deadline is still the leader, and nobody has
// heard a word. [WithLossOnSuspend] changes that. A term whose deadline passes, whose session expires, whose node
// somebody deletes, or whose client is closed is lost: Err says which, and [Election.Run] stands again, unless the client
// is closed. Candidates that wait keep their place through short outages, and go to the end of the line when their
// session is over.
//
// # How fair it is
//
// First come, first served, in the order in which the ensemble created the candidates, Java or Go.
//
// # What is not guaranteed
//
// A leader that looks at its term, is frozen by the operating system or a virtual machine, and then acts, acts late.
// Give the resource the token (package fence), or write in ZooKeeper with [zkrecipes.Hold.Txn].
//
// What Leader and Candidates return is as new as the call as far as ZooKeeper's own leader knows; one that has been
// replaced takes up to a tick and a half to find out.
//
// # What it costs
//
// A candidate is one ephemeral znode, under a parent that the servers remove when nobody stands. Standing costs two
// requests that are in flight together, create and children, and a third, a getData with a watch on the candidate just
// ahead, if there is one. A resignation is one delete, and wakes one candidate, which reads the children once, or, if the
// one before stood in the same process, two nodes. A leader watches its own node. Each client with candidates sends a
// sync every eighth of the session timeout. An observer has one watch, on the leader's node.
package election
