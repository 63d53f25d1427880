// Package shard divides work among members: each shard is served by one member at a time, under its own lock.
//
//	err = shard.Run(ctx, client, "/app/partitions", shard.List(names...),
//		func(ctx context.Context, s *shard.Shard) error {
//			return consume(ctx, s.Name, s.Token()) // stops when ctx ends
//		})
//
// Members join a group (package group) and elect a leader (package election). The leader writes a plan that assigns
// each shard to a member. A member acquires the lock of each shard that the plan assigns to it (package mutex), and
// calls the function under that lock.
//
// # Guarantees
//
// A shard has at most one live hold at a time, by the clock that [zkrecipes.Hold.Err] checks, and each hold has a
// larger token than all earlier ones. This depends only on the lock of the shard. If the plan is old, wrong or missing,
// shards are served later, never twice. A leader writes the plan in the transaction of its term, so a deposed leader
// changes nothing.
//
// Only shards that move are stopped. With [Sticky], the default, a member that joins gets its share while the other
// members keep the rest undisturbed, and when a member leaves, only its own shards move. A member whose shard moves
// stops its function, waits for it to return, and releases the lock. The next owner is already queued behind it, and
// starts with the release.
//
// Every shard is served once nothing has changed for the time of [WithSettle], plus the time that functions need to
// stop, a session timeout and two ticks of the servers. Two things take longer: a shard may wait for a member that
// restarts ([WithReturnGrace]), and a function that fails is called again after a pause.
//
// # Failures
//
// A disconnect alone changes nothing: a member keeps its shards until the deadline of its holds. When its session ends,
// all its holds have ended and its functions stop. The leader assigns its shards to others at once, and the member
// joins again in the next session.
//
// If a single hold ends because a client has deleted its node, the function of that shard stops, and the member
// acquires the lock again. This does not count as a failure of the function.
//
// If the leader disappears, the plan remains in force and members keep working. The next leader continues from the
// plan. If the plan is deleted or cannot be read, members keep what they have, and the leader writes a new plan based
// on who holds what. A plan that a client has written by hand is followed until the leader has written the next one.
//
// If the source of the shards fails when a new leader needs it, the shards of the last plan remain, and those of a
// member that has gone are assigned to others. A leader that cannot read or write what it needs logs that, and lets
// another member lead. A member that can no longer read the plan keeps what it has, acquires no other lock, and tries
// again.
//
// If a plan is larger than the jute.maxbuffer of the servers, they hang up on it. The leader then logs its size, keeps
// the last plan, and tries again once a minute, because each attempt costs the client its connection.
//
// When the context of [Shards.Run] ends, all functions stop at once. With [WithReturnGrace] the shards then wait for
// the member to come back, so a rolling restart moves none. With [WithLeave] they are handed over one after another, as
// by [Shards.Leave]. When the client is closed, Run returns ErrClosed.
//
// # Fairness
//
// [Sticky] gives each member its share of the shards by weight, to within one shard. If a member refuses shards, the
// others divide these by weight. Sticky counts shards, not load. The lock of a shard is granted to members first come,
// first served.
//
// # What is not guaranteed
//
// A process can be paused after it has checked its hold, and then act while another member has the shard. Pass the
// token to the resource (package fence), or write to ZooKeeper with [zkrecipes.Hold.Txn].
//
// A function that does not stop when its context ends keeps its shard from the next owner until it returns or its hold
// is lost; see [WithDrainLimit].
//
// The lock of a shard is a node of its member, and a member has room for about 18,000 with names of ten bytes: the
// limit is that of [conn.WithMaxRequestSize]. Shards that a member has no room for go to other members. Run enough
// members that, when some fail, the remaining ones have room for all shards.
//
// A plan is one node and therefore has at most 1 MiB, which is about 80,000 shards with names of ten bytes, on five
// members or more. The limit of the client ([conn.WithMaxRequestSize]) counts, and Run fails at once if a list is above
// it.
//
// # Cost
//
// A member has a node in the group, one in the election and one for each shard, each with a watch, and a watch on the
// plan. Each plan costs each member one read. A shard that moves takes five to seven requests. If the watches are
// quiet, a member rereads the node of each shard every two to three session timeouts, at most 200 times a second. The
// cost of proving the session does not grow with the number of shards.
//
// The leader follows the group, with one watch for each member. Planning takes one transaction, a sync and a read.
//
// Below the path are "members", "election", "plan", "own" with the lock of each shard, and "shards" if [Node] is used.
//
// # Compatibility
//
// The locks, the election and the group have the nodes of packages mutex, election and group. The plan is specific to
// this package, so programs that use Curator or kazoo cannot be members.
package shard
