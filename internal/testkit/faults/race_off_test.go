//go:build !race

package faults_test

import "time"

// How much the tests run by default.
const (
	defaultHours = 35
	dayLength    = 24 * time.Hour
)
