//go:build !race

package bubble

// Race says that the race detector is on, under which everything is ten times as dear.
const Race = false
