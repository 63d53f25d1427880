//go:build race

package bubble

// Race reports whether the race detector is on. It slows everything down about ten times.
const Race = true
