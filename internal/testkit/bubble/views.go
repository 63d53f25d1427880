package bubble

import (
	"iter"
	"slices"
	"sync"
	"testing/synctest"
)

// Views has what a Watch has yielded.
type Views[T any] struct {
	Err  error // the latest
	mu   sync.Mutex
	list []T
}

// Watch follows a Watch on another goroutine.
func Watch[T any](all iter.Seq2[T, error]) *Views[T] {
	v := &Views[T]{}
	go func() {
		for view, err := range all {
			v.mu.Lock()
			if v.Err = err; err == nil {
				v.list = append(v.list, view)
			}
			v.mu.Unlock()
		}
	}()
	synctest.Wait()
	return v
}

// All returns what has been yielded without an error.
func (v *Views[T]) All() []T {
	synctest.Wait()
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.list)
}

// Last returns the latest of All.
func (v *Views[T]) Last() T {
	all := v.All()
	return all[len(all)-1]
}
