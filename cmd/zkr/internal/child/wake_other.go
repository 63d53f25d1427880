//go:build unix && !linux

package child

import "os"

// wakeAtEnd does nothing here: a process that is stopped stays so.
func wakeAtEnd(*os.File) error { return nil }
