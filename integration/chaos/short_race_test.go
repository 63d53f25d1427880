//go:build race

package chaos_test

import "time"

// short is shorter under the race detector. The detector sees the run, not the clients, which are separate programs.
const short = 30 * time.Second
