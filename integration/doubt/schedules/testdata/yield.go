package runtime

import (
	"internal/runtime/atomic"
	_ "unsafe" // for go:linkname
)

var (
	yieldSeed uint64
	yieldOps  atomic.Uint64
)

// yieldAtRandom sometimes lets other goroutines run first, if the caller is in a testing/synctest bubble, where virtual
// time does not advance meanwhile. For some thousand operations at a time, it delays one goroutine in six a lot: in
// many races the same goroutine must be late twice.
func yieldAtRandom() {
	gp := getg()
	if gp != gp.m.curg || gp.m.locks != 0 || gp.m.mallocing != 0 || gp.bubble == nil {
		return
	}
	if yieldSeed == 0 {
		yieldSeed = uint64(cheaprand()) | 1
	}
	late := (gp.goid*0x9E3779B97F4A7C15 ^ (yieldOps.Add(1)>>11)*0xC2B2AE3D27D4EB4F) * yieldSeed
	late = (late ^ late>>29) * 0xBF58476D1CE4E5B9
	var yields uint32
	switch {
	case late>>32%6 == 0:
		if cheaprandn(3) == 0 {
			yields = cheaprandn(400)
		}
	case cheaprandn(24) == 0:
		yields = cheaprandn(150)
	}
	for range yields {
		Gosched()
	}
}

//go:linkname syncYieldAtRandom internal/sync.yieldAtRandom
func syncYieldAtRandom() { yieldAtRandom() }
