package zkrecipes

import "github.com/zkrecipes/zkrecipes/internal/part"

// Part is one of the locks that multilock.LockAll acquires together. Only recipes make one: with Mutex.Part of
// recipes/mutex, RWLock.Part and RWLock.RPart of recipes/rwlock, Semaphore.Part of recipes/semaphore and
// Election.Part of recipes/election.
type Part part.Part
