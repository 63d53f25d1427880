//go:build race

package chaos_test

import "time"

// short is shorter under the race detector, which sees the run but not the clients, because they are separate programs.
const short = 30 * time.Second
