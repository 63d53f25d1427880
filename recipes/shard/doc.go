// Package shard divides work among members: each shard is served by one member at a time, under a lock of its own.
//
//	err = shard.Run(ctx, client, "/app/partitions", shard.List(names...), func(ctx context.Context, s *shard.Shard) error {
//		return consume(ctx, s.Name, s.Token()) // stops when ctx ends
//	})
//
// Members join a group (package group) and elect a leader (package election). The leader writes a plan: which member is to have which
// shard. A member that the plan gives a shard to takes the lock of the shard (package mutex), and calls the function under it.
//
// # What is guaranteed
//
// A shard has one live hold at a time, by the clock that [zkrecipes.Hold.Err] looks at, and each hold has a larger token than all
// before it. That rests on the lock of the shard alone. If the plan is old, wrong or missing, shards are served later, never
// twice. A leader writes the plan in the transaction of its term, so one that was deposed changes nothing.
//
// Only shards that move are stopped. With [Sticky], the default, a member that joins gets its part, and what others keep goes
// on. A member that leaves moves its own shards only. A member whose shard moves stops its function, waits for it, and releases the lock. The
// next owner stands behind it in the queue, and starts with the release.
//
// If nothing changes for the time of [WithSettle], the time that functions need to stop, a session timeout and two ticks of the servers, every
// shard is served. Two things take longer: a shard may wait for a member that restarts ([WithReturnGrace]), and a function that fails is
// called again after a pause.
//
// # What happens on disconnect, expiry and close
//
// A disconnect alone changes nothing: a member has its shards until the deadline of its holds. When its session ends, all its
// holds have ended, and its functions stop. The leader gives its shards to others at once. The member joins again in the next session.
//
// If a single hold ends, because a client has deleted its node, the function of that shard stops, and the member takes the lock again.
// That is no failure of the function.
//
// If the leader goes, the plan stands, and members work on. The next leader goes on from the plan. If the plan is deleted or
// cannot be read, members keep what they have, and the leader writes another one that follows on who holds what. A plan that a client
// has written by hand is obeyed until the leader has written the next one.
//
// If the source of the shards fails when the next leader needs it, the shards of the last plan stay, and others serve those of a
// member that has gone. A leader that cannot read or write what it needs logs that, and lets another member lead. A member that can
// no longer read the plan keeps what it has, takes no other lock, and tries again.
//
// If a plan is larger than the jute.maxbuffer of the servers, they hang up on it. The leader then logs its size, keeps the last
// plan, and tries again once a minute, because each try costs the client its connection.
//
// When the context of [Shards.Run] ends, all functions stop at once. With [WithReturnGrace] the shards then wait for the member to
// come back, so that a rolling restart moves none. [WithLeave] hands them over one after the other, as [Shards.Leave] does. When the client is
// closed, Run returns ErrClosed.
//
// # How fair it is
//
// [Sticky] gives each member its share of the shards by weight, to within one shard. If a member refuses shards, the others divide
// these by weight. Sticky counts shards, not load. At the lock of a shard, members are let in in the order in which they came.
//
// # What is not guaranteed
//
// A process can be frozen after it has looked at its hold. It then acts when another member has the shard. Give the token to the
// resource (package fence), or write in ZooKeeper with [zkrecipes.Hold.Txn].
//
// A function that does not stop when its context ends keeps its shard from the next owner, until it returns or its hold is lost:
// see [WithDrainLimit].
//
// The lock of a shard is a node of its member, and a member has room for about 18,000 with names of ten bytes: the limit is
// that of [conn.WithMaxRequestSize]. What it has no room for, it gives away to other members. So have so many members that those which
// are left when some fail have room for all shards.
//
// A plan is one node, so that it has at most 1 MiB: about 80,000 shards with names of ten bytes, on five members or more. The
// limit of the client ([conn.WithMaxRequestSize]) counts, and Run says at once if a list is above it.
//
// # What it costs
//
// A member has a node in the group, one in the election and one for each shard, each with a watch, and a watch on the plan. Each plan
// is one read for each member. A shard that moves takes five to seven requests. If the watches are quiet, a member looks at the
// node of each shard every two to three session timeouts, 200 times a second at most. What proves the session does not grow with
// the shards.
//
// The leader follows the group, with one watch for each member. To plan is one transaction, a sync and a read.
//
// Below the path are "members", "election", "plan", "own" with the lock of each shard, and "shards" if [Node] is used.
package shard
