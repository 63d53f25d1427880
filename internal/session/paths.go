package session

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/zkrecipes/zkrecipes"
)

// RequireRoot returns an error if of, the root of whatever guards or versions a write, is not the root of the write. A
// different connection has a different session, which cannot guard the write. With a different root, a path is a
// different node. The caller puts a subject before the error.
func RequireRoot(of, write zkrecipes.Root) error {
	if of == write {
		return nil
	}
	return fmt.Errorf("is of a client of %s, and the write of one of %s: want one client with one root", of, write)
}

// ValidatePath implements conn.ValidatePath.
//
// Source: ZooKeeper's PathUtils.validatePath, which examines UTF-16 units.
func ValidatePath(p string) error {
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
			return fmt.Errorf("path %q has a character that ZooKeeper refuses", p)
		}
	}
	return nil
}

// ValidateName returns an error for a text that cannot be the name of a node. what describes the purpose of the name.
func ValidateName(what, name string) error {
	switch {
	case name == "":
		return fmt.Errorf("the %s is empty: want the name of a node", what)
	case strings.Contains(name, "/"), !utf8.ValidString(name), ValidatePath("/"+name) != nil:
		return fmt.Errorf(
			"%s %q: want the name of a node, which is valid UTF-8 without a slash or control characters, and neither \".\" nor \"..\"",
			what, name,
		)
	}
	return nil
}

// want returns the valid path closest to p, or what a path looks like.
func want(p string) string {
	if clean := path.Clean("/" + p); clean != "/" && ValidatePath(clean) == nil {
		return clean
	}
	return "an absolute path such as /app/lock"
}
