package exclusion

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// asTracee in the environment turns this test binary into a process that keeps starting threads and writing lines.
const asTracee = "ZKRECIPES_TRACEE"

func init() {
	for os.Getenv(asTracee) != "" {
		started := make(chan struct{})
		go func() {
			runtime.LockOSThread() // so that the thread exits with this function
			close(started)
		}()
		<-started
		if _, err := fmt.Println(); err != nil {
			os.Exit(0)
		}
	}
}

// TestTrace holds each thread of a process that keeps starting others, under a storm of SIGCONT. Its parent learns of
// its end.
func TestTrace(t *testing.T) {
	parent := exec.CommandContext(t.Context(), "sh", "-c", `"$0" & echo $!; wait $!; echo status $?`, os.Args[0])
	parent.Env = append(os.Environ(), asTracee+"=1")
	out, err := parent.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, parent.Start())
	lines := bufio.NewScanner(out)
	word := func() string { // the next line not written by the tracee
		for lines.Scan() {
			if lines.Text() != "" {
				return lines.Text()
			}
		}
		return ""
	}
	pid, err := strconv.Atoi(word())
	require.NoError(t, err)
	states := func() (all []string) {
		files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		require.NoError(t, err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err, "a thread has ended")
			_, state, _ := strings.Cut(string(text), ") ")
			all = append(all, state[:1])
		}
		return all
	}
	for range 10 {
		calm, storm := make(chan struct{}), make(chan struct{})
		go func() { // until calm is closed
			defer close(storm)
			for syscall.Kill(pid, syscall.SIGCONT) == nil {
				select {
				case <-calm:
					return
				default:
				}
			}
		}()
		goOn := trace(t, pid)
		held := states()
		require.NotEmpty(t, held)
		require.Equal(t, slices.Repeat([]string{"t"}, len(held)), held)
		close(calm)
		<-storm
		require.Equal(t, held, states())
		goOn()
		for range 1_000 { // more than it had written before
			require.True(t, lines.Scan(), "it goes on")
		}
	}
	goOn := trace(t, pid)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	goOn()
	require.Equal(t, "status 137", word())
	require.NoError(t, parent.Wait())
	require.ErrorIs(t, tracees{}.hold(pid), os.ErrProcessDone)
}
