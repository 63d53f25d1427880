//go:build !race

package testkit

// Race says that the race detector is on, which makes everything several times slower.
const Race = false
