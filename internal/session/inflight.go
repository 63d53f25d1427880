package session

import "sync"

// MostInFlight bounds the requests of one reading of many nodes that are in flight: enough to fill the pipe.
const MostInFlight = 64

// InFlight calls f with each number below n, on a goroutine each, MostInFlight at once, and waits for all. f honors a
// context, so that the wait for each of them ends.
func InFlight(n int, f func(i int)) {
	turns := make(chan struct{}, MostInFlight)
	var all sync.WaitGroup
	for i := range n {
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			f(i)
		})
	}
	all.Wait()
}
