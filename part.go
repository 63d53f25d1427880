package zkrecipes

import "github.com/zkrecipes/zkrecipes/internal/part"

// Part is one of the locks that multilock.LockAll acquires together. Obtain one from Mutex.Part of recipes/mutex,
// RWLock.Part or RWLock.RPart of recipes/rwlock, Semaphore.Part of recipes/semaphore, or Election.Part of
// recipes/election.
type Part part.Part
