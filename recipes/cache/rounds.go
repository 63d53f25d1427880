package cache

import "time"

// rounds are the complete passes over what is to be read, without clock, lock and I/O.
//
// A round ends when all parts are clean that were dirty when it began, or were found because of them. What becomes
// dirty in the meantime belongs to the next round, so a round ends however fast the nodes change.
//
// Let a request be sent at a time t, and its answer be handled when a round begins. All events of changes before t
// have been handled then, because the server sent them before. When the round ends, the cache therefore has all that
// its server had at t.
type rounds struct {
	newest   int       // number; the first is 1
	active   bool      // the newest has not ended
	began    time.Time // the newest: when the newest request was sent that had been answered and handled
	ended    int       // the newest that has
	complete bool      // a round has ended since the connection came up

	verified   int64 // all watches that were lost since an earlier transaction have been found
	verifying  int64 // what verified becomes
	verifiedBy int   // the round that ends the newest verification
}

// next is of the round that a part joins which becomes dirty now.
func (r *rounds) next() parity { return parity(r.newest+1) & 1 }

// interrupt takes in that the connection, or the session, is gone.
func (r *rounds) interrupt() { r.complete = false }

// restart takes in that all parts join the next round, since a connection is there and no watch is.
func (r *rounds) restart() { r.active, r.complete = false, false }

// advance ends the active round if it can, and begins the next. It takes how many parts are dirty, by the parity of their round, and when
// the newest request was sent that was answered and handled. It returns the time as of which the cache has all, if a round has ended.
func (r *rounds) advance(dirty [2]int, heard time.Time) (asOf time.Time) {
	for range 2 {
		if !r.active {
			r.newest++
			r.active, r.began = true, heard
		}
		if dirty[r.newest&1] > 0 {
			break
		}
		asOf = r.began
		r.active, r.ended, r.complete = false, r.newest, true
		if !r.isVerifying() {
			r.verified = r.verifying
		}
	}
	return asOf
}

// verify records that all watches since r.verified are requested within the next round. An answer has reported the
// transaction zxid before that.
func (r *rounds) verify(zxid int64) { r.verifying, r.verifiedBy = zxid, r.newest+1 }

// isVerifying reports that the newest verification has not ended.
func (r *rounds) isVerifying() bool { return r.ended < r.verifiedBy }

// reset takes in that nothing before a transaction counts: nothing was followed, or everything is read again.
func (r *rounds) reset(zxid int64) { r.verified, r.verifying = zxid, zxid }
