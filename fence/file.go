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
	"strings"
	"time"

	"github.com/zkrecipes/zkrecipes"
)

// ErrInUse is returned when another [File], of this process or another, had the file open for as long as [OpenFile]
// waited.
var ErrInUse = errors.New("fence file in use")

// errZeroFile is returned by the methods of a zero File, which would otherwise wait forever for a turn.
var errZeroFile = fmt.Errorf("%w: the File is not open: use OpenFile", ErrInvalid)

// The log is rewritten when it has more than rewriteFrom records, and more than rewriteEach for each resource.
const (
	rewriteFrom = 1000
	rewriteEach = 4
)

// File is a [Store] in a file on a local disk: a token that was admitted stays admitted across crashes of the process
// and of the machine. The file is a log of text lines, one for each raise, which is rewritten from time to time.
//
// A raise takes one write and one fsync, while presenting a token again, or a stale one, takes neither. Raises are
// serialized. After a disk error every call fails until you reopen the file, because it is unknown what reached the
// disk.
//
// # Several processes
//
// A File has exclusive use of the file while it is open. If only one process needs it, open it once and keep it open.
// If several processes on one machine need it, each must open it for one section at a time: open, [Gate.Admit], read or
// write what the lock protects, Close. That also makes the check and the access one step, because no other process is
// admitted in between. Waiting is not fair, and a process that is suspended in such a section blocks the others until
// it resumes or is killed, in which case the system closes the file.
//
// # Files and permissions
//
// In the same directory, a File has a lock file, which is never removed and whose name ends in ".lock", and
// temporarily a file whose name ends in ".tmp". New files belong to the process's user and have mode 0600. On Unix an
// existing file keeps its owner, group and mode bits, and its lock file gets the same; OpenFile fails if the process
// may not keep them because it is neither the owner nor root. Access control lists and labels are not kept. OpenFile
// follows symbolic links at path, but not at the other two names.
//
// If the file is deleted, the fence forgets its tokens, and if the lock file is deleted, two processes can open the
// file at the same time. A hard link or a copy becomes a separate fence. Do not use a File on a network file system
// whose locks or fsync are only local.
type File struct {
	path string
	lock *os.File
	// turn is a mutex that supports waiting with a context: it holds one value while it is free. It guards the fields
	// below.
	turn    chan struct{}
	log     *os.File
	records int // in the log
	highest map[string]zkrecipes.Token
	err     error // once set, returned by every call
}

// OpenFile opens or creates the store at path, whose directory must exist. If another File has it open, OpenFile waits
// until that File is closed or ctx is done. If a crash left an unfinished record at the end of the file, OpenFile drops
// it, because it was never acknowledged.
//
// Errors: context.Cause(ctx), with [ErrInUse] if another File has the file open; [ErrInvalid] for a path that is empty,
// or ends in ".lock" or ".tmp", because it may belong to another File; errors of the file system; or [ErrCorrupt] if the
// file is damaged in any other way, or is not a regular file. An operator has to resolve the last one, because a fence
// that forgets protects nothing.
func OpenFile(ctx context.Context, path string) (*File, error) {
	f := &File{turn: make(chan struct{}, 1)}
	if err := f.open(ctx, path); err != nil {
		return nil, fmt.Errorf("open fence file: %w", errors.Join(err, f.closeFiles()))
	}
	f.turn <- struct{}{}
	return f, nil
}

func (f *File) open(ctx context.Context, path string) (err error) {
	switch {
	case ctx == nil:
		return fmt.Errorf("%w: the context is nil", ErrInvalid)
	case path == "":
		return fmt.Errorf("%w: the path is empty", ErrInvalid)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	if f.path, err = filepath.Abs(path); err != nil {
		return err
	}
	if f.path, err = resolve(f.path); err != nil {
		return err
	}
	if suffix := strings.ToLower(filepath.Ext(f.path)); suffix == ".lock" || suffix == ".tmp" {
		return fmt.Errorf("%w: %s ends in %s, so it may belong to another fence file", ErrInvalid, f.path, suffix)
	}
	if info, err := os.Stat(f.path); err == nil && !info.Mode().IsRegular() { // to open a named pipe may block forever
		return fmt.Errorf("%w: %s is not a regular file", ErrCorrupt, f.path)
	}
	if err := f.awaitLock(ctx); err != nil {
		return err
	}
	if err := f.keepAccess(f.lock); err != nil {
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
	return f.rewrite() // drops an unfinished record, and fails if the location is not writable
}

// awaitLock polls, because the system call that waits for a lock cannot be canceled by a context.
func (f *File) awaitLock(ctx context.Context) (err error) {
	const shortest, longest = time.Millisecond, 20 * time.Millisecond
	for pause := shortest; ; pause = min(2*pause, longest) {
		if f.lock, err = lockFile(f.path + ".lock"); !errors.Is(err, ErrInUse) {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", err, context.Cause(ctx))
		}
	}
}

// keepAccess gives a file the owner, group and mode bits of the log, if there is one.
func (f *File) keepAccess(to *os.File) error {
	from, err := os.Stat(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = copyAccess(from, to)
	}
	if err != nil {
		return fmt.Errorf("preserve owner and mode of %s: %w", f.path, err)
	}
	return nil
}

// resolve returns the path to which symbolic links lead, even if there is no file there yet, so that one file has
// one lock.
func resolve(path string) (string, error) {
	const most = 40 // as on Linux
	for range most {
		dir, name := filepath.Split(path)
		dir, err := filepath.EvalSymlinks(dir)
		if err != nil {
			return "", err
		}
		path = filepath.Join(dir, name)
		target, err := os.Readlink(path)
		if err != nil { // not a link, or it does not exist
			return path, nil //nolint:nilerr // opening the file reports any problem
		}
		if !filepath.IsAbs(target) {
			target = dir + string(filepath.Separator) + target // not Join: ".." depends on the links before it
		}
		path = target
	}
	return "", fmt.Errorf("%s: more than %d symbolic links", path, most)
}

// Raise implements [Store]. If ctx is done while other raises are in progress, Raise gives up, but a write that has
// begun is not interrupted.
//
// Errors: [os.ErrClosed], context.Cause(ctx), or an error of the file system.
func (f *File) Raise(ctx context.Context, resource string, t zkrecipes.Token) (zkrecipes.Token, error) {
	if ctx == nil {
		return 0, fmt.Errorf("%w: the context is nil", ErrInvalid)
	}
	if f.turn == nil {
		return 0, errZeroFile
	}
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
		f.err = fmt.Errorf("fence file: unusable until it is reopened: %w", err)
		return 0, f.err
	}
	return t, nil
}

// Close waits for a raise in progress, and then releases the file to others. It is idempotent, and later raises fail
// with [os.ErrClosed].
//
// Errors: those of the file system, in which case everything raised so far is still kept.
func (f *File) Close() error {
	if f.turn == nil {
		return errZeroFile
	}
	<-f.turn
	defer func() { f.turn <- struct{}{} }()
	f.err = fmt.Errorf("fence file: %w", os.ErrClosed)
	return f.closeFiles()
}

// append makes the record durable before it changes highest, so that a crash cannot take back an admission.
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

// rewrite replaces the log with one that has only the live records, entirely or not at all: the new log is on disk
// before it gets the name, and the name is on disk before anything is appended.
func (f *File) rewrite() error {
	content := []byte(header)
	for _, resource := range slices.Sorted(maps.Keys(f.highest)) {
		content = append(content, record(resource, f.highest[resource])...)
	}
	tmp := f.path + ".tmp"
	file, err := createNew(tmp)
	if err != nil {
		return err
	}
	if err := errors.Join(f.keepAccess(file), writeSynced(file, content)); err != nil {
		return err
	}
	if f.log != nil { // Windows renames nothing onto an open file
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

// writeSynced writes content, syncs the file and closes it.
func writeSynced(file *os.File, content []byte) error {
	_, err := file.Write(content)
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// createNew creates a file, and replaces one that a crash has left at path. It never opens an existing file, which
// may be a link that another user has put into a shared directory, to a file that only this process may write.
func createNew(path string) (*os.File, error) {
	create := func() (*os.File, error) { return os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600) }
	file, err := create()
	if !errors.Is(err, fs.ErrExist) {
		return file, err
	}
	if there, e := os.Lstat(path); e == nil && there.IsDir() {
		return nil, err // Remove would also delete an empty directory
	}
	if err := os.Remove(path); err != nil {
		return nil, err
	}
	return create()
}

// syncDir makes a rename in dir durable. Windows has no such call, and its renames need none.
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
