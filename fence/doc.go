// Package fence checks tokens at the resource that a lock protects, so that a holder that has lost the lock without
// noticing cannot do harm there. It runs where the resource is, and needs no connection to ZooKeeper.
//
//	gate := fence.New(store)
//	err := gate.Admit(ctx, "accounts/17", hold.Token()) // at the first read of the section, and at every write
//
// # What is guaranteed
//
// A resource admits no token after a higher one, even if requests run concurrently or arrive in any order. This holds
// across restarts as long as the [Store] outlives them, as [File] does and [Memory] doesn't. If the store fails,
// nothing is admitted. Because the tokens of a lock grow with every grant ([zkrecipes.Token]), a token is rejected only
// if its hold was followed by another. For each resource, present tokens of one lock only.
//
// # What it requires
//
// The resource must do two things that a fence cannot do for it, and without which updates get lost:
//
//   - Present the token at the first read, not only at the write. Suppose that only writes are checked, and the old
//     holder writes between the new holder's read and write. The new holder then writes back what it read, and the old
//     holder's update is lost even though it was acknowledged. The examples show both this problem and the remedy.
//   - Make Admit and the access one step, because otherwise a newer section can run between the two. To do so, call
//     Admit under the mutex that guards the data, or in the transaction that reads or writes it (see the example for
//     database/sql), or while the [File] is open (see the example for OpenFile).
//
// # What is not guaranteed
//
// A fence does not provide mutual exclusion: an old holder may read and write until the new one presents its token, and
// its writes are then part of what the new one reads. Nor does a fence undo anything. For example, if a section makes
// two writes, the first may already be done when the second is rejected.
//
// Tokens from different ensembles are not comparable. Because a newly created ensemble starts with small ones, all of
// its tokens are stale to a store that remembers the old ensemble. In that case, give the resource another name.
//
// # Cost
//
// Each Admit is one call of the store. With [Memory] this takes a mutex, and with a database one statement. With [File]
// it takes a mutex and, for a token higher than any before it, a write and an fsync. Because stores keep one record for
// each resource name forever, name resources after things ("accounts/17"), not after requests.
//
// Source: M. Kleppmann, "How to do distributed locking" (2016), and F. Junqueira, "Note on fencing and distributed
// locks" (2016), which adds the read.
package fence
