//go:build race

package faults_test

import "time"

// The detector makes everything ten times as dear.
const (
	defaultHours = 14
	dayLength    = 2 * time.Hour
)
