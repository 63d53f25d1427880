// Package bootclock provides the clock by which zkr, its guard and its programs compare deadlines. The clock advances
// while the machine is suspended and is the same in all processes.
package bootclock
