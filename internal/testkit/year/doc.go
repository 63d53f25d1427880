// Package year only has a test, which simulates a year in virtual time: sessions, reconnects and expiries. It checks
// that memory, goroutines, watches and nodes stay what they were after the first days.
package year
