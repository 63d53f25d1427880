//go:build race

package chaos_test

import "time"

// short is less under the race detector, which looks at the run, not at its clients: those are programs of their own.
const short = 30 * time.Second
