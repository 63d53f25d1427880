package session

import "sync"

// MostInFlight bounds the requests in flight for one read of many nodes. It is enough to fill the pipe.
const MostInFlight = 64

// InFlight calls f with each number below n, on a goroutine each, MostInFlight at once, and waits for all of them. f
// must honor a context, so that each wait ends.
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
