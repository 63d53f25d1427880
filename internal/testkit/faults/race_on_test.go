//go:build race

package faults_test

import "time"

// How much the tests run by default: less, because the race detector makes everything ten times slower.
const (
	defaultHours = 14
	dayLength    = 2 * time.Hour
)
