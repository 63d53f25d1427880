// Package check tests locks by recording what their users observe and searching the history for anything that no
// correct lock could have produced. It works for goroutines in one process and for processes on one machine.
//
//	var rec check.Recorder
//	op := rec.Call("worker-1", 1)      // before Lock is called
//	op.GrantedHold(hold)               // after it returns
//	op.Released()                      // before Release is called; op.Lost() when the hold reports that it was lost
//	holds, err := rec.Holds()
//	err = check.Exclusion(holds, 1)    // a semaphore of n: its limit
//	err = check.Order(holds, 1)
//	err = check.Exclusion(check.ReadWrite(holds))
//
// What it proves: stamps are taken while the hold must be held, after the grant and before the release. Because a
// holder may learn of a loss late, a [Recorder] checks whether any earlier hold has ended before it stamps a grant
// ([Op.GrantedHold]). If [Exclusion] reports that such holds overlap, the overlap really happened, whatever the
// scheduler did. Between two recorders, and for grants that were recorded with [Op.Granted], a loss counts only from
// the moment its holder reports it.
//
// What it does not prove: an overlap shorter than the time from the grant to the stamp goes undetected. To compensate
// for that, run many sections, and use a [Set], whose lost updates reveal every overlap that did harm.
//
// The checkers are pure functions that return nil, a [*Violation], or an error that names the operations to blame.
// Checking a million holds takes a fraction of a second.
package check
