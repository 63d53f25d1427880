// Package overlay replaces files for one build, with go build -overlay. Nothing on disk changes.
package overlay

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
)

// An Edit replaces Old in a file below a root. Old must occur exactly once.
type Edit struct{ File, Old, New string }

// Write applies the edits in order and adds the files with the given texts, all below root. It returns the argument of
// -overlay: a file below dir. Its name adds no spaces to those of dir, because GOFLAGS is split at spaces.
//
// It returns an error if the text of an edit is missing or occurs several times, or if reading or writing a file fails.
func Write(dir, root string, edits []Edit, added map[string][]byte) (spec string, err error) {
	if root, err = filepath.Abs(root); err != nil {
		return "", err
	}
	if dir, err = os.MkdirTemp(dir, "overlay-"); err != nil {
		return "", err
	}
	texts := map[string][]byte{}
	maps.Copy(texts, added)
	for _, e := range edits {
		if texts[e.File] == nil {
			if texts[e.File], err = os.ReadFile(filepath.Join(root, e.File)); err != nil {
				return "", err
			}
		}
		if n := bytes.Count(texts[e.File], []byte(e.Old)); n != 1 {
			return "", fmt.Errorf("%s: want the text to replace once, found it %d times: %q; adapt the edit to the code", e.File,
				n, e.Old)
		}
		texts[e.File] = bytes.Replace(texts[e.File], []byte(e.Old), []byte(e.New), 1)
	}
	replace := map[string]string{}
	for file, text := range texts {
		edited := filepath.Join(dir, fmt.Sprint(len(replace))+".go")
		if err := os.WriteFile(edited, text, 0o644); err != nil {
			return "", err
		}
		replace[filepath.Join(root, file)] = edited
	}
	text, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err != nil {
		return "", err
	}
	spec = filepath.Join(dir, "overlay.json")
	return spec, os.WriteFile(spec, text, 0o644)
}
