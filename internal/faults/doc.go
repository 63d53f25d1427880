// Package faults has the tests of all recipes under faults, in virtual time. It is tests only.
//
// Scripts (TestF...) inject one fault at a known moment into each recipe through one interface, and say what comes of
// it to the instant: the network of the bubble takes no time, so a grant that comes late by a nanosecond is an error.
// TestEveryStep strikes an acquisition at each of its requests with each kind of blow. TestRandom runs storms of faults
// from seeds, and then asks for calm: everybody is served within three session timeouts. After each of them hold:
//
//	U1  no two holds that exclude each other have overlapped, by virtual time, and grants went by the queue
//	U2  the resource behind a fence has lost no update (random schedules)
//	U3  everybody who waits is served
//	U4  nothing is left below the queue, while all clients live
//	U5  no goroutine is left (the bubble checks), and watches do not grow
//	U6  no call outlives its context by an instant (random schedules)
//
// Run more of it with -hours, one schedule again with -seeds, and see its faults with -storm:
//
//	go test ./internal/faults -run TestRandom -hours 10000 -timeout 0
//
// # Where each fault is tested
//
// F numbers are those of the design's list of faults. "Every" is TestEveryStep, "random" the storms; conn, znode and
// recipes are the tests beside that code, and integration/chaos is against real ensembles.
//
//	F1, F2    create lost, before or after it is applied     here, every, random, znode
//	F3        F2, then the session expires                   here, znode
//	F4        F2, then the caller goes                       here, znode
//	F5        raw errors of the library are ambiguous        conn
//	F6, F7    delete lost, before or after it is applied     here, every, random
//	F8        release while cut off for good                 here, znode
//	F9        waiter expires                                 here, every, random
//	F10       holder expires, or is cut off                  here, every, random
//	F11       expires between create and list                here, every
//	F12       expires on the way to the grant                here, every
//	F13       ensemble down for long, sessions armed again   here, random
//	F14       holder frozen                                  here, also a real process; integration/chaos
//	F15       waiter away for long                           here, random
//	F16, F17  holder, waiter cut off for short               here, random
//	F18, F19  one direction lost                             here, random
//	F20, F21  leader killed, replaced, minority              integration/chaos, integration/lease: they take an ensemble
//	F22       all servers down for short, dial rate          here, random
//	F23       server lags behind                             here, as far as one server can
//	F24       session moved                                  conn; it takes two servers
//	F25, F26  parent reaped                                  here, every, random
//	F27       everything deleted                             here, every, random
//	F28, F29  node of the holder, of a waiter deleted        here, every, random
//	F30       predecessor gone before it is watched          here, znode
//	F31       chain of predecessors gone                     here
//	F32       foreign children                               here, znode
//	F33       not allowed to create, list, delete            here
//	F34       credentials refused                            conn
//	F35       quota                                          here
//	F36       payload too large                              here, conn
//	F37       list longer than 1 MiB                         here; ten thousand waiters in znode
//	F38       sequence numbers exhausted                     here, znode
//	F39       server refuses                                 here
//	F40       throttled, timed out, marshalling              here, every, random
//	F41       wall clock jumps                               not testable in a bubble: all times are monotonic there
//	F42       event channel not drained                      conn: it uses callbacks alone
//	F43       callback blocks or panics                      here for elections, recipes for Do
//	F44       context ends at each step                      every, random, here for releases
//	F45       closed at each step                            every, random, here
//	F46       names that do not resolve                      conn
//	F47       foreign node with our GUID                     here, znode
//	F48       released twice, nested, concurrently           here, recipes
//	F49       request runs in the next session               conn
//	F50       slow server                                    here, random
//	F51       another timeout negotiated                     here
//	F52       read-write lock                                here, recipes
//	F53       semaphore                                      here, recipes
//	F54       election                                       here, recipes
//	F55       spurious events                                here, random
//	F56       no events                                      here, random
package faults
