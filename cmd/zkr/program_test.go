//go:build unix

package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// program is what zkr runs in tests: it shows a sign of life every 5 ms, in a file that it shares with all others.
//
//	plain       shows signs of life
//	deaf        the same, and ignores SIGTERM
//	forks       has a child that does the same as deaf, and does so itself
//	daemon      has a grandchild like that, in a session of its own, whose parent has ended
//	fenced      shows its token to a fence before each sign
//	interrupts  shows none: it tells each interrupt, until half a second after the first, and exits with 5
func program(kind string, args []string) {
	file := ""
	if len(args) > 0 {
		file = args[0]
	}
	switch kind {
	case "plain":
	case "deaf":
		signal.Ignore(syscall.SIGTERM)
	case "forks":
		signal.Ignore(syscall.SIGTERM)
		another(false, "deaf", file)
	case "daemon":
		another(true, "parent-of-daemon", file)
	case "parent-of-daemon":
		another(true, "deaf", file)
		return
	case "interrupts":
		countInterrupts()
		return
	case "fenced":
		beat(file, admitted(args[1]))
	}
	beat(file, proven)
}

func countInterrupts() {
	interrupts := make(chan os.Signal, 10)
	signal.Notify(interrupts, os.Interrupt)
	fmt.Println("ready")
	var end <-chan time.Time
	for n := 1; ; n++ {
		select {
		case <-interrupts:
			fmt.Println("interrupt", n)
		case <-end:
			os.Exit(5)
		}
		if end == nil {
			end = time.After(500 * time.Millisecond)
		}
	}
}

// another starts this program again.
func another(session bool, args ...string) {
	cmd := exec.Command(os.Args[0], append([]string{asProgram}, args...)...) //nolint:noctx // it is to outlive its parent
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: session}
	if err := cmd.Start(); err != nil {
		panic(err)
	}
}

// admitted asks the fence at an address.
func admitted(address string) func() string {
	c, err := net.Dial("tcp", address) //nolint:noctx // it lives as long as the process
	if err != nil {
		panic(err)
	}
	answers := bufio.NewScanner(c)
	return func() string {
		_, _ = fmt.Fprintln(c, os.Getenv("ZKR_TOKEN")) // the answer is the proof
		answers.Scan()
		return answers.Text()
	}
}

// proven is the deadline of the lock on the boot clock, or "lost".
func proven() string {
	s, _, err := readState(os.Getenv("ZKR_STATE"))
	if err != nil || s.Until == 0 {
		return "lost"
	}
	return strconv.FormatInt(int64(s.Until), 10)
}

// beat shows signs of life until the process is killed, or for a minute: a test that fails leaves nothing behind.
func beat(file string, word func() string) {
	out, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	for range 12_000 {
		said := word()
		_, _ = fmt.Fprintf(out, "%s %d %d %s\n", os.Getenv("ZKR_TOKEN"), os.Getpid(), bootClock(), said)
		time.Sleep(5 * time.Millisecond)
	}
}

// sign is a sign of life.
type sign struct {
	token int64
	pid   int
	at    time.Duration // on the boot clock, which all processes share
	word  string
}

// signs returns the newest signs of life, of several holders: the whole file would take long to read again and again.
func signs(file string) (all []sign) {
	f, err := os.Open(file)
	if err != nil {
		return nil
	}
	defer f.Close() //nolint:errcheck // it was only read
	const newest = 1 << 17
	if size, err := f.Seek(0, io.SeekEnd); err == nil {
		_, _ = f.Seek(max(size-newest, 0), io.SeekStart) // half a line at the beginning is skipped below
	}
	text, err := io.ReadAll(f)
	if err != nil {
		return nil
	}
	for line := range strings.SplitSeq(string(text), "\n") {
		words := strings.Fields(line)
		if len(words) != 4 {
			continue
		}
		token, _ := strconv.ParseInt(words[0], 10, 64)
		pid, _ := strconv.Atoi(words[1])
		at, _ := strconv.ParseInt(words[2], 10, 64)
		all = append(all, sign{token, pid, time.Duration(at), words[3]})
	}
	return all
}
