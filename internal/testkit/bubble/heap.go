package bubble

import "runtime"

// Heap returns how many bytes the live objects of the process take.
func Heap() int64 {
	runtime.GC()
	runtime.GC() // what has a finalizer goes with the second
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Goroutines counts with the world stopped, which is what a profile that does not fit is good for. Without, NumGoroutine
// counts dozens too many while the runtime moves ended goroutines from one of its lists to another.
func Goroutines() int {
	n, _ := runtime.GoroutineProfile(make([]runtime.StackRecord, 1))
	return n
}
