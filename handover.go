package zkrecipes

// HandOver determines when a waiter of a mutex or an election prepares for its grant. It has no effect on who acquires
// the lock or leads, or in what order.
type HandOver int

const (
	// HandOverLazy is the default. A waiter that isn't next lists the queue when its predecessor leaves. As a result, a
	// release wakes one client, and a contended section takes about five requests.
	HandOverLazy HandOver = iota
	// HandOverEager saves one round trip per hand-over between more than two sessions, which is worthwhile for short,
	// contended sections. A waiter that isn't next watches the contender two places ahead. When that contender leaves,
	// the waiter checks whether it is next while its predecessor still holds, so that the event reporting the
	// predecessor's end grants it without another request. The trade-off is that a release wakes two clients instead of
	// one, and a contended section takes about eight requests instead of five.
	HandOverEager
	// HandOverAuto is eager only when that pays off, that is, when the previous wait on the same Mutex or Election, in
	// the same session, took, per contender ahead, at most eight times as long as creating its node did. It is lazy
	// during the first wait and with longer sections, for which saving a round trip would hardly be noticeable.
	HandOverAuto
)
