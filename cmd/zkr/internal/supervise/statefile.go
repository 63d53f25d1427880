package supervise

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/bootclock"
)

// stateFile is the private file that tells a command how long its lock is proven. Its directory is private, too.
type stateFile struct{ dir string }

// State is what is in the file. Until is on the boot clock, so that no reader trusts a wall clock.
type State struct {
	Until time.Duration `json:"valid_until_boot_ns"`
	Token string        `json:"token"`
	Path  string        `json:"path"`
}

func newStateFile() (*stateFile, error) {
	dir, err := os.MkdirTemp("", "zkr-") // with mode 0700
	if err != nil {
		return nil, fmt.Errorf("make the directory for ZKR_STATE: %w", err)
	}
	return &stateFile{dir}, nil
}

func (f *stateFile) path() string { return filepath.Join(f.dir, "state") }

// write replaces the file at once, so that a reader sees the old or the new one.
func (f *stateFile) write(s State) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	next := filepath.Join(f.dir, "next")
	if err := os.WriteFile(next, text, 0o600); err != nil {
		return err
	}
	return os.Rename(next, f.path())
}

// lost removes the file: the lock is not proven any more.
func (f *stateFile) lost() { _ = os.Remove(f.path()) }

func (f *stateFile) remove() { _ = os.RemoveAll(f.dir) }

// ReadState reads the file. A missing file is a lost lock.
func ReadState(path string) (s State, held bool, err error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return State{}, false, nil
	}
	if err != nil {
		return State{}, false, err
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return State{}, false, fmt.Errorf("%s: %w", path, err)
	}
	return s, bootclock.Now() < s.Until, nil
}
