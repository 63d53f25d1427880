package zkrecipes

import "time"

// Freshness reports how old a view is. A view is a snapshot of what a client has read from ZooKeeper; each view type
// of conn and of the recipes embeds a Freshness.
//
// A view is current as long as the connection that it was read on is up, a server has answered within the session
// timeout, and the client will be notified of the next change to its contents. A cache's view stays current while the
// cache reads changes that it has been notified of; other views do not. Even a current view reflects only what one
// server knows, and that server may lag behind its leader.
//
// After a disconnect no view is current, even though all views keep their contents. Whatever watches the nodes will
// reread them on the next connection, in the next session if necessary, and will then have a current view again.
type Freshness struct {
	// Current reports whether the view was current when you received it. If it is false, anything may have changed
	// since AsOf.
	Current bool
	// AsOf is the local time of the most recent request whose answer agrees with the view; zero if there was none.
	AsOf time.Time
}
