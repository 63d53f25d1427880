// Package faults tests all recipes under faults, in virtual time. It contains only tests.
//
// A script (TestF...) injects one fault at a known moment into each recipe, through a common interface, and states the
// result to the nanosecond: the network of the bubble takes no time, so a grant that is one nanosecond late is an
// error. TestEveryStep injects each kind of fault at each request of an acquisition. TestRandom runs storms of faults
// from seeds; after a storm it ends all faults, and requires that every waiter is served within three session timeouts.
// After every test these rules must hold:
//
//	U1  no two holds that exclude each other overlapped in virtual time, and grants followed the queue
//	U2  the resource behind a fence lost no update (random schedules)
//	U3  every waiter is served
//	U4  no node is left below the queue while all clients live
//	U5  no goroutine is left (the bubble checks this), and the number of watches does not grow
//	U6  no call outlives its context (random schedules)
//
// TestRandom plays three seeds an hour, starting at 1. By default each recipe gets fifteen of them; "make nightly
// PART=virtual" runs more.
//
// TestHandOver has crowds hand a lock over under such storms, in thousands of short sections. It judges each grant by
// the log of the server: who was ahead, and which contenders were deleted by hand. "make relays" runs millions of
// grants, and prints how many overlaps it excused, by fault.
//
// Flags run more schedules (-hours), run one schedule again (-seeds), and print its faults (-storm):
//
//	go test ./internal/testkit/faults -run TestRandom -hours 10000 -timeout 0
//
// docs/design.md explains the F numbers in the names of tests, and lists where each fault is tested.
package faults
