package zkr

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/zkrecipes/zkrecipes/integration/kit/zkserver"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
)

var pauses = flag.Int("pauses", 0, "runs of each pause in TestPauses")

// TestPauses stops zkr, its guard and its program for a while, and prints how often they kept their lock. The guide has
// the figures. Pauses that the machine has prolonged by a tenth are not counted.
func TestPauses(t *testing.T) {
	if *pauses == 0 {
		t.Skip("-pauses 20 measures for minutes")
	}
	server := zkserver.Start(t, zkserver.WithTickTime(2*time.Second))
	zkr := program(t)
	var running sync.WaitGroup
	places := make(chan struct{}, 40)
	table := map[string]*outcomes{}
	var rows []string
	for _, timeout := range []time.Duration{4 * time.Second, 15 * time.Second, 30 * time.Second} {
		for pause := 2 * time.Second; pause <= 10*time.Second; pause += time.Second {
			row := fmt.Sprintf("%v of %v", pause, timeout)
			rows, table[row] = append(rows, row), &outcomes{}
			for i := range *pauses {
				places <- struct{}{}
				running.Go(func() {
					table[row].add(paused(t, zkr, server.Addr(), fmt.Sprintf("/pauses/%v/%v/%d", timeout, pause, i), timeout, pause))
					<-places
				})
			}
		}
	}
	running.Wait()
	for _, row := range rows {
		o := table[row]
		t.Logf("%s: held %d of %d, %d not counted", row, o.held, o.held+o.lost, o.busy)
	}
}

// outcomes are those of one pause.
type outcomes struct {
	mu               sync.Mutex
	held, lost, busy int
}

func (o *outcomes) add(outcome string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch outcome {
	case "held":
		o.held++
	case "lost":
		o.lost++
	default:
		o.busy++
	}
}

// paused runs zkr, and stops it once.
func paused(t *testing.T, zkr func(context.Context, ...string) *exec.Cmd, servers, path string, timeout,
	pause time.Duration,
) (outcome string) {
	var log bubble.Buffer
	z := zkr(context.WithoutCancel(t.Context()), "lock", "-v", "--log=json", "--servers", servers, "--session-timeout",
		timeout.String(), path, "--", "sleep", "300")
	z.Stderr = &log
	if !assert.NoError(t, z.Start()) {
		return "busy"
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = z.Wait() // its state shows it
	}()
	started, ok := said(&log, "started", 0, ended)
	if !ok {
		return "busy"
	}
	time.Sleep(timeout / 4)
	signal := func(s syscall.Signal) { _ = errors.Join(syscall.Kill(-started.Pgid, s), z.Process.Signal(s)) }
	signal(syscall.SIGSTOP)
	time.Sleep(pause)
	signal(syscall.SIGCONT)
	if late, _ := said(&log, "late", 0.9*pause.Seconds(), ended); late.Seconds > 1.1*pause.Seconds() {
		outcome = "busy"
	}
	select {
	case <-ended:
	case <-time.After(timeout):
		_ = z.Process.Signal(syscall.SIGTERM)
		<-ended
	}
	if outcome != "" {
		return outcome
	}
	switch z.ProcessState.ExitCode() {
	case 143:
		return "held"
	case 79:
		return "lost"
	}
	assert.Fail(t, "zkr ended for another reason", "%v %s", z.ProcessState, log.String())
	return "busy"
}

// line is what zkr has logged.
type line struct {
	Event   string
	Pgid    int     // of started
	Seconds float64 // of late
}

// said waits for an event in a log with at least the given number of seconds, or for zkr to exit.
func said(log *bubble.Buffer, event string, seconds float64, ended <-chan struct{}) (line, bool) {
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for over := false; ; {
		for text := range strings.Lines(log.String()) {
			var one line
			if json.Unmarshal([]byte(text), &one) == nil && one.Event == event && one.Seconds >= seconds {
				return one, true
			}
		}
		if over {
			return line{}, false
		}
		select {
		case <-look.C:
		case <-ended:
			over = true
		}
	}
}
