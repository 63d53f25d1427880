package supervise

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/bootclock"
)

func testState(t *testing.T) *stateFile {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir())
	f, err := newStateFile()
	require.NoError(t, err)
	return f
}

// TestState_IsWrittenInPlace: a full disk refuses new files. A concurrent reader only sees complete records.
func TestState_IsWrittenInPlace(t *testing.T) {
	f := testState(t)
	s := State{Until: bootclock.Now() + time.Hour, Token: "7", Path: "/" + strings.Repeat("ä", 4000)}
	require.NoError(t, f.write(s))
	before, err := os.Stat(f.path())
	require.NoError(t, err)
	for range 2000 {
		s.Until++
		require.NoError(t, f.tell(s))
		got, held, err := ReadState(f.path())
		require.NoError(t, err)
		assert.True(t, held)
		assert.Equal(t, s.Path, got.Path)
	}
	after, err := os.Stat(f.path())
	require.NoError(t, err)
	assert.True(t, os.SameFile(before, after))
	assert.Equal(t, before.Size(), after.Size())
	f.close()
	<-f.ended
	assert.NoDirExists(t, f.dir)
}

func TestState_ALossIsARecord(t *testing.T) {
	f := testState(t)
	require.NoError(t, f.write(State{Path: "/p"}))
	s, held, err := ReadState(f.path())
	require.NoError(t, err)
	assert.False(t, held)
	assert.Equal(t, "/p", s.Path)
	require.NoError(t, os.Truncate(f.path(), 20))
	_, _, err = ReadState(f.path())
	require.ErrorContains(t, err, "no complete record")
	f.close()
	f.wait()
}

// TestState_IsMadeAgain: the file is created again, but not in a directory of someone else.
func TestState_IsMadeAgain(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("nothing removes an open file there")
	}
	f := testState(t)
	held := State{Until: bootclock.Now() + time.Hour}
	for _, clean := range []func(string) error{
		os.RemoveAll,
		func(dir string) error { return os.Remove(filepath.Join(dir, "state")) },
	} {
		require.NoError(t, clean(f.dir))
		require.NoError(t, f.write(held))
		_, proven, err := ReadState(f.path())
		require.NoError(t, err)
		assert.True(t, proven)
	}
	require.NoError(t, os.Rename(f.dir, f.dir+"-away"))
	require.NoError(t, os.Mkdir(f.dir, 0o700))
	require.ErrorContains(t, f.write(held), "another directory")
	f.close()
	f.wait()
}

// TestState_ADiskThatHangsDelaysNothing: the writer accepts no state, and the newest one waits.
func TestState_ADiskThatHangsDelaysNothing(t *testing.T) {
	f := &stateFile{next: make(chan State, 1)}
	for i := range 1000 {
		require.NoError(t, f.tell(State{Until: time.Duration(i)}))
	}
	assert.Equal(t, time.Duration(999), (<-f.next).Until)
}

func TestState_WarnsEverMoreRarely(t *testing.T) {
	f := &stateFile{next: make(chan State, 1), failed: make(chan error, 1)}
	warnings := 0
	for range 100 {
		f.failed <- os.ErrPermission
		if f.tell(State{}) != nil {
			warnings++
		}
	}
	assert.Equal(t, 1, warnings)
	f.warned = time.Now().Add(-time.Hour)
	f.failed <- os.ErrPermission
	require.Error(t, f.tell(State{}))
	assert.Equal(t, 2*time.Second, f.pause)
}
