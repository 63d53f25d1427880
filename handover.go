package zkrecipes

// HandOver determines when a waiter of a mutex or an election prepares for its grant. It affects neither who holds
// nor in which order.
type HandOver int

const (
	// HandOverLazy is the default: a waiter that is not next lists the queue when its predecessor leaves. A release
	// wakes one client, and a contended section takes about five requests.
	HandOverLazy HandOver = iota
	// HandOverEager saves one round trip per hand-over between more than two sessions. Use it for short, contended
	// sections. A waiter that is not next watches the contender two ahead of it. When that contender leaves, the
	// waiter checks whether it is next while its predecessor still holds, so that the event of the predecessor's end
	// grants it without another request. A release wakes two clients instead of one, and a contended section takes
	// about eight requests instead of five.
	HandOverEager
	// HandOverAuto is eager only where that pays. A client is eager if its previous wait in the same session took, per
	// contender ahead, at most eight times as long as creating its node did. It is lazy in its first wait, and where
	// sections are longer, since saving a round trip would hardly be noticed there.
	HandOverAuto
)
