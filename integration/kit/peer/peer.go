// Package peer runs a process that uses another library, so that its recipes and ours can meet on the same znodes. The
// process speaks the line protocol described in integration/others/curator/Peer.java.
package peer

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zkrecipes/zkrecipes/zktest/check"
)

// A Peer is a process with a client of another library. Its methods are safe for concurrent use.
type Peer struct {
	// Event is called with the events of loops.
	Event func(check.Event)
	// Revoked receives the names of holders that are asked to release.
	Revoked chan string

	process *exec.Cmd
	ended   chan struct{}

	mu      sync.Mutex
	in      io.Writer
	tag     int
	answers map[string]chan string
}

// ErrGone reports that the process has ended.
var ErrGone = errors.New("the process has ended")

// Start runs a program until the end of the test. The program prints "ready" once it is connected. If it does not, its
// standard error is shown.
func Start(tb testing.TB, process *exec.Cmd, event func(check.Event)) *Peer {
	tb.Helper()
	p := &Peer{
		Event: event, Revoked: make(chan string, 16), ended: make(chan struct{}),
		answers: map[string]chan string{}, process: process,
	}
	log, err := os.CreateTemp(tb.TempDir(), "peer-*.log")
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = log.Close() }() // the process has its own descriptor
	p.process.Stderr = log
	in, err := p.process.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	out, err := p.process.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := p.process.Start(); err != nil {
		tb.Fatal(err)
	}
	p.in = in
	ready := make(chan struct{})
	go func() {
		defer close(p.ended)
		p.read(out, ready)
		_ = p.process.Wait() // it was killed on purpose
	}()
	tb.Cleanup(p.Kill)
	select {
	case <-ready:
	case <-p.ended:
		text, _ := os.ReadFile(log.Name())
		tb.Fatalf("%v\n%s", ErrGone, text)
	case <-time.After(10 * time.Minute):
		tb.Fatal("the process does not connect")
	}
	return p
}

func (p *Peer) read(out io.Reader, ready chan struct{}) {
	for lines := bufio.NewScanner(out); lines.Scan(); {
		tag, rest, _ := strings.Cut(lines.Text(), " ")
		switch tag {
		case "ready":
			close(ready)
		case "+":
			var e check.Event
			if json.Unmarshal([]byte(rest), &e) == nil && p.Event != nil {
				p.Event(e)
			}
		case "-":
			p.Revoked <- strings.TrimPrefix(rest, "revoked ")
		default:
			p.mu.Lock()
			answer := p.answers[tag]
			delete(p.answers, tag)
			p.mu.Unlock()
			if answer != nil {
				answer <- rest
			}
		}
	}
}

// Begin sends a request, and returns a function that waits for the answer.
func (p *Peer) Begin(request ...any) func(context.Context) (string, error) {
	p.mu.Lock()
	p.tag++
	tag, answer := strconv.Itoa(p.tag), make(chan string, 1)
	p.answers[tag] = answer
	_, err := fmt.Fprintln(p.in, append([]any{tag}, request...)...)
	p.mu.Unlock()
	return func(ctx context.Context) (string, error) {
		if err != nil {
			return "", err
		}
		select {
		case text := <-answer:
			verdict, rest, _ := strings.Cut(text, " ")
			if verdict != "ok" {
				return "", fmt.Errorf("peer: %v: %s", request, rest)
			}
			return rest, nil
		case <-p.ended:
			return "", ErrGone
		case <-ctx.Done():
			return "", fmt.Errorf("peer: %v: %w", request, context.Cause(ctx))
		}
	}
}

// Ask sends a request and waits for the answer.
func (p *Peer) Ask(ctx context.Context, request ...any) (string, error) {
	return p.Begin(request...)(ctx)
}

// Loop starts a loop that lasts until the process is killed. If it ends earlier, the test fails.
func (p *Peer) Loop(tb testing.TB, request ...any) {
	tb.Helper()
	done := p.Begin(append([]any{"loop"}, request...)...)
	go func() {
		if _, err := done(tb.Context()); !errors.Is(err, ErrGone) && tb.Context().Err() == nil {
			tb.Errorf("the loop has ended: %v", err)
		}
	}()
}

// Kill kills the process.
func (p *Peer) Kill() {
	_ = p.process.Process.Kill() // it may already have ended
	<-p.ended
}
