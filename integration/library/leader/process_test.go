package leader

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// limit bounds every wait for an event that must come.
const limit = 2 * time.Minute

// binary builds examples/leader, once.
var binary = sync.OnceValues(func() (string, error) {
	path := filepath.Join(buildDir, "leader")
	out, err := exec.Command("go", "build", "-o", path, "github.com/zkrecipes/zkrecipes/examples/leader").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build examples/leader: %w: %s", err, out)
	}
	return path, nil
})

// line is one line of the program's output.
type line struct {
	at     time.Time // by the program's clock, in milliseconds
	seen   time.Time // by the test's clock
	event  string
	token  int64
	leader string
	reason string
	text   string
}

// process is one run of examples/leader.
type process struct {
	t      *testing.T
	id     string
	cmd    *exec.Cmd
	stderr bytes.Buffer
	exited chan struct{}

	mu      sync.Mutex
	lines   []line
	changed chan struct{}
	read    int // lines that wait has passed
}

// start runs a candidate against servers.
func start(t *testing.T, id, servers, path string, flags ...string) *process {
	t.Helper()
	program, err := binary()
	require.NoError(t, err)
	args := append([]string{
		"-servers", servers, "-path", path, "-id", id, "-session-timeout", sessionTimeout.String(),
		"-connect-timeout", limit.String(),
	}, flags...)
	p := &process{
		t: t, id: id, cmd: exec.Command(program, args...), exited: make(chan struct{}),
		changed: make(chan struct{}, 1),
	}
	p.cmd.Stderr = &p.stderr
	out, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	go p.follow(out)
	t.Cleanup(func() {
		p.signal(syscall.SIGCONT)
		p.signal(syscall.SIGKILL)
		<-p.exited
		if t.Failed() {
			t.Logf("%s said:\n%s%s", id, p.output(), p.stderr.String())
		}
	})
	return p
}

func (p *process) follow(out io.Reader) {
	scanner := bufio.NewScanner(out)
	for scanner.Scan() {
		l := parseLine(scanner.Text())
		p.mu.Lock()
		p.lines = append(p.lines, l)
		p.mu.Unlock()
		select {
		case p.changed <- struct{}{}:
		default:
		}
	}
	_ = p.cmd.Wait() // tests that need the exit code check it
	close(p.exited)
}

func parseLine(text string) line {
	l := line{text: text, seen: time.Now()}
	for field := range strings.FieldsSeq(text) {
		key, value, _ := strings.Cut(field, "=")
		switch key {
		case "time":
			l.at, _ = time.Parse(time.RFC3339, value)
		case "event":
			l.event = value
		case "token":
			l.token, _ = strconv.ParseInt(value, 10, 64)
		case "leader":
			l.leader = value
		case "reason":
			l.reason = value
		}
	}
	return l
}

// wait returns the next line that matches, and skips the lines before it.
func (p *process) wait(what string, match func(line) bool) line {
	p.t.Helper()
	deadline := time.After(limit)
	for {
		p.mu.Lock()
		for p.read < len(p.lines) {
			l := p.lines[p.read]
			p.read++
			if match(l) {
				p.mu.Unlock()
				return l
			}
		}
		p.mu.Unlock()
		select {
		case <-p.changed:
		case <-p.exited:
			p.mu.Lock()
			more := p.read < len(p.lines)
			p.mu.Unlock()
			if !more {
				require.FailNow(p.t, p.id+" ended", "waiting for %s; it said:\n%s%s", what, p.output(), p.stderr.String())
			}
		case <-deadline:
			require.FailNow(p.t, p.id+" is late", "waiting for %s; it said:\n%s%s", what, p.output(), p.stderr.String())
		}
	}
}

// event waits for the next line with the event.
func (p *process) event(name string) line {
	p.t.Helper()
	return p.wait(name, func(l line) bool { return l.event == name })
}

// follows waits until the process reports the leader.
func (p *process) follows(leader string) line {
	p.t.Helper()
	return p.wait("leader="+leader, func(l line) bool { return l.event == "leader" && l.leader == leader })
}

// count returns how many lines have the event.
func (p *process) count(event string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, l := range p.lines {
		if l.event == event {
			n++
		}
	}
	return n
}

func (p *process) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var b strings.Builder
	for _, l := range p.lines {
		b.WriteString(l.text + "\n")
	}
	return b.String()
}

func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) } // it may already have ended

// exit waits for the process to exit, and returns its exit code.
func (p *process) exit() int {
	p.t.Helper()
	select {
	case <-p.exited:
	case <-time.After(limit):
		require.FailNow(p.t, p.id+" does not end", "it said:\n%s", p.output())
	}
	return p.cmd.ProcessState.ExitCode()
}
