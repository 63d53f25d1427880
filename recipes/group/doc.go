// Package group shows which processes of a group are there. Each member keeps an ephemeral node below the group's path, laid out
// as Apache Curator's GroupMember or as kazoo's Party.
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
// # What is guaranteed
//
// When [Group.Join] returns, the node of the member is there. It is kept as package node keeps one: if it is deleted, or its
// session ends, it is made again. A node of another session is never taken for ours. If the id is taken,
// the error names the owner.
//
// A [View] is one instant of one server: exactly these members, in these incarnations, were there together. Their data are as
// of that instant or a little newer, and never older than those of an earlier view. Views of [Group.Watch] follow each other in
// the order of ZooKeeper's transactions, and none is told twice. After the last change, the last view shows what is there. The
// members are in the order of seniority, so all clients that see the same members agree which of them is the first.
//
// # What happens on disconnect, expiry and close
//
// When the connection is lost, or no server has answered for the session timeout, Watch tells the last view again at once, with
// Current false. When the client is connected again, Watch reads again and tells a current view. A member whose session ends
// joins again in the next session, as the youngest. When the client is closed, its members are gone, and Watch ends with
// ErrClosed.
//
// # What is not guaranteed
//
// A member in a view may have died since. A process that has died stays in the views until its session expires, and a view is as
// old as it says. If a server loses an event, Watch finds the change after two to three session timeouts. It then reads 64 members
// again, so in a large group a change of data may take that long for each 64 members. A lock excludes, a view does not: two
// clients may see different members at one moment.
//
// If the client may not read the node of one member, Members and Watch end with that error.
//
// # What it costs
//
// A member is one ephemeral node. The servers remove its parent when no member is left. To join takes one transaction, and a
// getData with a watch, for which the caller does not wait. It reads none of the other members.
//
// A watching client has one watch on the list of the children and one on each member. It reads each member once, at most 64 at
// a time; then a member that joins costs one list and one getData, a member that leaves costs one list. After a reconnect every
// member is read again. With payloads there is a goroutine for each member, and a change of data costs one list and one
// getData. So n members that all watch each other cause n events for each change. If n members come one by one while n watch,
// each client reads up to n lists, unless it settles ([WithSettle]). When Watch ends, its watch on the list is removed, unless
// another caller of the session shares it. Its watches on the members stay on the server until they fire.
package group
