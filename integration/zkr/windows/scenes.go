package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/zkrecipes/zkrecipes/integration/kit/zkserver"
)

// The exit statuses of zkr that scenes expect.
const (
	busy   = 75
	lost   = 79
	maxRun = 124
)

// stage is where the scenes are played.
type stage struct {
	server *zkserver.Server
	rounds int
	path   string // of the lock, for one scene
}

// scene demonstrates something, and returns the result in words.
type scene struct {
	name string
	run  func(*stage, context.Context) (string, error)
}

var scenes = []scene{
	{"exit status", (*stage).exitStatus},
	{"second holder", (*stage).secondHolder},
	{"status and held", (*stage).look},
	{"hand-over", (*stage).handOver},
	{"leftovers", (*stage).leftovers},
	{"max-run", (*stage).tooLong},
	{"server stops", (*stage).serverStops},
	{"partition", (*stage).partition},
	{"zkr is killed by taskkill /F", (*stage).taskkill},
	{"zkr is killed by kill -9", (*stage).killed},
	{"zkr is stopped", (*stage).zkrStops},
	{"Ctrl-C", (*stage).ctrlC},
}

// limit is how long a scene may take per round.
const limit = 20 * time.Second

// play plays a scene on a separate path. Everything that it has started ends with it.
func (s *stage) play(ctx context.Context, sc scene) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, limit*time.Duration(s.rounds))
	defer cancel()
	s.path = "/" + strings.ReplaceAll(strings.ReplaceAll(sc.name, " ", "-"), "/", "")
	return sc.run(s, ctx)
}

// each plays a round as often as requested, each time on a different path.
func (s *stage) each(round func() error) error {
	scene := s.path
	for i := range s.rounds {
		s.path = fmt.Sprintf("%s/%d", scene, i+1)
		if err := round(); err != nil {
			return err
		}
	}
	return nil
}

func (s *stage) hold(ctx context.Context, flags ...string) (*holder, error) {
	return hold(ctx, s.server.Addr(), s.path, flags...)
}

// lock runs a Windows program under the lock, with flags before the path.
func (s *stage) lock(ctx context.Context, flags []string, program ...string) (status int, out string, err error) {
	args := append(append(flags, s.path, "--"), program...)
	return statusOf(zkr(ctx, s.server.Addr(), "lock", args...))
}

// want compares exit statuses.
func want(what string, status, expected int, err error) error {
	if err == nil && status != expected {
		err = fmt.Errorf("%s: exit status %d, want %d", what, status, expected)
	}
	return err
}

func (s *stage) exitStatus(ctx context.Context) (string, error) {
	for _, expected := range []int{0, 3} {
		status, _, err := s.lock(ctx, nil, "cmd.exe", "/c", "exit "+strconv.Itoa(expected))
		if err := want("zkr lock", status, expected, err); err != nil {
			return "", err
		}
	}
	return "zkr ends with 0 and 3, as its programs do", nil
}

func (s *stage) secondHolder(ctx context.Context) (string, error) {
	h, err := s.hold(ctx)
	if err != nil {
		return "", err
	}
	for _, flag := range []string{"--try", "--wait=5s"} {
		status, _, err := s.lock(ctx, []string{flag}, "cmd.exe", "/c", "exit 0")
		if err := want("zkr lock "+flag, status, busy, err); err != nil {
			return "", err
		}
	}
	return "refused with 75, by --try and after --wait", s.finish(ctx, h, 0)
}

// finish ends the program of a holder, and what it has started, after which zkr exits with the status of the program.
func (s *stage) finish(ctx context.Context, h *holder, status byte) error {
	if err := h.descendant.order(0); err != nil {
		return err
	}
	if err := errors.Join(h.descendant.wait(ctx), h.program.order(status)); err != nil {
		return err
	}
	code, err := h.over(ctx)
	return want("zkr lock", code, int(status), err)
}

func (s *stage) look(ctx context.Context) (string, error) {
	h, err := s.hold(ctx)
	if err != nil {
		return "", err
	}
	status, out, err := statusOf(zkr(ctx, s.server.Addr(), "status", "-o", "json", s.path))
	if err := want("zkr status", status, 0, err); err != nil {
		return "", err
	}
	var view struct {
		Queues []struct{ Holders []struct{ Process int } }
	}
	if err := json.Unmarshal([]byte(out), &view); err != nil {
		return "", err
	}
	if len(view.Queues) != 1 || len(view.Queues[0].Holders) != 1 || view.Queues[0].Holders[0].Process != h.program.parent {
		return "", fmt.Errorf("zkr status does not name process %d as the holder: %s", h.program.parent, out)
	}
	if err := h.held(ctx, 0); err != nil {
		return "", err
	}
	return fmt.Sprintf("zkr status names process %d, which has started the program; zkr held ends with 0",
		h.program.parent), s.finish(ctx, h, 0)
}

// held runs zkr held as the program could.
func (h *holder) held(ctx context.Context, expected int) error {
	status, _, err := statusOf(wine(ctx, "zkr.exe", "held", "--state", h.program.state))
	return want("zkr held", status, expected, err)
}

func (s *stage) handOver(ctx context.Context) (string, error) {
	first, err := s.hold(ctx)
	if err != nil {
		return "", err
	}
	second, listener, err := newHolder(ctx, s.server.Addr(), s.path)
	if err != nil {
		return "", err
	}
	defer func() { _ = listener.Close() }() // all have connected
	if err := second.Start(); err != nil {
		return "", err
	}
	if err := second.await(ctx, "waiting"); err != nil {
		return "", err
	}
	if err := s.finish(ctx, first, 7); err != nil {
		return "", err
	}
	if err := second.meet(ctx, listener); err != nil {
		return "", err
	}
	gap := second.program.met.Sub(first.gone)
	if gap <= 0 {
		return "", fmt.Errorf("the next program ran %v before the end of the first one", -gap)
	}
	return fmt.Sprintf("the next program starts %v after the end of the first one", spans{gap}), s.finish(ctx, second, 0)
}

func (s *stage) leftovers(ctx context.Context) (string, error) {
	waits, err := s.hold(ctx, "--leftovers=wait")
	if err != nil {
		return "", err
	}
	if err := errors.Join(waits.program.order(5), waits.program.wait(ctx)); err != nil {
		return "", err
	}
	status, _, err := s.lock(ctx, []string{"--try"}, "cmd.exe", "/c", "exit 0")
	if err := want("zkr lock --try beside a descendant", status, busy, err); err != nil {
		return "", err
	}
	if err := waits.descendant.order(0); err != nil {
		return "", err
	}
	status, err = waits.over(ctx)
	if err := want("zkr lock --leftovers wait", status, 5, err); err != nil {
		return "", err
	}
	kills, err := s.hold(ctx, "--grace=500ms")
	if err != nil {
		return "", err
	}
	if err := kills.program.order(5); err != nil {
		return "", err
	}
	status, err = kills.over(ctx)
	return "a descendant keeps the lock, or is killed after the grace; zkr ends with the status of the program",
		want("zkr lock --leftovers kill", status, 5, err)
}

func (s *stage) tooLong(ctx context.Context) (string, error) {
	h, err := s.hold(ctx, "--max-run=1s", "--grace=500ms")
	if err != nil {
		return "", err
	}
	status, err := h.over(ctx)
	return "program and descendant are gone, and zkr ends with 124", want("zkr lock --max-run", status, maxRun, err)
}

// zkrStops stops zkr past its deadline. There is no guard on Windows, so the program keeps running in the meantime. It
// can only query zkr.
func (s *stage) zkrStops(ctx context.Context) (string, error) {
	h, err := s.hold(ctx)
	if err != nil {
		return "", err
	}
	if err := h.Process.Signal(syscall.SIGSTOP); err != nil {
		return "", err
	}
	time.Sleep(timeout + timeout/4)
	if !h.program.speaks() || !h.descendant.speaks() {
		return "", errors.New("a program of a zkr that is stopped does not go on: mend the guide")
	}
	if err := h.held(ctx, lost); err != nil {
		return "", err
	}
	again := time.Now()
	if err := h.Process.Signal(syscall.SIGCONT); err != nil {
		return "", err
	}
	status, err := h.over(ctx)
	return fmt.Sprintf("the program goes on past the deadline, and zkr held ends with 79; it is gone %v after zkr goes on",
		spans{h.gone.Sub(again)}), want("zkr lock", status, lost, err)
}

// ctrlC presses Ctrl-C in a console. The program is in its own process group, so zkr has to pass on a Ctrl-Break.
func (s *stage) ctrlC(ctx context.Context) (string, error) {
	h, listener, err := newHolder(ctx, s.server.Addr(), s.path)
	if err != nil {
		return "", err
	}
	defer func() { _ = listener.Close() }() // all have connected
	in := exec.CommandContext(ctx, "script", "-qec", shellLine(h.Args), "/dev/null")
	keyboard, err := in.StdinPipe()
	if err != nil {
		return "", err
	}
	in.Stdout = h.log
	h.Cmd = in
	if err := h.Start(); err != nil {
		return "", err
	}
	if err := h.meet(ctx, listener); err != nil {
		return "", err
	}
	press := func() error { _, err := keyboard.Write([]byte{3}); return err }
	if err := press(); err != nil {
		return "", err
	}
	said := "wine does not pass Ctrl-Break on"
	time.Sleep(200 * time.Millisecond) // two at once are one
	if _, asked := h.program.heard(); asked {
		said = "the program gets a Ctrl-Break"
	}
	if err := press(); err != nil {
		return "", err
	}
	status, err := h.over(ctx)
	return said + "; a second Ctrl-C kills it, and its descendant", want("zkr lock", status, 1, err)
}
