package zkrecipes

// HandOver determines when a waiter of a mutex or an election prepares for its grant. Who holds, and in which order,
// does not depend on it.
type HandOver int

const (
	// HandOverLazy is the default: a waiter that is not next lists the queue once its predecessor has left. A release
	// wakes one client, and a contended section takes about five requests.
	HandOverLazy HandOver = iota
	// HandOverEager saves one round trip per hand-over between more than two sessions. A waiter that is not next watches
	// the contender two ahead of it. When that contender leaves, the waiter checks whether it is next while its
	// predecessor still holds, so the event of the predecessor's end grants it without another request. A release wakes
	// two clients instead of one, and a contended section takes about eight requests instead of five.
	HandOverEager
	// HandOverAuto is eager while that pays. A client whose previous wait in its session took at most eight times as long
	// as the creation of its node, per contender ahead, is eager; it is lazy in its first wait and where sections are
	// longer, since a round trip saved would hardly be noticed there.
	HandOverAuto
)
