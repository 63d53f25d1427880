// Package shard divides work among members: each shard is served by one member at a time, under its own lock.
//
//	err = shard.Run(ctx, client, "/app/partitions", shard.List(names...),
//		func(ctx context.Context, s *shard.Shard) error {
//			return consume(ctx, s.Name, s.Token()) // stops when ctx ends
//		})
//
// Members join a group (package group) and elect a leader (package election), which writes a plan that assigns each
// shard to a member. For each shard that the plan assigns to it, a member acquires the shard's lock (package mutex) and
// calls your function under that lock.
//
// # Guarantees
//
// A shard has at most one live hold at a time, by the clock that [zkrecipes.Hold.Err] checks, and each hold has a
// larger token than all earlier ones. This depends only on the shard's lock: if the plan is old, wrong or missing,
// shards are served later, never twice. A leader writes the plan in a transaction that checks its term, so a deposed
// leader changes nothing.
//
// Only shards that move are stopped. With [Sticky], the default, a member that joins gets its share while the others
// keep the rest undisturbed, and when a member leaves, only its own shards move. A member that loses a shard stops its
// function, waits for it to return, and releases the lock. The next owner is already queued for the lock, and starts as
// soon as it is released.
//
// Once changes stop, every shard is served within the time set by [WithSettle], plus the time that functions need to
// stop, a session timeout and two server ticks. Two things take longer: a shard may wait for a member that restarts
// ([WithReturnGrace]), and a function that fails is called again after a pause.
//
// # Failures
//
// A disconnect alone changes nothing: a member keeps its shards until its holds reach their deadline. When its session
// ends, all its holds end and its functions stop. The leader assigns its shards to others at once, and the member
// rejoins in the next session.
//
// If a single hold ends because a client has deleted its node, that shard's function stops, and the member acquires the
// lock again. This does not count as a failure of the function.
//
// If the leader disappears, the plan remains in force and members keep working until the next leader continues from it.
// If the plan is deleted or cannot be read, members keep what they have, and the leader writes a new plan based on who
// holds what. A plan that was written by hand is followed until the leader writes the next one.
//
// If the source of shards fails when a new leader needs it, the leader keeps the last plan's shards, and assigns those
// of departed members to others. A leader that cannot read or write what it needs logs that, and lets another member
// lead. A member that can no longer read the plan keeps what it has, acquires no other lock, and tries again.
//
// If a plan is larger than the servers' jute.maxbuffer, they hang up on it. The leader then logs the plan's size, keeps
// the last plan, and tries again once a minute, because each attempt costs the client its connection.
//
// When the context passed to [Shards.Run] ends, all functions stop at once. With [WithReturnGrace] the shards then wait
// for the member to come back, so that a rolling restart moves none of them. With [WithLeave] they are handed over one
// after another, as by [Shards.Leave]. When the client is closed, Run returns ErrClosed.
//
// # Fairness
//
// [Sticky] gives each member its share of the shards by weight, to within one shard. If a member refuses shards, the
// others divide these by weight. Sticky counts shards, not load. A shard's lock is granted first come, first served.
//
// # What is not guaranteed
//
// A process can be paused after it checks its hold, and then act while another member has the shard. Pass the token to
// the resource (package fence), or write to ZooKeeper with [zkrecipes.Hold.Txn].
//
// A function that does not stop when its context ends keeps its shard from the next owner until it returns or its hold
// is lost; see [WithDrainLimit].
//
// A member has a node for each shard's lock, and room for about 18,000 of these with ten-byte names;
// [conn.WithMaxRequestSize] sets the limit. Shards that a member has no room for go to other members, so run enough
// members that, when some fail, the remaining ones have room for all shards.
//
// A plan is stored in one node, so it has at most 1 MiB, which is about 80,000 shards with ten-byte names, on five
// members or more. What counts is the client's limit ([conn.WithMaxRequestSize]), and Run fails at once if a list
// exceeds it.
//
// # Cost
//
// A member has one node in the group, one in the election and one for each shard, each with a watch, and a watch on the
// plan. Each plan costs each member one read. A shard that moves takes five to seven requests. While its watches are
// quiet, a member rereads each shard's node every two to three session timeouts, at most 200 times a second. Proving
// the session costs the same however many shards there are.
//
// The leader follows the group, with one watch for each member. Planning takes one transaction, a sync and a read.
//
// Below the path are "members", "election", "plan", "own" with each shard's lock, and "shards" if [Node] is used.
//
// # Compatibility
//
// The locks, the election and the group have the nodes of packages mutex, election and group. The plan is specific to
// this package, so programs that use Curator or kazoo cannot be members.
package shard
