package fence

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/zkrecipes/zkrecipes"
)

// ErrInUse says that another [File], of this process or another, has the file open.
var ErrInUse = errors.New("fence file in use")

// The log is rewritten when it has more records than this, and more than this many for each resource.
const (
	rewriteFrom = 1000
	rewriteEach = 4
)

// File is a [Store] in a file on a local disk. An admitted token stays recorded across crashes of the process and of
// the machine. The file is a log of text lines, one for each raise. File rewrites it from time to time.
//
// A raise costs one write and one fsync. A known or stale token costs neither. Raises wait for each other. After a disk
// error every call fails until the file is opened again, because the content of the disk is unknown.
//
// Beside the file there is always a lock file, with the suffix ".lock", and sometimes one with the suffix ".tmp". If
// the file is deleted, the fence forgets. Do not use a network file system whose locks or fsync are only local.
type File struct {
	path string
	lock *os.File
	// turn holds one value when the fields below are free. It is a mutex with a context.
	turn    chan struct{}
	log     *os.File
	records int // in the log
	highest map[string]zkrecipes.Token
	err     error // once set, the answer to every call
}

// OpenFile opens or creates the store at path. Its directory must exist. It drops an unfinished record at the end: a
// crash left it, and it was never acknowledged.
//
// Errors: [ErrInUse]; [ErrInvalid] for an empty path; [ErrCorrupt] if the file is damaged in another way; errors of the
// file system. An operator must decide about a damaged file, because a fence that forgets protects nothing.
func OpenFile(path string) (*File, error) {
	f := &File{turn: make(chan struct{}, 1)}
	if err := f.open(path); err != nil {
		return nil, fmt.Errorf("open fence file: %w", errors.Join(err, f.closeFiles()))
	}
	f.turn <- struct{}{}
	return f, nil
}

func (f *File) open(path string) (err error) {
	if path == "" {
		return fmt.Errorf("%w: the path is empty", ErrInvalid)
	}
	if f.path, err = filepath.Abs(path); err != nil {
		return err
	}
	// One lock for each file, whatever links lead to it.
	if target, err := filepath.EvalSymlinks(f.path); err == nil {
		f.path = target
	}
	if f.lock, err = lockFile(f.path + ".lock"); err != nil {
		return err
	}
	content, err := os.ReadFile(f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f.highest = make(map[string]zkrecipes.Token)
	case err != nil:
		return err
	default:
		if f.highest, err = replay(content); err != nil {
			return fmt.Errorf("%s: %w", f.path, err)
		}
	}
	return f.rewrite() // drops the unfinished record, and shows that the directory is writable
}

// Raise implements [Store]. The context bounds the wait for other raises, not the write. Errors: [os.ErrClosed], the
// cause of ctx, errors of the file system.
func (f *File) Raise(ctx context.Context, resource string, t zkrecipes.Token) (zkrecipes.Token, error) {
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	select {
	case <-f.turn:
		defer func() { f.turn <- struct{}{} }()
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	if f.err != nil {
		return 0, f.err
	}
	if highest := f.highest[resource]; highest >= t {
		return highest, nil
	}
	if err := f.append(resource, t); err != nil {
		f.err = fmt.Errorf("fence file: open it again after: %w", err)
		return 0, f.err
	}
	return t, nil
}

// Close closes the file, so that other processes can open it. It waits for a running raise and is idempotent. Every
// later call returns [os.ErrClosed].
func (f *File) Close() error {
	<-f.turn
	defer func() { f.turn <- struct{}{} }()
	f.err = fmt.Errorf("fence file: %w", os.ErrClosed)
	return f.closeFiles()
}

// append makes the token durable before highest shows it. So a crash never takes an admission back.
func (f *File) append(resource string, t zkrecipes.Token) error {
	if _, err := f.log.Write(record(resource, t)); err != nil {
		return err
	}
	if err := f.log.Sync(); err != nil {
		return err
	}
	f.highest[resource] = t
	f.records++
	if f.records > max(rewriteFrom, rewriteEach*len(f.highest)) {
		return f.rewrite()
	}
	return nil
}

// rewrite replaces the log by one with the live records only, as a whole or not at all. The new log is on disk before
// it gets the name. The name is on disk before anything is appended.
func (f *File) rewrite() error {
	content := []byte(header)
	for _, resource := range slices.Sorted(maps.Keys(f.highest)) {
		content = append(content, record(resource, f.highest[resource])...)
	}
	tmp := f.path + ".tmp"
	if err := writeSynced(tmp, content); err != nil {
		return err
	}
	if f.log != nil { // Windows cannot rename onto an open file
		if err := f.log.Close(); err != nil {
			return err
		}
	}
	if err := os.Rename(tmp, f.path); err != nil {
		return err
	}
	if err := syncDir(filepath.Dir(f.path)); err != nil {
		return err
	}
	var err error
	f.log, err = os.OpenFile(f.path, os.O_APPEND|os.O_WRONLY, 0)
	f.records = len(f.highest)
	return err
}

func (f *File) closeFiles() (err error) {
	for _, file := range []*os.File{f.log, f.lock} {
		if file == nil {
			continue
		}
		if e := file.Close(); e != nil && !errors.Is(e, os.ErrClosed) {
			err = errors.Join(err, e)
		}
	}
	return err
}

func writeSynced(path string, content []byte) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// syncDir makes a rename in dir durable. Windows has no such call and needs none.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
