package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
)

// timeout is the session timeout. zkr then kills 200 ms before the deadline.
const timeout = 4 * time.Second

// wine prepares a program on drive C.
func wine(ctx context.Context, program string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "wine", append([]string{`C:\` + program}, args...)...)
}

// zkr prepares zkr with a JSON log.
func zkr(ctx context.Context, servers, verb string, args ...string) *exec.Cmd {
	return wine(ctx, "zkr.exe", append([]string{
		verb, "-v", "--log=json", "--servers", servers, "--session-timeout",
		timeout.String(),
	}, args...)...)
}

// statusOf runs a command, and returns its exit status and its output.
func statusOf(cmd *exec.Cmd) (status int, out string, err error) {
	text, err := cmd.Output()
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		return ended.ExitCode(), string(text), nil
	}
	return 0, string(text), err
}

// holder is a zkr with a program that has a descendant.
type holder struct {
	*exec.Cmd
	log                 *bubble.Buffer
	program, descendant *life
	gone                time.Time // when over found that both are gone
}

// hold starts zkr, and waits until its program and the descendant have reported.
func hold(ctx context.Context, servers, path string, flags ...string) (*holder, error) {
	h, listener, err := newHolder(ctx, servers, path, flags...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = listener.Close() }() // both have connected
	if err := h.Start(); err != nil {
		return nil, err
	}
	return h, h.meet(ctx, listener)
}

// newHolder prepares zkr, and listens for its program.
func newHolder(ctx context.Context, servers, path string, flags ...string) (*holder, net.Listener, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	args := slices.Concat(flags, []string{path, "--", `C:\beat.exe`, listener.Addr().String(), "program"})
	h := &holder{Cmd: zkr(ctx, servers, "lock", args...), log: &bubble.Buffer{}}
	h.Stderr = h.log
	return h, listener, nil
}

// meet waits until the program and the descendant have reported.
func (h *holder) meet(ctx context.Context, listener net.Listener) error {
	for _, of := range []**life{&h.program, &h.descendant} {
		l, err := meet(ctx, listener)
		if err != nil {
			return fmt.Errorf("no program: %w; zkr says: %s", err, h.log.String())
		}
		*of = l
	}
	return nil
}

// over waits until zkr, its program and the descendant have ended, and returns the exit status of zkr.
func (h *holder) over(ctx context.Context) (status int, err error) {
	if err := errors.Join(h.program.wait(ctx), h.descendant.wait(ctx)); err != nil {
		return 0, fmt.Errorf("%w; zkr says: %s", err, h.log.String())
	}
	h.gone = time.Now()
	err = h.Wait()
	var ended *exec.ExitError
	if !errors.As(err, &ended) {
		return 0, err
	}
	if s, ok := ended.Sys().(syscall.WaitStatus); ok && s.Signaled() {
		return 128 + int(s.Signal()), nil
	}
	return ended.ExitCode(), nil
}

// event is an entry of zkr's log.
type event struct {
	Event      string
	ValidUntil time.Time `json:"valid_until"`
}

// await waits until zkr has logged something.
func (h *holder) await(ctx context.Context, name string) error {
	for ctx.Err() == nil {
		if _, ok := h.told(name); ok {
			return nil
		}
		time.Sleep(5 * time.Millisecond)
	}
	return fmt.Errorf("zkr has not told %q: %s", name, h.log.String())
}

// told returns the last event with the name.
func (h *holder) told(name string) (last event, ok bool) {
	for line := range strings.Lines(h.log.String()) {
		var e event
		if json.Unmarshal([]byte(line), &e) == nil && e.Event == name {
			last, ok = e, true
		}
	}
	return last, ok
}

// shellLine formats words as a line for a shell.
func shellLine(words []string) string {
	line := make([]string, len(words))
	for i, w := range words {
		line[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
	}
	return strings.Join(line, " ")
}
