//go:build unix

package child

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// GuardArg is the only argument of a guard process: the program then calls [Guard], and nothing else.
const GuardArg = "__guard"

// guard is a process that kills the command when this process ends without a word, for systems whose kernel does not.
type guard struct {
	pid  int
	line *os.File // its standard input; the end of it, without "done" before, is the death of this process
}

func startGuard() (*guard, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start the guard: %w", err)
	}
	in, line, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start the guard: %w", err)
	}
	defer in.Close() //nolint:errcheck // the guard has its own copy
	p, err := os.StartProcess(self, []string{self, GuardArg}, &os.ProcAttr{
		Files: []*os.File{in}, Env: os.Environ(), Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		_ = line.Close()
		return nil, fmt.Errorf("start the guard: %w", err)
	}
	g := &guard{pid: p.Pid, line: line}
	_ = p.Release() // the host reaps it
	return g, nil
}

// watch tells the guard what to kill. A guard that is nil does nothing, here and below.
func (g *guard) watch(pid int, group bool) {
	if g == nil {
		return
	}
	if group {
		pid = -pid
	}
	fmt.Fprintf(g.line, "%d\n", pid) //nolint:errcheck // if the guard is gone, there is none
}

func (g *guard) is(pid int) bool { return g != nil && g.pid == pid }

func (g *guard) dismiss() {
	if g == nil {
		return
	}
	_, _ = io.WriteString(g.line, "done\n") // a guard that is gone need not know
	_ = g.line.Close()
}

// Guard is the guard process: it reads what to kill, and kills it at the end of its input, unless the last line is "done".
func Guard(in io.Reader) {
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM)
	target, done := 0, false
	for lines := bufio.NewScanner(in); lines.Scan(); {
		if done = strings.TrimSpace(lines.Text()) == "done"; !done {
			_, _ = fmt.Sscan(lines.Text(), &target) // what is no number leaves it 0
		}
	}
	if !done && target != 0 {
		_ = syscall.Kill(target, syscall.SIGKILL) // if it has ended, that is what was wanted
	}
}
