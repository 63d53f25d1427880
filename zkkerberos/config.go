package zkkerberos

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/jcmturner/gokrb5/v8/config"
)

func environmentConfig() string { return cmp.Or(os.Getenv("KRB5_CONFIG"), "/etc/krb5.conf") }

// readConfig reads the configuration from files, whose names are separated by colons, as MIT's library does. gokrb5
// does not support the directive that includes another file, and uses the last of two sections with the same name.
func readConfig(names string) (*config.Config, error) {
	s := sections{lines: map[string][]string{}}
	var skipped []error
	list := filepath.SplitList(names)
	for _, name := range list {
		switch err := s.read(name, 0); {
		case unavailable(name, err) && len(skipped) < len(list)-1:
			skipped = append(skipped, err)
		case err != nil:
			return nil, fmt.Errorf("krb5.conf: %w", errors.Join(append(skipped, err)...))
		}
	}
	slices.Reverse(s.lines["libdefaults"]) // the first of two values counts, but gokrb5 uses the last
	var text strings.Builder
	for name, lines := range s.lines {
		fmt.Fprintf(&text, "[%s]\n%s\n", name, strings.Join(lines, "\n"))
	}
	c, err := config.NewFromString(text.String())
	// An unsupported directive is one of version 4.
	if unsupported := (config.UnsupportedDirective{}); err != nil && !errors.As(err, &unsupported) {
		return nil, fmt.Errorf("krb5.conf %s: %w", names, err)
	}
	return c, nil
}

// unavailable reports whether err means that the file of this name, not one that it includes, is missing or cannot be
// read. MIT's library skips such files, unless all of them are.
//
// Source: profile_init_flags.
func unavailable(name string, err error) bool {
	var failed *fs.PathError
	return errors.As(err, &failed) && failed.Path == name &&
		(errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission))
}

// sections has the lines of a configuration by the name of their section.
type sections struct {
	lines map[string][]string
}

// mostIncludes is the maximum depth of includes.
const mostIncludes = 10

func (s *sections) read(file string, depth int) error {
	if depth > mostIncludes {
		return fmt.Errorf("%s: more than %d files include each other", file, mostIncludes)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	section := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		switch words := strings.Fields(line); {
		case len(words) == 2 && words[0] == "include":
			err = s.read(words[1], depth+1)
		case len(words) == 2 && words[0] == "includedir":
			err = s.readAll(words[1], depth+1)
		case strings.HasPrefix(line, "["):
			section = strings.Trim(line, "[]* \t")
		default:
			s.lines[section] = append(s.lines[section], line)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// included matches the names of files that includedir reads.
var included = regexp.MustCompile(`^[A-Za-z0-9_-]+$|^[^.].*\.conf$`)

func (s *sections) readAll(dir string, depth int) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	entries = slices.DeleteFunc(entries, func(e os.DirEntry) bool { return e.IsDir() || !included.MatchString(e.Name()) })
	for _, e := range entries {
		if err := s.read(filepath.Join(dir, e.Name()), depth); err != nil {
			return err
		}
	}
	return nil
}
