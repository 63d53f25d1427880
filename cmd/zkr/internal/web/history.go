package web

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/survey"
)

// history keeps the changes in a file, one per line, so that the next zkr has them.
type history struct {
	path  string
	file  *os.File // if nil, the next change creates the file again
	lines int
}

// openHistory reads the changes in a file and rewrites the file, since its last line may be broken. A missing file
// contains none.
func openHistory(path string) (*history, changes, error) {
	var c changes
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, c, fmt.Errorf("%s: want a regular file, not %v", path, info.Mode())
	}
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, c, err
	}
	var list []change
	for line := range bytes.Lines(text) {
		var one change
		if json.Unmarshal(line, &one) == nil {
			list = append(list, one)
		}
	}
	if text := bytes.TrimSpace(text); len(text) > 0 && len(list) == 0 {
		return nil, c, fmt.Errorf("%s was not written by zkr serve: choose another file", path)
	}
	h := &history{path: path}
	c = c.with(list...)
	return h, c, h.add(c, nil)
}

// add appends fresh changes. It rewrites the file with all changes if that failed before, or if the file has grown too
// large.
func (h *history) add(all changes, fresh []change) error {
	if h.file != nil && h.lines+len(fresh) <= 4*keptChanges {
		return h.write(h.file, fresh)
	}
	h.close()
	file, err := os.CreateTemp(filepath.Dir(h.path), "."+filepath.Base(h.path)+"-*")
	if err != nil {
		return err
	}
	h.lines = 0
	if err = errors.Join(h.write(file, all.kept), file.Close()); err == nil {
		err = os.Rename(file.Name(), h.path)
	}
	if err != nil {
		_ = os.Remove(file.Name()) // the incomplete file is useless
		return err
	}
	h.file, err = os.OpenFile(h.path, os.O_APPEND|os.O_WRONLY, 0)
	return err
}

// write appends changes to a file. After an error, the file will be rewritten.
func (h *history) write(file io.Writer, list []change) error {
	out := bufio.NewWriter(file)
	for _, one := range list {
		text, err := survey.JSON(one)
		if err != nil {
			return err
		}
		_, _ = out.Write(append(text, '\n')) // Flush returns the error
	}
	err := out.Flush()
	if err != nil {
		h.close()
	}
	h.lines += len(list)
	return err
}

func (h *history) close() {
	if h.file != nil {
		_ = h.file.Close() // what was written is in the file
		h.file = nil
	}
}
