//go:build !race

package chaos_test

import "time"

// short is the duration under plain `go test`.
const short = 2 * time.Minute
