// Package paths validates paths and translates them between a client and its servers.
package paths

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Parent returns the parent of a path, which must be absolute and not the root.
func Parent(p string) string { return p[:max(strings.LastIndexByte(p, '/'), 1)] }

// Check returns the error of an operation on an invalid path.
func Check(op, p string) error {
	if err := Validate(p); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	return nil
}

// Validate implements conn.ValidatePath.
//
// Source: ZooKeeper's PathUtils.validatePath, which examines UTF-16 units.
func Validate(p string) error {
	switch {
	case p == "":
		return errors.New("path is empty: want " + want(p))
	case p[0] != '/':
		return fmt.Errorf("path %q is relative: want %s", p, want(p))
	case p == "/":
		return nil
	case strings.HasSuffix(p, "/"):
		return fmt.Errorf("path %q ends with a slash: want %s", p, want(p))
	}
	for part := range strings.SplitSeq(p[1:], "/") {
		if part == "" || part == "." || part == ".." {
			return fmt.Errorf("path %q has an empty, \".\" or \"..\" part: want %s", p, want(p))
		}
	}
	for _, r := range p {
		if unicode.IsControl(r) || r >= 0xE000 && r <= 0xF8FF || r >= 0xFFF0 { // above U+FFFF Java sees surrogates
			return fmt.Errorf("path %q has a character that ZooKeeper does not allow", p)
		}
	}
	return nil
}

// ValidateName returns an error if name cannot be the name of a node. In the error, the what argument describes the
// purpose of the name.
func ValidateName(what, name string) error {
	switch {
	case name == "":
		return fmt.Errorf("the %s is empty: want the name of a node", what)
	case strings.Contains(name, "/"), !utf8.ValidString(name), Validate("/"+name) != nil:
		return fmt.Errorf(
			"%s %q: want the name of a node, which is valid UTF-8 without a slash or control characters, "+
				"and neither \".\" nor \"..\"",
			what, name,
		)
	}
	return nil
}

// want returns the valid path closest to p, or what a path looks like.
func want(p string) string {
	if clean := path.Clean("/" + p); clean != "/" && Validate(clean) == nil {
		return clean
	}
	return "an absolute path such as /app/lock"
}
