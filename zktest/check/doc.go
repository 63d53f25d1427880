// Package check judges what the users of a lock saw: it records histories and finds what no correct lock could have
// shown. It serves goroutines in one process as well as processes on one machine.
//
//	var rec check.Recorder
//	op := rec.Call("worker-1", 1)      // before Lock is called
//	op.GrantedHold(hold)               // after it has returned
//	op.Released()                      // before Release is called; op.Lost() when the hold says that it was lost
//	holds, err := rec.Holds()
//	err = check.Exclusion(holds, 1)    // a semaphore of n: its limit
//	err = check.Order(holds, 1)
//	err = check.Exclusion(check.ReadWrite(holds))
//
// What it proves: stamps are taken inside the time in which a hold must be held, after the grant and before the
// release. A holder that is told of a loss may be late. So before a [Recorder] stamps a grant, it asks each hold whether it has
// ended ([Op.GrantedHold]). An overlap of such holds that [Exclusion] reports has happened, whatever the scheduler did. Between
// two recorders, and for what was recorded with [Op.Granted], a loss counts from when its holder says so.
//
// What it does not prove: an overlap shorter than the way from the grant to the stamp is not seen. Many sections make up for
// that, and [Set], whose lost updates count every overlap that did harm.
//
// The checkers are pure functions. They return nil, or a [*Violation] or an error that names the operations to blame;
// a million holds take a fraction of a second.
package check
