package supervise

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/bootclock"
)

// stateFile is the private file, in a private directory, from which a program reads how long its lock is proven. It
// contains a single record, which is overwritten in place, so that a full disk has room for it. A separate goroutine
// writes it, so that a hanging disk delays nothing. The guard of the program creates both, so that they never exist
// without a guard that removes them if zkr is killed.
type stateFile struct {
	dir    string
	made   os.FileInfo // the directory; nil before the first write
	file   *os.File    // nil before the first write
	next   chan State  // the newest state that is not written yet
	failed chan error
	ended  chan struct{}

	warned time.Time
	pause  time.Duration // until the next warning
}

// State is the content of the file. Until is on the boot clock, so that no reader trusts a wall clock; 0 means that the
// lock is lost.
type State struct {
	Until time.Duration `json:"valid_until_boot_ns"`
	Token string        `json:"token"`
	Path  string        `json:"path"`
}

// newStateFile names a file that does not exist yet.
func newStateFile() (*stateFile, error) {
	dir, err := filepath.Abs(filepath.Join(os.TempDir(), "zkr-"+rand.Text()))
	if err != nil {
		return nil, err
	}
	f := &stateFile{dir: dir, next: make(chan State, 1), failed: make(chan error, 1), ended: make(chan struct{})}
	go f.keep()
	return f, nil
}

func (f *stateFile) path() string { return filepath.Join(f.dir, "state") }

// keep writes each state that it receives, until close.
func (f *stateFile) keep() {
	defer close(f.ended)
	for s := range f.next {
		if err := f.write(s); err != nil {
			select {
			case f.failed <- err:
			default: // an error is already pending
			}
		}
	}
	f.remove()
}

// tell passes a state to the writer. If writes have failed, it returns an error to warn about: at the first failure,
// and then less and less often.
func (f *stateFile) tell(s State) error {
	select {
	case <-f.next: // an older one
	default:
	}
	f.next <- s
	select {
	case err := <-f.failed:
		if time.Since(f.warned) < f.pause {
			return nil
		}
		f.warned, f.pause = time.Now(), min(max(2*f.pause, time.Second), 10*time.Minute)
		return err
	default:
		return nil
	}
}

// write overwrites the record in place. If a cleaner of old files has removed the file, write creates it again.
func (f *stateFile) write(s State) error {
	text, err := s.record()
	if err != nil {
		return err
	}
	there, _ := os.Lstat(f.path()) // nil if the file does not exist
	if own, err := f.file.Stat(); err != nil || !os.SameFile(there, own) {
		if err := f.open(); err != nil {
			return err
		}
	}
	_, err = f.file.WriteAt(text, 0)
	return err
}

// open opens a new file in the directory, which it creates again if it is gone. A different directory in its place
// belongs to another user.
func (f *stateFile) open() error {
	switch err := os.Mkdir(f.dir, 0o700); {
	case err == nil:
		if f.made, err = os.Lstat(f.dir); err != nil {
			return err
		}
	case !errors.Is(err, fs.ErrExist):
		return err
	}
	now, err := os.Lstat(f.dir)
	if f.made == nil {
		f.made = now // the guard's
	}
	if err != nil || !os.SameFile(now, f.made) {
		return fmt.Errorf("%s is now another directory: remove it", f.dir)
	}
	file, err := os.OpenFile(f.path(), os.O_RDWR|os.O_CREATE, 0o600) // the record has the same length
	if err != nil {
		return err
	}
	if f.file != nil {
		_ = f.file.Close() // the file is gone
	}
	f.file = file
	return nil
}

// close ends the writer, which removes the file. wait waits for that, for at most half a second.
func (f *stateFile) close() { close(f.next) }

func (f *stateFile) wait() {
	select {
	case <-f.ended:
	case <-time.After(500 * time.Millisecond):
	}
}

func (f *stateFile) remove() {
	if f.file != nil {
		_ = f.file.Close() // about to be removed
	}
	_ = os.RemoveAll(f.dir) // if this fails, it stays
}

// record returns a checksum followed by the state, padded so that all records of a lock have the same length.
func (s State) record() ([]byte, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	s.Until = math.MaxInt64
	longest, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	text = append(text, bytes.Repeat([]byte(" "), len(longest)-len(text))...)
	return fmt.Appendf(nil, "%08x %s", crc32.ChecksumIEEE(text), text), nil
}

// parse returns false if the record is not complete.
func parse(record []byte) (s State, whole bool) {
	sum, text, _ := bytes.Cut(record, []byte(" "))
	if string(sum) != fmt.Sprintf("%08x", crc32.ChecksumIEEE(text)) {
		return s, false
	}
	return s, json.Unmarshal(text, &s) == nil
}

// ReadState reads the file. If it returns an error, nothing is known about the lock.
func ReadState(path string) (s State, held bool, err error) {
	for range 20 { // zkr may be writing the record
		text, err := os.ReadFile(path)
		if err != nil {
			return State{}, false, err
		}
		if s, whole := parse(text); whole {
			return s, bootclock.Now() < s.Until, nil
		}
		time.Sleep(5 * time.Millisecond)
	}
	return State{}, false, fmt.Errorf("%s has no complete record", path)
}
