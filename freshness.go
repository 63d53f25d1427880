package zkrecipes

import "time"

// Freshness says how old a view is. A view is what a client has read of ZooKeeper, and shows it later: each view of conn and of
// the recipes embeds a Freshness.
//
// A view is current while all of this holds: the connection on which it was read is up, a server has answered within the session
// timeout, no change of what it shows is known, and the client will be told of the next one. A current view is what one server
// knows, which may be behind its leader.
//
// After a disconnect no view is current. It shows what it showed, as of the time before. What follows the nodes reads again on
// the next connection, in the next session if need be, and then has a current view.
type Freshness struct {
	// Current says that the view is current as it is given to the caller. If it is false, anything may have changed since AsOf.
	Current bool
	// AsOf is the local time of the newest request whose answer agrees with the view. The zero time says that there is none.
	AsOf time.Time
}
