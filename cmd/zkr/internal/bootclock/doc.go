// Package bootclock is the clock by which zkr, its guard and its programs compare deadlines. It runs on while the machine is
// suspended, and it is the same in all processes.
package bootclock
