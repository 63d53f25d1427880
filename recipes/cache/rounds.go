package cache

import "time"

// rounds are the complete passes over what must be read. They have no clock, no lock and no I/O.
//
// A round ends when all parts that were dirty when it began, or were found because of those, are clean. What becomes
// dirty in the meantime belongs to the next round, so a round ends however fast the nodes change.
//
// Suppose that a request was sent at a time t, and its answer has been handled when a round begins. By then all events
// of changes before t have been handled, because the server sent them earlier. When the round ends, the cache therefore
// has everything that its server had at t.
type rounds struct {
	newest   int       // number; the first is 1
	active   bool      // the newest has not ended
	began    time.Time // for the newest: when the latest request that had been answered and handled was sent
	ended    int       // the newest that has ended
	caughtUp bool      // a round has ended since the connection came up, for View.Current; Ready needs only the first

	verifiedZxid  int64 // all watches that were lost before this transaction have been found
	verifyingZxid int64 // what verifiedZxid becomes
	verifyRound   int   // ends the newest verification
}

// next returns the parity of the round that a part joins if it becomes dirty now. Only the active round and the next
// one have dirty parts, so the parity tells them apart.
func (r *rounds) next() parity { return parity(r.newest+1) & 1 }

// interrupt records that the connection, or the session, is gone.
func (r *rounds) interrupt() { r.caughtUp = false }

// restart records that all parts join the next round, because there is a connection and no watch.
func (r *rounds) restart() { r.active, r.caughtUp = false, false }

// advance ends the active round if it can, and begins the next. Its arguments are the number of dirty parts, by the
// parity of their round, and when the latest request that was answered and handled had been sent. If a round has ended,
// advance returns the time as of which the cache has everything.
func (r *rounds) advance(dirty [2]int, lastContact time.Time) (asOf time.Time) {
	for range 2 {
		if !r.active {
			r.newest++
			r.active, r.began = true, lastContact
		}
		if dirty[r.newest&1] > 0 {
			break
		}
		asOf = r.began
		r.active, r.ended, r.caughtUp = false, r.newest, true
		if !r.isVerifying() {
			r.verifiedZxid = r.verifyingZxid
		}
	}
	return asOf
}

// verify records that all watches since r.verifiedZxid are requested within the next round. Before that, an answer has
// reported the transaction zxid. Until it ends, the syncs of callers wait: see engine.addSync.
func (r *rounds) verify(zxid int64) { r.verifyingZxid, r.verifyRound = zxid, r.newest+1 }

// isVerifying reports whether the newest verification is still running.
func (r *rounds) isVerifying() bool { return r.ended < r.verifyRound }

// reset records that nothing before a transaction counts: nothing was followed, or everything is reread.
func (r *rounds) reset(zxid int64) { r.verifiedZxid, r.verifyingZxid = zxid, zxid }
