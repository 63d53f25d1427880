//go:build !race

package znode_test

const raceEnabled = false
