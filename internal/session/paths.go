package session

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
)

// ValidatePath reports why path cannot name a znode: it must be absolute, without a trailing slash, without empty, "."
// or ".." parts, and without control characters. The root "/" is valid.
func ValidatePath(path string) error {
	switch {
	case path == "":
		return errors.New("path is empty: want an absolute path such as /app/lock")
	case path[0] != '/':
		return fmt.Errorf("path %q is relative: want an absolute path such as /%s", path, path)
	case path == "/":
		return nil
	case strings.HasSuffix(path, "/"):
		return fmt.Errorf("path %q ends with a slash", path)
	}
	for part := range strings.SplitSeq(path[1:], "/") {
		if part == "" || part == "." || part == ".." {
			return fmt.Errorf("path %q has an empty, \".\" or \"..\" part", path)
		}
	}
	for _, r := range path {
		if unicode.IsControl(r) || r == unicode.ReplacementChar || r >= 0xE000 && r <= 0xF8FF || r >= 0xFFF0 && r <= 0xFFFF {
			return fmt.Errorf("path %q has a character that ZooKeeper refuses", path)
		}
	}
	return nil
}
