package fence

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
)

// inUse asserts that a call waits until its context ends. It is for tests outside of bubbles.
func inUse(t *testing.T, path string, why ...any) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := OpenFile(ctx, path)
		require.ErrorIs(t, err, ErrInUse, why...)
		require.ErrorIs(t, err, context.DeadlineExceeded, why...)
	})
}

func openFile(t *testing.T, path string) *File {
	t.Helper()
	f, err := OpenFile(t.Context(), path)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, f.Close()) })
	return f
}

func raise(t *testing.T, f *File, resource string, token, highest zkrecipes.Token) {
	t.Helper()
	got, err := f.Raise(t.Context(), resource, token)
	require.NoError(t, err)
	require.Equal(t, highest, got)
}

// odd is a resource name that would break a careless log.
const odd = "a \"name\"\nwith 00000000 1 \"lines\" \x00\xff é"

// The fence at the shorter path overwrote the other one, which then forgot its tokens.
func TestOpenFile_PathThatAnotherFenceUses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	for _, beside := range []string{path + ".tmp", path + ".lock", path + ".TMP"} {
		_, err := OpenFile(t.Context(), beside)
		require.ErrorIs(t, err, ErrInvalid)
		require.NoFileExists(t, beside)
	}
}

func TestFile_RemembersAcrossOpening(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	f := openFile(t, path)
	raise(t, f, "a", 5, 5)
	raise(t, f, odd, 1<<62, 1<<62)
	raise(t, f, "a", 6, 6)
	raise(t, f, "a", 5, 6)
	require.NoError(t, f.Close())
	require.NoError(t, f.Close(), "idempotent")
	for _, token := range []zkrecipes.Token{5, 7} {
		_, err := f.Raise(t.Context(), "a", token)
		require.ErrorIs(t, err, os.ErrClosed, "token %d", token)
	}

	f = openFile(t, path)
	raise(t, f, "a", 1, 6)
	raise(t, f, odd, 1, 1<<62)
	raise(t, f, "new", 1, 1)
}

func TestFile_IsNotShared(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "tokens")
	f := openFile(t, path)
	inUse(t, path)
	other := filepath.Join(dir, "other")
	if err := os.Symlink(path, other); err == nil { // Windows may forbid it
		inUse(t, other, "by another name either")
	}
	raise(t, f, "a", 5, 5)
	require.NoError(t, f.Close())
	openFile(t, path)
}

// A stale process woke up and opened the file before the holder did. The holder waits until the file is closed, and is
// admitted.
func TestFile_StaleProcessInItsSection(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	synctest.Test(t, func(t *testing.T) {
		stale := openFile(t, path)
		opened := make(chan *File)
		go func() {
			f, err := OpenFile(t.Context(), path)
			assert.NoError(t, err)
			opened <- f
		}()
		raise(t, stale, "a", 33, 33)
		select {
		case <-opened:
			t.Fatal("while another process is in its section")
		case <-time.After(time.Hour):
		}
		closed := time.Now()
		require.NoError(t, stale.Close())
		holder := <-opened
		require.LessOrEqual(t, time.Since(closed), 20*time.Millisecond)
		raise(t, holder, "a", 34, 34)
		require.NoError(t, holder.Close())

		stale = openFile(t, path) // for its next section
		require.ErrorIs(t, New(stale).Admit(t.Context(), "a", 33), ErrStale)
	})
}

// With a dead context, OpenFile creates no file.
func TestOpenFile_DeadContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	why := errors.New("why")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	_, err := OpenFile(ctx, path)
	require.ErrorIs(t, err, why)
	_, err = OpenFile(nil, path) //nolint:staticcheck // a mistake
	require.ErrorIs(t, err, ErrInvalid)
	require.NoFileExists(t, path+".lock")
}

// With a dangling link, the file is created at its target, so that both names are one fence.
func TestFile_LinkThatLeadsNowhereYet(t *testing.T) {
	for name, lead := range map[string]func(t *testing.T, dir string) (target string){
		"absolute": func(t *testing.T, dir string) string {
			target := filepath.Join(dir, "elsewhere", "tokens")
			link(t, target, filepath.Join(dir, "link"))
			return target
		},
		"relative, through another": func(t *testing.T, dir string) string {
			link(t, filepath.Join("elsewhere", "second"), filepath.Join(dir, "link"))
			link(t, "tokens", filepath.Join(dir, "elsewhere", "second"))
			return filepath.Join(dir, "elsewhere", "tokens")
		},
		"up, out of a linked directory": func(t *testing.T, dir string) string {
			link(t, filepath.Join(dir, "elsewhere", "below"), filepath.Join(dir, "linked"))
			link(t, filepath.FromSlash("linked/../tokens"), filepath.Join(dir, "link"))
			return filepath.Join(dir, "elsewhere", "tokens")
		},
		"up and down, out of a linked directory": func(t *testing.T, dir string) string {
			link(t, filepath.Join(dir, "elsewhere", "below"), filepath.Join(dir, "linked"))
			link(t, filepath.FromSlash("linked/../beside/tokens"), filepath.Join(dir, "link"))
			return filepath.Join(dir, "elsewhere", "beside", "tokens")
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for _, name := range []string{"below", "beside"} {
				require.NoError(t, os.MkdirAll(filepath.Join(dir, "elsewhere", name), 0o700))
			}
			target := lead(t, dir)
			f := openFile(t, filepath.Join(dir, "link"))
			inUse(t, target)
			raise(t, f, "a", 5, 5)
			require.NoError(t, f.Close())
			raise(t, openFile(t, target), "a", 4, 5)
			_, err := os.Readlink(filepath.Join(dir, "link"))
			require.NoError(t, err, "the link is left in place")
		})
	}
	dir := t.TempDir()
	link(t, "b", filepath.Join(dir, "a"))
	link(t, "a", filepath.Join(dir, "b"))
	_, err := OpenFile(t.Context(), filepath.Join(dir, "a"))
	require.ErrorContains(t, err, "links")
}

// link creates a symbolic link, which Windows may forbid.
func link(t *testing.T, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path); err != nil {
		t.Skip(err)
	}
}

func TestFile_CannotBeOpened(t *testing.T) {
	_, err := OpenFile(t.Context(), filepath.Join(t.TempDir(), "no", "such", "directory"))
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = OpenFile(t.Context(), "")
	require.ErrorIs(t, err, ErrInvalid)
	require.EqualError(t, err, "open fence file: invalid fence request: the path is empty")
	for name, content := range map[string]string{
		"empty":         "",
		"something":     "root:x:0:0\n",
		"a later one":   "zkrecipes fence 2\n",
		"damaged":       header + "00000000 5 \"a\"\n" + string(record("a", 6)),
		"no number":     header + summed("x \"a\"") + string(record("a", 6)),
		"no quotes":     header + summed("5 a") + string(record("a", 6)),
		"damaged, last": header + string(record("a", 6)) + "00000000 5 \"a\"\n",
	} {
		path := filepath.Join(t.TempDir(), "tokens")
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		_, err := OpenFile(t.Context(), path)
		require.ErrorIs(t, err, ErrCorrupt, name)
		left, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Equal(t, content, string(left), "%s: left for the operator to see", name)
	}
}

// summed returns a record with the right checksum.
func summed(body string) string {
	return fmt.Sprintf("%08x %s\n", crc32.Checksum([]byte(body), castagnoli), body)
}

// A token that is presented again costs no write.
func TestFile_TokenShownAgain_IsNotWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	f := openFile(t, path)
	raise(t, f, "a", 5, 5)
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	raise(t, f, "a", 5, 5)
	raise(t, f, "a", 4, 5)
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(before), string(after))
}

// There is no space for the new log. The old one stays, and the store reports the error.
func TestFile_CannotBeWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	f := openFile(t, path)
	raise(t, f, "a", 5, 5)
	require.NoError(t, f.Close())
	require.NoError(t, os.Mkdir(path+".tmp", 0o700))
	_, err := OpenFile(t.Context(), path)
	require.ErrorContains(t, err, path+".tmp")
	require.NoError(t, os.Remove(path+".tmp"))
	raise(t, openFile(t, path), "a", 4, 5)

	folder := filepath.Join(t.TempDir(), "folder")
	require.NoError(t, os.Mkdir(folder, 0o700))
	_, err = OpenFile(t.Context(), folder)
	require.ErrorIs(t, err, ErrCorrupt)
	require.ErrorContains(t, err, "not a regular file")
	require.NoFileExists(t, folder+".tmp")
}

func TestFile_CrashInTheMiddleOfARecord(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	acknowledged := header + string(record("a", 5)) + string(record(odd, 7))
	torn := string(record("a", 6))
	for cut := range len(torn) {
		for _, tail := range []string{
			torn[:cut], // the file grew byte by byte, or all at once and was filled from either end
			torn[:cut] + string(make([]byte, len(torn)-cut)),
			string(make([]byte, max(cut, 1))) + torn[max(cut, 1):],
		} {
			require.NoError(t, os.WriteFile(path, []byte(acknowledged+tail), 0o600))
			f, err := OpenFile(t.Context(), path)
			require.NoError(t, err, "%q", tail)
			raise(t, f, "a", 1, 5)
			raise(t, f, odd, 1, 7)
			raise(t, f, "a", 8, 8) // and the next record is not written after the remains
			require.NoError(t, f.Close())
			f, err = OpenFile(t.Context(), path)
			require.NoError(t, err, "%q", tail)
			raise(t, f, "a", 1, 8)
			require.NoError(t, f.Close())
		}
	}
}

func TestFile_DiskFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	f := openFile(t, path)
	raise(t, f, "a", 5, 5)
	require.NoError(t, f.log.Close()) // so that the write fails
	for _, token := range []zkrecipes.Token{6, 5, 4} {
		_, err := f.Raise(t.Context(), "a", token)
		require.ErrorContains(t, err, "unusable until it is reopened", "not even a known token, before it is clear what the disk holds")
	}
	require.NoError(t, f.Close())
	raise(t, openFile(t, path), "a", 1, 5)
}

func TestFile_LogIsWrittenAnew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	f := openFile(t, path)
	for token := range zkrecipes.Token(20) {
		raise(t, f, "a", 1+token, 1+token)
	}
	raise(t, f, "b", 3, 3)
	long, err := os.Stat(path)
	require.NoError(t, err)
	old := f.log
	f.records = rewriteFrom
	raise(t, f, "a", 21, 21)
	short, err := os.Stat(path)
	require.NoError(t, err)
	assert.Less(t, short.Size(), long.Size()/5)
	assert.Equal(t, 2, f.records)
	require.ErrorIs(t, old.Close(), os.ErrClosed, "no descriptor is left behind")

	raise(t, f, "a", 22, 22) // in the new log
	require.NoError(t, f.Close())
	f = openFile(t, path)
	raise(t, f, "a", 1, 22)
	raise(t, f, "b", 1, 3)

	require.NoError(t, f.log.Close())
	f.records = rewriteFrom
	_, err = f.Raise(t.Context(), "a", 30)
	require.ErrorIs(t, err, os.ErrClosed)
}

func TestFile_WaitingForATurnEndsWithTheContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	synctest.Test(t, func(t *testing.T) {
		f := openFile(t, path)
		<-f.turn // an fsync takes its time
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("enough")
		done := make(chan error)
		go func() {
			_, err := f.Raise(ctx, "a", 5)
			done <- err
		}()
		synctest.Wait() // until it waits for its turn
		cancel(cause)
		require.ErrorIs(t, <-done, cause)
		f.turn <- struct{}{}
		raise(t, f, "a", 4, 4)
	})
}

// The log of many resources is rewritten when it has more than four records for each.
func TestFile_LogOfManyResources(t *testing.T) {
	f := openFile(t, filepath.Join(t.TempDir(), "tokens"))
	const resources = rewriteFrom
	for i := range resources {
		f.highest[strconv.Itoa(i)] = 1
	}
	f.records = rewriteEach*resources - 1
	raise(t, f, "1", 2, 2)
	require.Equal(t, rewriteEach*resources, f.records)
	raise(t, f, "1", 3, 3)
	require.Equal(t, resources, f.records)
}

// If the log cannot be rewritten, or it is not certain that it was, the store reports the error and admits nothing
// until it is opened again.
func TestFile_CannotBeReplaced(t *testing.T) {
	for name, c := range map[string]struct {
		obstruct func(t *testing.T, f *File)
		says     string
	}{
		"a directory has its name": {func(t *testing.T, f *File) {
			require.NoError(t, os.Remove(f.path))
			require.NoError(t, os.Mkdir(f.path, 0o700))
		}, "rename"},
		"the directory cannot be synced": {func(t *testing.T, f *File) {
			// The system finds the file by this path. Cleaned, the path leads to a directory that does not exist.
			dir := filepath.Dir(f.path)
			require.NoError(t, os.MkdirAll(filepath.Join(dir, "elsewhere", "below"), 0o700))
			require.NoError(t, os.Mkdir(filepath.Join(dir, "elsewhere", "beside"), 0o700))
			link(t, filepath.Join(dir, "elsewhere", "below"), filepath.Join(dir, "linked"))
			f.path = dir + filepath.FromSlash("/linked/../beside/tokens")
		}, "beside"},
	} {
		t.Run(name, func(t *testing.T) {
			f := openFile(t, filepath.Join(t.TempDir(), "tokens"))
			raise(t, f, "a", 5, 5)
			c.obstruct(t, f)
			f.records = rewriteFrom
			for _, token := range []zkrecipes.Token{6, 5} {
				_, err := f.Raise(t.Context(), "a", token)
				require.ErrorContains(t, err, "unusable until it is reopened")
				require.ErrorContains(t, err, c.says)
			}
		})
	}
}

// childPath makes the test binary a process that raises tokens in the file until it is killed.
const childPath = "FENCE_TEST_RAISE_IN"

func TestMain(m *testing.M) {
	if path := os.Getenv(childPath); path != "" {
		if err := raiseForEver(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

func raiseForEver(path string) error {
	f, err := OpenFile(context.Background(), path)
	if err != nil {
		return err
	}
	first, err := f.Raise(context.Background(), "a", 1)
	for token := first + 1; err == nil; token++ {
		if _, err = f.Raise(context.Background(), "a", token); err == nil {
			fmt.Println(token)
		}
	}
	return err
}

func TestFile_KilledProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	var admitted zkrecipes.Token
	for range 5 {
		child := exec.CommandContext(t.Context(), os.Args[0])
		child.Env = append(os.Environ(), childPath+"="+path)
		out, err := child.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, child.Start())
		lines := bufio.NewScanner(out)
		for n := 0; lines.Scan(); n++ {
			token, err := strconv.ParseInt(lines.Text(), 10, 64)
			require.NoError(t, err)
			require.Greater(t, token, int64(admitted))
			admitted = zkrecipes.Token(token)
			if n == 0 {
				inUse(t, path, "by another process")
			}
			if n == 20+rand.IntN(20) || n == 60 {
				require.NoError(t, child.Process.Kill())
			}
		}
		require.Error(t, child.Wait(), "killed")

		f, err := OpenFile(t.Context(), path)
		require.NoError(t, err, "the lock went with the process")
		highest, err := f.Raise(t.Context(), "a", 1)
		require.NoError(t, err)
		require.GreaterOrEqual(t, highest, admitted)
		require.LessOrEqual(t, highest, admitted+1, "kept but not yet said")
		require.NoError(t, f.Close())
	}
}

func TestReplay_FindsEveryFlippedBit(t *testing.T) {
	content := []byte(header + string(record("a", 5)) + string(record(odd, 7)))
	last := len(content)
	content = append(content, record("b", 9)...)
	for i := range last {
		for bit := range 8 {
			content[i] ^= 1 << bit
			_, err := replay(content)
			require.ErrorIs(t, err, ErrCorrupt, "byte %d, bit %d", i, bit)
			content[i] ^= 1 << bit
		}
	}
	highest, err := replay(content)
	require.NoError(t, err)
	assert.Equal(t, map[string]zkrecipes.Token{"a": 5, odd: 7, "b": 9}, highest)
}

func FuzzReplay(f *testing.F) {
	f.Add([]byte("garbage"), "a", int64(5), uint(40))
	f.Add(record("a", 9), odd, int64(1)<<62, uint(0))
	f.Add([]byte{0, 0, '\n'}, "", int64(-1), uint(1000))
	f.Fuzz(func(t *testing.T, garbage []byte, resource string, token int64, cut uint) {
		if highest, err := replay(garbage); err == nil && highest == nil {
			t.Fatal("neither a result nor an error")
		}
		// What was written is read again, whatever a crash has left of the record after it.
		written := append([]byte(header), record(resource, zkrecipes.Token(token))...)
		want := map[string]zkrecipes.Token{resource: max(0, zkrecipes.Token(token))}
		next := record("next", 1)
		highest, err := replay(append(written, next[:cut%uint(len(next))]...))
		if err != nil || !maps.Equal(want, highest) {
			t.Fatalf("read %v, %v; written %v", highest, err, want)
		}
		if _, err := replay(append(written, garbage...)); err != nil && !errors.Is(err, ErrCorrupt) {
			t.Fatal(err)
		}
	})
}

// A call with a dead context fails every time, even if it would not have to wait.
func TestFile_DeadContext(t *testing.T) {
	f := openFile(t, filepath.Join(t.TempDir(), "tokens"))
	why := errors.New("why")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	for range 100 {
		_, err := f.Raise(ctx, "a", 5)
		require.ErrorIs(t, err, why)
	}
}

// A File that was not opened waits for nothing.
func TestFile_ZeroValue_IsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f File
		_, err := f.Raise(t.Context(), "a", 5)
		require.ErrorIs(t, err, ErrInvalid)
		require.ErrorContains(t, err, "OpenFile")
		require.Equal(t, err, f.Close())
	})
}
