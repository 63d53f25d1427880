// Package group tracks which processes are members of a group. Each member maintains an ephemeral node below the
// group's path.
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
// When [Group.Join] returns, the node of the member exists. It is maintained as in package node: if it is deleted, or
// its session ends, it is created again. A node of another session is never mistaken for the member's own. If the id is
// taken, the error names the owner.
//
// A [View] is one instant of one server: exactly these members, in these incarnations, existed together. Their data is
// as of that instant or a little newer, and never older than that of an earlier view. Views of [Group.Watch] follow the
// order of ZooKeeper's transactions, and none is repeated unless its Freshness has changed. After the last change, the
// last view shows what exists. Members are ordered by seniority, so all clients that see the same members agree on
// which of them is first.
//
// # Failures
//
// When the connection is lost, or no server has answered for the session timeout, Watch yields the last view again at
// once, with Current false. When the client has reconnected, Watch reads again and yields a current view. A member
// whose session ends joins again in the next session, as the youngest. When the client is closed, its members are gone,
// and Watch ends with ErrClosed.
//
// If the client may not read the node of one member, Members and Watch end with that error.
//
// # What is not guaranteed
//
// A member in a view may have died since. A process that has died stays in the views until its session expires, and a
// view is as old as its AsOf. If a server loses an event, Watch finds the change after two to three session timeouts.
// It then rereads 64 members, so in a large group a change of data may take that long for every 64 members. A lock
// excludes, a view does not: two clients may see different members at the same moment.
//
// # Cost
//
// A member is one ephemeral node. The servers remove its parent when no member is left. Joining takes one transaction,
// and a getData with a watch for which the caller does not wait. It reads none of the other members.
//
// A watching client has one watch on the list of children and one on each member. It reads each member once, at most 64
// at a time. After that, a member that joins costs one list and one getData, and a member that leaves costs one list.
// After a reconnect every member is read again. With payloads there is one goroutine per member, and a change of data
// costs one list and one getData. When Watch ends, its watch on the list is removed, unless another caller of the
// session shares it. Its watches on the members remain on the server until they fire.
//
// # How large a group may be
//
// What one watching client receives grows with the members. These figures were measured with ids of 24 bytes and data
// of 13:
//
//	members                          100              1,000              5,000
//	first view         101 reads, 13 kB  1,001 reads, 133 kB  5,001 reads, 665 kB
//	one member joins     2 reads, 3 kB       2 reads, 28 kB       2 reads, 140 kB
//	100 join in 0.1 s           0.2 MB              1.5 MB               7.1 MB
//
// The servers send that to each watching client. If n members watch each other, each change causes n events and n
// lists: 0.3 MB for 100 members, 28 MB for 1,000, and 700 MB for 5,000. If n members arrive one by one while n watch,
// each client reads up to n lists. A group whose members all watch should therefore have a few hundred members. With a
// few watching clients it may have some thousand. For more:
//
//   - Use [WithSettle], which bounds the lists to four per quiet period. The 100 that join 5,000 then cost 0.3 MB
//     instead of 7.1.
//   - Let one client watch, such as the leader of an election, and write what the others need into one value, so that
//     they watch only that.
//   - Use several groups below different paths, such as one per rack. Each client watches the one that it needs.
//   - If a client needs only the names, list them (conn.Client.Children), which reads no member.
//
// # Compatibility
//
// Nodes have the layout of Apache Curator's GroupMember or, with [WithLayout], of kazoo's Party or ShallowParty.
package group
