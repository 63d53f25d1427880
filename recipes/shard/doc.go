// Package shard divides work among members: each shard is served by one member at a time, under its own lock.
//
//	err = shard.Run(ctx, client, "/app/partitions", shard.List(names...),
//		func(ctx context.Context, s *shard.Shard) error {
//			return consume(ctx, s.Name, s.Token()) // stops when ctx is done
//		})
//
// Members join a group (package group) and elect a leader (package election), which writes a plan that assigns each
// shard to a member. For each shard that the plan assigns to it, a member acquires the shard's lock (package mutex) and
// calls your function under that lock.
//
// # Guarantees
//
// A shard has at most one live hold at a time, by the clock that [zkrecipes.Hold.Err] checks, and each hold has a
// larger token than all earlier ones. Because this depends only on the shard's lock, a plan that is outdated, wrong or
// missing can delay when a shard is served, but never causes it to be served twice. A deposed leader cannot change the
// plan, because a leader writes it in a transaction that checks its term.
//
// Only shards that move are interrupted. With [Sticky], the default, a member that joins gets its share while the
// others keep the rest undisturbed, and when a member leaves, only its own shards move. A member that loses a shard
// stops the shard's function, waits for it to return, and releases the lock. By then the next owner is already queued
// for the lock, so it starts as soon as the lock is released.
//
// Once members and shards stop changing, every shard is served within the time set by [WithSettle], plus the time that
// functions need to stop, a session timeout and two server ticks. There are two exceptions: a shard may wait longer for
// a member that is restarting ([WithReturnGrace]), and a function that fails is called again only after a pause.
//
// # Failures
//
// A disconnect alone has no effect: a member keeps its shards until its holds reach their deadline. When its session
// ends, all its holds are lost and its functions stop. The leader immediately assigns its shards to others, and the
// member rejoins in the next session.
//
// If a single hold is lost because its node was deleted, that shard's function stops, and the member acquires the lock
// again. This doesn't count as a failure of the function.
//
// If the leader disappears, the plan remains in force, and members keep working until the next leader continues from
// it. If the plan is deleted or cannot be read, members keep the shards they have, and the leader writes a new plan
// based on who holds which lock. If someone writes a plan by hand, members follow it until the leader writes the next
// one.
//
// If the source of shards fails when a new leader needs it, the leader keeps the last plan's shards, and assigns those
// of departed members to others. If a leader cannot read or write something that it needs, it logs that and lets
// another member lead. A member that can no longer read the plan keeps the shards it has and tries again, but it
// acquires no other lock until it succeeds.
//
// If a plan exceeds the servers' jute.maxbuffer, the servers close the leader's connection when it sends the plan. The
// leader then logs the plan's size and keeps the last plan. Because each attempt costs the client its connection, it
// tries again only once a minute.
//
// When the context passed to [Shards.Run] is done, all functions stop immediately, and other members get the shards.
// Two options change this: with [WithReturnGrace] the shards wait for the member to come back, so that a rolling
// restart moves none of them, and with [WithLeave] they are handed over one after another, as by [Shards.Leave]. When
// the client is closed, Run returns ErrClosed.
//
// # Fairness
//
// [Sticky] gives each member its share of the shards by weight, to within one shard. If a member refuses shards, the
// others divide them by weight. Note that Sticky counts shards, not load. A shard's lock is granted first come, first
// served.
//
// # What is not guaranteed
//
// A process can be paused after it checks its hold, and then act while another member already has the shard. To protect
// against this, pass the token to the resource (package fence), or write to ZooKeeper with [zkrecipes.Hold.Txn].
//
// If a function doesn't stop when its context is done, the next owner has to wait until it returns or its hold is lost;
// see [WithDrainLimit].
//
// A member has a node for each shard's lock. With ten-byte names it can have about 18,000 of these;
// [conn.WithMaxRequestSize] sets the limit. Because the shards that exceed a member's limit go to other members, run
// enough members that, when some of them fail, the remaining ones can take all shards.
//
// A plan is stored in a single node, so it has at most 1 MiB, which is enough for about 80,000 shards with ten-byte
// names, on five members or more. The limit that applies is the client's ([conn.WithMaxRequestSize]), and Run fails
// immediately if a list exceeds it.
//
// # Cost
//
// A member has one node in the group, one in the election and one for each shard, each with a watch, and another watch
// on the plan. Each plan costs each member one read, and each shard that moves costs five to seven requests. If no
// watch fires, a member still rereads each shard's node every two to three session timeouts, at most 200 times a
// second. Proving that the session is alive costs the same however many shards there are.
//
// The leader follows the group, with one watch for each member. Planning takes one transaction, a sync and a read.
//
// The nodes below the path are "members", "election", "plan", "own" with each shard's lock, and "shards" if [Node] is
// used.
//
// # Compatibility
//
// The locks, the election and the group use the same nodes as packages mutex, election and group. The plan is specific
// to this package, so programs that use Curator or kazoo cannot be members.
package shard
