// Package year has no code of its own. Its test lives through a year in virtual time: sessions, reconnects and expiries. It
// checks that memory, goroutines, watches and nodes stay what they were after the first days.
package year
