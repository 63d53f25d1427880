//go:build !race

package chaos_test

import "time"

// short is how long the form of `go test` takes.
const short = 2 * time.Minute
