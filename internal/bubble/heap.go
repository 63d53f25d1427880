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
