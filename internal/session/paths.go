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

// RequireRoot refuses what is of one root for a write below another. Another connection has another session, which cannot
// guard the write. With another root, a path is another node. The caller puts a subject before the error.
func RequireRoot(of, write zkrecipes.Root) error {
	if of == write {
		return nil
	}
	return fmt.Errorf("is of a client of %s, and the write of one of %s: want one client with one root", of, write)
}

// ValidatePath does what package conn says.
//
// Source: PathUtils.validatePath of ZooKeeper, which looks at UTF-16 units.
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

// ValidateName returns the error of a text that cannot be the name of a node. What says what the name is for.
func ValidateName(what, name string) error {
	switch {
	case name == "":
		return fmt.Errorf("the %s is empty: want the name of a node", what)
	case strings.Contains(name, "/"), !utf8.ValidString(name), ValidatePath("/"+name) != nil:
		return fmt.Errorf("%s %q: want the name of a node, which is valid UTF-8 without a slash or control characters, and neither \".\" nor \"..\"", what, name)
	}
	return nil
}

// want returns the valid path that comes nearest to p, or what a path looks like.
func want(p string) string {
	if clean := path.Clean("/" + p); clean != "/" && ValidatePath(clean) == nil {
		return clean
	}
	return "an absolute path such as /app/lock"
}
