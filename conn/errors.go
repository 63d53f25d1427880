package conn

import "github.com/zkrecipes/zkrecipes/internal/paths"

// ValidatePath reports why path cannot name a znode, and what a valid path would be. A valid path is absolute and has
// no trailing slash, and none of its parts is empty, "." or "..". It has no control, private or special characters, and
// none above U+FFFF, such as emoji. The root "/" is valid.
func ValidatePath(path string) error { return paths.Validate(path) }
