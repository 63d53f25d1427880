// Package faults tests all recipes under faults, in virtual time. It contains tests only.
//
// A script (TestF...) injects one fault at a known moment into each recipe, through one interface. It states the result
// to the nanosecond: the network of the bubble takes no time, so a grant that is one nanosecond late is an error.
// TestEveryStep injects each kind of fault at each request of an acquisition. TestRandom runs storms of faults from
// seeds. After a storm it ends all faults and requires that every waiter is served within three session timeouts. These
// rules must hold after every test:
//
//	U1  no two holds that exclude each other overlapped in virtual time, and grants followed the queue
//	U2  the resource behind a fence lost no update (random schedules)
//	U3  every waiter is served
//	U4  no node is left below the queue while all clients live
//	U5  no goroutine is left (the bubble checks this), and the number of watches does not grow
//	U6  no call outlives its context (random schedules)
//
// Flags run more schedules (-hours), run one schedule again (-seeds), and print its faults (-storm):
//
//	go test ./internal/faults -run TestRandom -hours 10000 -timeout 0
//
// # Where each fault is tested
//
// The F numbers are explained in docs/design.md. "Every" means TestEveryStep, "random" means TestRandom. The words
// conn, znode and recipes mean the tests beside that code; integration/chaos runs against real ensembles.
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
//	F14       holder frozen                                  here, as one that does not look; integration/chaos
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
