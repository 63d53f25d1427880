package bubble

import (
	"iter"
	"slices"
	"sync"
	"testing/synctest"
)

// Views collects what a Watch yields.
type Views[T any] struct {
	mu   sync.Mutex
	list []T
	err  error
}

// Watch follows a Watch on another goroutine.
func Watch[T any](all iter.Seq2[T, error]) *Views[T] {
	v := &Views[T]{}
	go func() {
		for view, err := range all {
			v.mu.Lock()
			if v.err = err; err == nil {
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

// Err returns the latest error, or nil if the latest view came without one.
func (v *Views[T]) Err() error {
	synctest.Wait()
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.err
}

// Last returns the latest of All.
func (v *Views[T]) Last() T {
	all := v.All()
	return all[len(all)-1]
}
