//go:build race

package bubble

// Race says that the race detector is on. It makes everything about ten times slower.
const Race = true
