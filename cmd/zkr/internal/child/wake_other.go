//go:build unix && !linux

package child

import "os"

// wakeAtEnd does nothing on these systems: a stopped process stays stopped.
func wakeAtEnd(*os.File) error { return nil }
