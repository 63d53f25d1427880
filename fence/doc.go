// Package fence checks tokens at the resource that a lock protects. A holder that lost its lock without knowing it can
// then do no harm. The check runs at the resource and needs no connection to ZooKeeper.
//
//	gate := fence.New(store)
//	err := gate.Admit(ctx, "accounts/17", hold.Token()) // at the first read of the section, and at every write
//
// # What is guaranteed
//
// For each resource, the gate admits no token after it admitted a higher one. This holds for concurrent requests, for
// requests in any order, and when the store fails (then the gate admits nothing). It holds across restarts as far as
// the [Store] outlives them: [Memory] does not, [File] does. Tokens grow with every acquisition ([zkrecipes.Token]), so
// a refused token belongs to a hold that has a successor.
//
// # What it takes
//
// The resource must do two things, else updates get lost:
//
//   - Show the token at the first read of the section, not only at the write. Assume that only writes are checked. The
//     old holder writes after the new holder has read and before the new holder writes. Then the new holder writes
//     back what it read, and the acknowledged update of the old holder is gone. The examples show this, and the cure.
//   - Make Admit and the access one step: under the mutex that guards the data, or in the transaction that reads or
//     writes it (the example for database/sql). Else a newer section may come in between.
//
// # What is not guaranteed
//
// A fence does not exclude. An old holder may read and write until the new holder has shown its token; the new holder
// then reads those writes. A fence does not undo either. A section of two writes may have made the first write when the
// fence refuses the second.
//
// Tokens of different ensembles do not compare. A new ensemble begins with small tokens, and a store that remembers the
// old ensemble refuses all of them. Give the resource another name then.
//
// # What it costs
//
// One call of the store for each Admit. [Memory] takes a mutex. [File] takes a mutex and, for a new token only, one
// write and one fsync. A database takes one statement. Stores keep one record for each resource name, without an end.
// So name things, not requests.
//
// Source: M. Kleppmann, "How to do distributed locking" (2016), and F. Junqueira, "Note on fencing and distributed
// locks" (2016), which adds the read.
package fence
