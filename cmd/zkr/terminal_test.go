//go:build unix

package main

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/zktest"
)

// terminal is a program that runs in a terminal, together with the output seen there.
type terminal struct {
	*zkr
	keyboard *os.File
	mu       sync.Mutex
	screen   bytes.Buffer
	read     sync.WaitGroup
}

func inTerminal(t *testing.T, z *zkr) *terminal {
	t.Helper()
	z.Stdin, z.Stdout, z.Stderr = nil, nil, nil
	keyboard, err := pty.Start(z.Cmd)
	require.NoError(t, err)
	term := &terminal{zkr: z, keyboard: keyboard}
	term.read.Go(func() {
		for buffer := make([]byte, 4096); ; {
			n, err := keyboard.Read(buffer)
			term.mu.Lock()
			term.screen.Write(buffer[:n])
			term.mu.Unlock()
			if err != nil { // the terminal ends with its last program
				return
			}
		}
	})
	t.Cleanup(func() {
		_ = z.Process.Kill()
		_ = keyboard.Close()
		term.read.Wait()
		if t.Failed() {
			t.Log(term.seen())
		}
	})
	return term
}

func (x *terminal) seen() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return strings.ReplaceAll(x.screen.String(), "\r", "")
}

func (x *terminal) shows(t *testing.T, text string) {
	t.Helper()
	eventually(t, "the screen shows "+text, func() bool { return strings.Contains(x.seen(), text) })
}

func (x *terminal) presses(t *testing.T, keys string) {
	t.Helper()
	_, err := x.keyboard.WriteString(keys)
	require.NoError(t, err)
}

const (
	ctrlC = "\x03"
	ctrlZ = "\x1a"
)

// pid waits until the program has printed its process ID.
func (x *terminal) pid(t *testing.T) int {
	t.Helper()
	number := regexp.MustCompile(`pid:(\d+):`)
	eventually(t, "the program tells its number", func() bool { return number.MatchString(x.seen()) })
	pid, err := strconv.Atoi(number.FindStringSubmatch(x.seen())[1])
	require.NoError(t, err)
	return pid
}

func TestTerminal_InterruptReachesTheProgramOnce(t *testing.T) {
	srv := zktest.Run(t)
	x := inTerminal(t, command(t, srv.Addr(), "lock", "/p", "--", os.Args[0], asProgram))
	x.shows(t, "ready")
	x.presses(t, ctrlC)
	assert.Equal(t, 5, x.status(t))
	assert.Contains(t, x.seen(), "interrupt 1")
	assert.NotContains(t, x.seen(), "interrupt 2", "zkr does not pass on what the terminal has sent already")
}

// TestTerminal_UnhealthyWhileStopping: a program that the terminal has asked to stop may fail its check.
func TestTerminal_UnhealthyWhileStopping(t *testing.T) {
	t.Parallel()
	h := newHealth(t, http.StatusOK)
	file := filepath.Join(t.TempDir(), "finished")
	x := inTerminal(t, command(t, zktest.Run(t).Addr(), "elect", "--check="+h.URL, "--check-interval=0.02", "--grace=0.1",
		"/e", "--shell",
		`trap 'echo stopping; stopping=1' INT; trap 'echo passed on' USR1; echo up; `+
			`until test "$stopping" && test -e `+file+`; do sleep 0.02; done`))
	x.shows(t, "up")
	h.pass(t)
	x.presses(t, ctrlC)
	x.shows(t, "stopping")
	require.NoError(t, x.Process.Signal(syscall.SIGUSR1))
	x.shows(t, "passed on") // zkr has seen the interrupt, too
	h.status.Store(http.StatusServiceUnavailable)
	before := h.checks.Load()
	eventually(t, "failures", func() bool { return h.checks.Load() >= before+2 })
	<-time.After(200 * time.Millisecond) // zkr hears of the third
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.Zero(t, x.status(t), x.seen())
	require.NotContains(t, x.seen(), "asked the program to stop")
}

func TestTerminal_TwoInterruptsKill(t *testing.T) {
	srv := zktest.Run(t)
	x := inTerminal(t, command(t, srv.Addr(), "lock", "/p", "--", "sh", "-c",
		`trap 'echo first' INT; echo ready; while :; do sleep 0.05; done`))
	x.shows(t, "ready")
	ended := make(chan struct{})
	var pressing sync.WaitGroup
	pressing.Go(func() { // as a person does; two key presses at once may be one signal
		for {
			_, _ = x.keyboard.WriteString(ctrlC) // the terminal may have ended
			select {
			case <-ended:
				return
			case <-time.After(200 * time.Millisecond):
			}
		}
	})
	assert.Equal(t, 137, x.status(t))
	close(ended)
	pressing.Wait()
}

// TestTerminal_Closed: ssh -t runs zkr without a shell, and the connection breaks. The kernel only reports that to zkr.
func TestTerminal_Closed(t *testing.T) {
	srv := zktest.Run(t)
	end := filepath.Join(t.TempDir(), "end")
	x := inTerminal(t, command(t, srv.Addr(), "lock", "/p", "--", "sh", "-c",
		`trap ': >"$0"; exit 7' HUP; while :; do echo ready 2>&- || :; sleep 0.05; done`, end))
	x.shows(t, "ready")
	require.NoError(t, x.keyboard.Close()) // takes effect once the next line has been read
	assert.Equal(t, 7, x.status(t))
	assert.FileExists(t, end)
}

func TestTerminal_StoppedAndContinued(t *testing.T) {
	srv := zktest.Run(t)
	x := shell(t, srv)
	x.presses(t, `"$ZKR" lock /p -- sh -c 'echo pid:$$:; read line; echo "got $line"; exit 6'; echo "status:"$?`+"\n")
	pid := x.pid(t)
	x.presses(t, ctrlZ)
	x.shows(t, "status:148") // stopped by SIGTSTP
	eventually(t, "the program is stopped, else it may take the first of the next keys",
		func() bool { return stopped(pid) })
	x.presses(t, "fg\n")
	x.presses(t, "hello\n")
	x.shows(t, "got hello")
	x.presses(t, `echo "status of fg:"$?`+"\n")
	x.shows(t, "status of fg:6")
	x.presses(t, "exit\n")
	x.status(t)
}

// TestTerminal_UsedBesideAPipe: the program, such as an ssh that asks for a password, is stopped. zkr used to hold the
// lock in silence, and Ctrl-C had no effect.
func TestTerminal_UsedBesideAPipe(t *testing.T) {
	srv := zktest.Run(t)
	x := shell(t, srv)
	x.presses(t, `echo data | "$ZKR" lock /p -- sh -c 'read line </dev/tty'; echo "status:"$?`+"\n")
	x.shows(t, "the program is stopped and keeps the lock: it used the terminal from the background;")
	x.presses(t, ctrlC)
	x.shows(t, "status:130")
	x.presses(t, `"$ZKR" lock /p --shell 'echo data | (echo password?; read line </dev/tty; echo "got $line")'`+"\n")
	x.shows(t, "\npassword?")
	x.presses(t, "secret\n")
	x.shows(t, "got secret")
	x.presses(t, "exit\n")
	x.status(t)
}

// stopped reports whether a process is stopped. Minimal systems lack ps, and macOS lacks /proc.
func stopped(pid int) bool {
	if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil {
		return bytes.Contains(stat, []byte(") T "))
	}
	state, _ := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output() //nolint:noctx // ends at once
	return bytes.HasPrefix(state, []byte("T"))
}

// TestTerminal_StoppedForTooLong stops zkr from the keyboard until its session has ended, and resumes it. The guard kills
// the program, which is stopped as well, so it cannot resume together with zkr.
func TestTerminal_StoppedForTooLong(t *testing.T) {
	t.Parallel()
	srv := zktest.Run(t, zktest.WithTickTime(time.Second))
	x := shell(t, srv, "ZKR_SESSION_TIMEOUT=16s")
	x.presses(t, `"$ZKR" lock /p -- sh -c 'echo pid:$$:; while :; do sleep 0.05; done'; echo "status:"$?`+"\n")
	pid := x.pid(t)
	x.presses(t, ctrlZ)
	x.shows(t, "status:148")
	eventually(t, "the session ends", func() bool { return len(srv.Sessions()) == 0 })
	eventually(t, "the guard has killed the program", func() bool { return gone(pid) })
	x.presses(t, "fg\n")
	x.shows(t, "killed the program") // zkr did, or it finds that the guard has
	x.presses(t, `echo "status of fg:"$?`+"\n")
	x.shows(t, "status of fg:79")
	x.presses(t, "exit\n")
	x.status(t)
}

func TestTerminal_TellsPeopleWhyThereIsNoConnection(t *testing.T) {
	t.Parallel()
	x := inTerminal(t, command(t, "127.0.0.1:1", "status", "/p"))
	x.shows(t,
		"zkr: zookeeper: cannot connect (server=127.0.0.1:1, error=dial tcp 127.0.0.1:1: connect: connection refused")
	x.presses(t, ctrlC)
	assert.Equal(t, 130, x.status(t))
}

// TestTerminal_ShowsIDsOfOthersAsText: any client can create an ID that contains terminal escape sequences.
func TestTerminal_ShowsIDsOfOthersAsText(t *testing.T) {
	srv := zktest.Run(t)
	orders := regexp.MustCompile("[\x00-\x09\x0b-\x1f\x7f-\u009f\u202e]")
	holder := start(t, srv, "a", "lock", "--id=a\x1b]0;title\a\u009b31m\u202eb\nc", "/p", "--", "sleep", "300")
	acquired := holder.until(t, "acquired")
	holder.until(t, "started")
	x := inTerminal(t, command(t, srv.Addr(), "lock", "/p", "--", "true"))
	x.shows(t, "held by a ]0;title  31m b c since ")
	assert.NotRegexp(t, orders, x.seen())
	x.presses(t, ctrlC)
	assert.Equal(t, 130, x.status(t))
	token, _ := acquired["token"].(string)
	for _, args := range [][]string{
		{"lock", "--try", "/p", "--", "true"},
		{"leader", "--layout=selector", "/p"},
		{"leader", "-o=value", "--layout=selector", "/p"},
		{"status", "/p"},
		{"break", "--token", token, "/p"},
		{"break", "--token", token, "--alive", "/p"},
		{"doctor"},
		{"revoke", "/p"},
	} {
		_, out, errs := run(t, srv.Addr(), args...)
		assert.NotEmpty(t, out+errs)
		assert.NotRegexp(t, orders, out+errs, "%q", args)
	}
}

// shell starts a shell with job control in a terminal.
func shell(t *testing.T, srv *zktest.Server, env ...string) *terminal {
	t.Helper()
	z := command(t, srv.Addr())
	z.Cmd = exec.CommandContext(t.Context(), "/bin/sh", "-i")
	z.Env = append(append(os.Environ(), asZkr+"=1", "ZKR="+os.Args[0], "ZKR_SERVERS="+srv.Addr(),
		"ZKR_SESSION_TIMEOUT=40s", "PS1=", "ENV="), env...)
	return inTerminal(t, z)
}
