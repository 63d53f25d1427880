// Package group tracks which processes are members of a group. Each member maintains an ephemeral node below the
// group's path, and any client can list or watch the members.
//
//	g, err := group.New(client, "/app/workers")
//	...
//	m, err := g.Join(ctx, "w1", []byte("10.0.0.7:8080"))
//	...
//	defer m.Close(ctx)
//	for view, err := range g.Watch(ctx, group.WithPayloads()) {
//		balance(view.Members)
//	}
//
// # Guarantees
//
// When [Group.Join] returns, the member's node exists. As in package node, it is recreated if it is deleted or its
// session ends, and a node that belongs to another session is never mistaken for the member's own. If the ID is taken,
// the error from Join names the owner.
//
// A [View] captures one instant on one server: exactly these members, in these incarnations, existed together. Their
// data is from that instant or slightly later, and never older than in an earlier view. [Group.Watch] yields views in
// the order of ZooKeeper's transactions, and repeats one only if Current changes. Once the group stops changing, the
// last view shows what exists. Because members are sorted by seniority, all clients that see the same members agree on
// which of them is first.
//
// # Failures
//
// If the connection is lost, or no server answers for a whole session timeout, Watch immediately yields the last view
// again, with Current set to false. When the client reconnects, Watch rereads the group and yields a current view. A
// member whose session ends rejoins in the next session, as the youngest member. Closing the client removes its members
// from the group, and Watch then ends with ErrClosed.
//
// A change makes the last view outdated as soon as the client is notified of it. Watch usually reads the new members
// within a moment. If that takes an eighth of the session timeout, for example because members come and go faster than
// they are read, it yields the last view again, with Current set to false.
//
// If the client lacks permission to read even one member's node, Members and Watch fail with the server's error.
//
// # What is not guaranteed
//
// A member may have died since the view was read: a dead process stays in the views until its session expires, and a
// view is only as recent as its AsOf. If a server loses an event, Watch still finds the change after two to three
// session timeouts. However, because it rereads only 64 members each time, noticing a change to a member's data in a
// large group may take that long for every 64 members in the group. Unlike a lock, a view excludes no one: two clients
// may see different members at the same moment.
//
// # Cost
//
// A member is one ephemeral node. Servers remove its parent some time after the last member leaves. Joining takes one
// transaction, and a getData with a watch that the caller doesn't have to wait for; none of the other members are read.
//
// A client that watches the group has one watch on the list of children and one on each member. It reads each member
// once, at most 64 at a time. After that, a member that joins costs one list and one getData, and a member that leaves
// costs one list, but after a reconnect every member is read again. With payloads there is also one goroutine per
// member, and each change to a member's data costs one list and one getData. When Watch ends, it removes its watch on
// the list, unless another caller in the session shares it. Its watches on members remain on the server until they
// fire.
//
// # How large a group may be
//
// The larger the group, the more data each watching client receives. These figures were measured with 24-byte IDs and
// 13 bytes of data:
//
//	members                          100              1,000              5,000
//	first view         101 reads, 13 kB  1,001 reads, 133 kB  5,001 reads, 665 kB
//	one member joins     2 reads, 3 kB       2 reads, 28 kB       2 reads, 140 kB
//	100 join in 0.1 s           0.2 MB              1.5 MB               7.1 MB
//
// The servers send this much to every watching client. If n members all watch each other, each change causes n events
// and n lists, which is 0.3 MB for 100 members, 28 MB for 1,000, and 700 MB for 5,000. If n members join one by one
// while n are watching, each client reads up to n lists. A group in which every member watches should therefore not
// exceed a few hundred members; with only a few watching clients it can have a few thousand. Beyond that:
//
//   - Use [WithSettle], which limits the lists to four per quiet period. The 100 that join 5,000 then cost 0.3 MB
//     instead of 7.1.
//   - Let one client watch, such as the leader of an election, and publish what the others need in a single value, so
//     that they watch only that.
//   - Split the group into several below different paths, for example one per rack, so that each client watches only
//     the one it needs.
//   - If you need only the names, list them (conn.Client.Children), which reads no members.
//
// # Compatibility
//
// Nodes have the layout of Apache Curator's GroupMember or, with [WithLayout], of kazoo's Party or ShallowParty.
package group
