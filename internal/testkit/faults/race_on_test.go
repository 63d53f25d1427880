//go:build race

package faults_test

import "time"

// The race detector makes everything ten times slower.
const (
	defaultHours = 14
	dayLength    = 2 * time.Hour
)
