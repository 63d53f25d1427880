package bubble

import "runtime"

// Heap returns the size of the live objects of the process, in bytes.
func Heap() int64 {
	runtime.GC()
	runtime.GC() // objects with finalizers are freed by the second one
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Goroutines counts the goroutines with the world stopped, by requesting a profile that does not fit. NumGoroutine does
// not stop the world, and counts dozens too many while the runtime moves dead goroutines between its lists.
func Goroutines() int {
	n, _ := runtime.GoroutineProfile(make([]runtime.StackRecord, 1))
	return n
}
