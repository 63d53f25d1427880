// Package curator runs a Java process with Curator in it, so that its recipes and ours can meet on the same znodes.
package curator

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zkrecipes/zkrecipes/integration/versions"
	"github.com/zkrecipes/zkrecipes/zktest/check"
)

// A Peer is a process with a Curator client. Its methods are safe for concurrent use.
type Peer struct {
	// Event is called with the events of loops.
	Event func(check.Event)
	// Revoked receives the names of the holders that are asked to release.
	Revoked chan string

	process *exec.Cmd
	ended   chan struct{}

	mu      sync.Mutex
	in      io.Writer
	tag     int
	answers map[string]chan string
}

var errGone = errors.New("the Curator process has ended")

// Compile compiles the program into dir, unless it is there already. ZKRECIPES_CURATOR chooses the release of Curator. If
// there is no compiler or no Curator, the test is skipped; with REQUIRE_REAL=1 it fails.
func Compile(tb testing.TB, dir string) {
	tb.Helper()
	jars, err := versions.Curator.ClassPath("")
	if err == nil {
		_, err = exec.LookPath("javac")
	}
	if err != nil {
		if os.Getenv("REQUIRE_REAL") == "1" {
			tb.Fatal(err)
		}
		tb.Skip(err)
	}
	tb.Log("class path of Curator:", jars)
	if _, err := os.Stat(filepath.Join(dir, "Peer.class")); err == nil {
		return
	}
	if out, err := exec.Command("javac", "-cp", jars, "-d", dir, "Peer.java").CombinedOutput(); err != nil {
		tb.Fatalf("javac: %v\n%s", err, out)
	}
}

// Start runs a peer, compiled into dir, until the end of the test.
func Start(tb testing.TB, dir, connect string, session time.Duration, event func(check.Event)) *Peer {
	tb.Helper()
	jars, err := versions.Curator.ClassPath("")
	if err != nil {
		tb.Fatal(err)
	}
	p := &Peer{
		Event: event, Revoked: make(chan string, 16), ended: make(chan struct{}), answers: map[string]chan string{},
		process: exec.Command("java", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC",
			"-cp", dir+":"+jars, "Peer", connect, strconv.FormatInt(session.Milliseconds(), 10)),
	}
	log, err := os.CreateTemp(dir, "peer-*.log")
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = log.Close() }() // the process has a descriptor of its own
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
		tb.Fatalf("%v\n%s", errGone, text)
	case <-time.After(time.Minute):
		tb.Fatal("the Curator process does not connect")
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

// Begin sends a request; the returned function waits for its answer.
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
				return "", fmt.Errorf("curator: %v: %s", request, rest)
			}
			return rest, nil
		case <-p.ended:
			return "", errGone
		case <-ctx.Done():
			return "", fmt.Errorf("curator: %v: %w", request, context.Cause(ctx))
		}
	}
}

// Ask sends a request and waits for the answer.
func (p *Peer) Ask(ctx context.Context, request ...any) (string, error) {
	return p.Begin(request...)(ctx)
}

// Kill ends the process at once.
func (p *Peer) Kill() {
	_ = p.process.Process.Kill() // it may have ended already
	<-p.ended
}
