package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// life is a process of the command beat.
type life struct {
	role   string // program or descendant
	parent int    // Windows' number of its parent process
	state  string // ZKR_STATE
	met    time.Time
	link   net.Conn
	file   string // of its command line, in /proc
	line   string // its command line

	mu    sync.Mutex
	last  time.Time // when it was last heard
	asked bool      // it has received a Ctrl-Break
}

// meet waits for the first message of a process.
func meet(ctx context.Context, at net.Listener) (*life, error) {
	defer context.AfterFunc(ctx, func() { _ = at.Close() })() // makes Accept fail
	link, err := at.Accept()
	if err != nil {
		return nil, err
	}
	l := &life{met: time.Now(), last: time.Now(), link: link}
	words := bufio.NewScanner(link)
	words.Scan()
	first := strings.Split(words.Text(), "\t")
	if len(first) != 3 {
		return nil, fmt.Errorf("a process of beat said %q: %w", words.Text(), words.Err())
	}
	l.role, l.state = first[0], first[2]
	if l.parent, err = strconv.Atoi(first[1]); err != nil {
		return nil, err
	}
	go l.listen(words)
	return l, l.find(at.Addr().String())
}

// find finds the Linux process in which it runs. The end of its connection proves less: wine may keep the connection of
// a process that was killed while it read.
func (l *life) find(address string) error {
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return err
	}
	for _, file := range files {
		line, _ := os.ReadFile(file) // empty if it has ended
		words := strings.Split(string(line), "\x00")
		if strings.HasSuffix(words[0], "beat.exe") && len(words) > 2 && words[1] == address && words[2] == l.role {
			l.file, l.line = file, string(line)
			return nil
		}
	}
	return fmt.Errorf("no process of Linux is the %s", l.role)
}

// listen returns when the connection ends.
func (l *life) listen(words *bufio.Scanner) {
	for words.Scan() {
		l.mu.Lock()
		l.last, l.asked = time.Now(), l.asked || words.Text() == "asked to stop"
		l.mu.Unlock()
	}
}

// heard returns when the process was last heard, and whether it was asked to stop.
func (l *life) heard() (last time.Time, asked bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last, l.asked
}

// speaks reports whether the process is heard from again within a second.
func (l *life) speaks() bool {
	before, _ := l.heard()
	for until := time.Now().Add(time.Second); time.Now().Before(until); time.Sleep(time.Millisecond) {
		if last, _ := l.heard(); last.After(before) {
			return true
		}
	}
	return false
}

// order makes the process exit with a status.
func (l *life) order(status byte) error {
	_, err := l.link.Write([]byte{status})
	return err
}

// wait waits for the end of the process.
func (l *life) wait(ctx context.Context) error {
	for {
		if line, _ := os.ReadFile(l.file); string(line) != l.line { // also differs for a process that is not reaped
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("the %s still lives: %w", l.role, context.Cause(ctx))
		}
		time.Sleep(2 * time.Millisecond)
	}
}
