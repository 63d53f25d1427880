package services

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/integration/kit/loopback"
	"github.com/zkrecipes/zkrecipes/integration/kit/proxy"
)

// process is one process of a service, behind its own proxy.
type process struct {
	t       *testing.T
	id, job string
	address string // of /metrics
	link    *proxy.Proxy
	cmd     *exec.Cmd
	exited  chan struct{}

	mu    sync.Mutex
	lines []line
}

// line is one line of the log.
type line struct {
	seen time.Time
	text string
}

// program builds the services.
func program(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "service")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", path, "./service").CombinedOutput()
	require.NoError(t, err, string(out))
	return path
}

// freeAddress returns an address that a process may listen on, even after a restart.
func freeAddress(t *testing.T) string {
	t.Helper()
	host := loopback.Block()(1)
	ports, err := loopback.FreePorts(host, 1)
	require.NoError(t, err)
	return net.JoinHostPort(host, strconv.Itoa(ports[0]))
}

// start starts or restarts the process.
func (p *process) start(program string) {
	p.t.Helper()
	p.cmd = exec.Command(program, "-id", p.id, "-job", p.job, "-servers", p.link.Addr(), "-http", p.address,
		"-session-timeout", sessionTimeout.String())
	out, err := p.cmd.StderrPipe()
	require.NoError(p.t, err)
	require.NoError(p.t, p.cmd.Start())
	p.exited = make(chan struct{})
	go p.follow(out, p.cmd, p.exited)
}

func (p *process) follow(out io.Reader, cmd *exec.Cmd, exited chan struct{}) {
	scanner := bufio.NewScanner(out)
	for scanner.Scan() {
		p.mu.Lock()
		p.lines = append(p.lines, line{time.Now(), scanner.Text()})
		p.mu.Unlock()
	}
	_ = cmd.Wait() // it is killed, or interrupted at the end
	close(exited)
}

func (p *process) signal(s os.Signal) { _ = p.cmd.Process.Signal(s) } // it may already have ended

// stop stops the process for good.
func (p *process) stop() {
	p.signal(syscall.SIGCONT)
	p.signal(syscall.SIGKILL)
	<-p.exited
}

// log returns what the process has logged since a moment.
func (p *process) log(since time.Time) (texts []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.lines {
		if l.seen.After(since) {
			texts = append(texts, l.text)
		}
	}
	return texts
}

// logged waits for a line since a moment that contains all words, and returns when it appeared.
func (p *process) logged(since time.Time, words ...string) time.Time {
	p.t.Helper()
	var at time.Time
	p.eventually(fmt.Sprintf("%s logs %q", p.id, words), func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, l := range p.lines {
			found := l.seen.After(since)
			for _, word := range words {
				found = found && strings.Contains(l.text, word)
			}
			if found {
				at = l.seen
				return true
			}
		}
		return false
	})
	return at
}

// shows waits until the metrics of the process satisfy a condition, and returns when the answer arrived.
func (p *process) shows(what string, is func(metrics) bool) time.Time {
	p.t.Helper()
	p.eventually(fmt.Sprintf("the metrics of %s show: %s", p.id, what), func() bool {
		m, err := p.scrape()
		return err == nil && is(m)
	})
	return time.Now()
}

func (p *process) eventually(what string, is func() bool) {
	p.t.Helper()
	for deadline := time.Now().Add(limit); !is(); time.Sleep(20 * time.Millisecond) {
		require.True(p.t, time.Now().Before(deadline), "waiting until %s; it logged:\n%s", what,
			strings.Join(p.log(time.Time{}), "\n"))
	}
}

// metrics are the samples of one scrape, by series.
type metrics map[string]string

// scrape reads /metrics as Prometheus does, and gives up after a second.
func (p *process) scrape() (metrics, error) {
	status, body, err := p.get("/metrics")
	if err != nil || status != http.StatusOK {
		return nil, fmt.Errorf("status %d: %w", status, err)
	}
	m := metrics{}
	for text := range strings.Lines(body) {
		if series, value, ok := strings.Cut(strings.TrimSpace(text), " "); ok && strings.HasPrefix(series, "zkrecipes_") {
			m[series] = value
		}
	}
	return m, nil
}

func (p *process) get(path string) (status int, body string, err error) {
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.address+path, nil)
	if err != nil {
		return 0, "", err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = answer.Body.Close() }() // it was read
	text, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(text), err
}
