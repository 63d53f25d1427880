//go:build linux

package exclusion

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"time"
	"unsafe"
)

// asProgram as the first argument turns a test binary into the program that zkr runs.
const asProgram = "__shows-signs-of-life"

// Main runs the program that zkr runs in the tests, and does not return, if the test binary was started for that. A
// test binary calls it before anything else.
//
// The program shows a sign of life every 5 ms, in a file that all programs share. Its kinds:
//
//	plain   shows signs of life
//	deaf    the same, and ignores SIGTERM
//	forks   has a child that does the same as deaf, and does so itself
//	daemon  has a grandchild like that, in a session of its own, whose parent has ended
//	fenced  shows its token to a fence before each sign
//	becomes has a child like deaf that becomes another user, if it may
func Main() {
	if len(os.Args) < 4 || os.Args[1] != asProgram {
		return
	}
	kind, file := os.Args[2], os.Args[3]
	word := proven
	switch kind {
	case "deaf":
		signal.Ignore(syscall.SIGTERM)
	case "forks":
		signal.Ignore(syscall.SIGTERM)
		another(false, "deaf", file)
	case "daemon":
		another(true, "parent-of-daemon", file)
	case "parent-of-daemon":
		another(true, "deaf", file)
		os.Exit(0)
	case "becomes":
		become := exec.Command(os.Args[5], asProgram, "becoming", file, os.Args[4])
		if err := become.Start(); err != nil {
			panic(err)
		}
	case "becoming":
		signal.Ignore(syscall.SIGTERM)
		uid, _ := strconv.Atoi(os.Args[4]) // the test formatted it from a number
		_ = syscall.Setuid(uid)            // fails under no_new_privs
	case "root?":
		if syscall.Setuid(0) != nil {
			os.Exit(1)
		}
		os.Exit(0)
	case "fenced":
		word = admitted(os.Args[4])
	}
	beat(file, word)
	os.Exit(0)
}

// another starts this program again, as a process that must outlive its parent.
func another(session bool, args ...string) {
	cmd := exec.Command(os.Args[0], append([]string{asProgram}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: session}
	if err := cmd.Start(); err != nil {
		panic(err)
	}
}

// admitted returns a function that asks the fence at an address.
func admitted(address string) func() string {
	c, err := net.Dial("tcp", address)
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

// proven returns the deadline of the lock on the boot clock, "lost", or "torn" for an incomplete record.
func proven() string {
	var state struct {
		Until int64 `json:"valid_until_boot_ns"`
	}
	record, err := os.ReadFile(os.Getenv("ZKR_STATE"))
	sum, text, _ := bytes.Cut(record, []byte(" "))
	if string(sum) != fmt.Sprintf("%08x", crc32.ChecksumIEEE(text)) { // zkr may be writing the record
		return "torn"
	}
	if err != nil || json.Unmarshal(text, &state) != nil || state.Until == 0 {
		return "lost"
	}
	return strconv.FormatInt(state.Until, 10)
}

// beat shows signs of life until the process is killed, or for five minutes, so that a failed test leaves nothing behind.
func beat(file string, word func() string) {
	out, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	next := time.NewTicker(5 * time.Millisecond)
	for range 60_000 {
		now := bootClock() // before the look: the machine may stop the process in between
		_, _ = fmt.Fprintf(out, "%s %d %d %s\n", os.Getenv("ZKR_TOKEN"), os.Getpid(), now, word())
		<-next.C
	}
}

// bootClock returns the time on the clock of ZKR_STATE, which all processes share.
func bootClock() time.Duration {
	const boottime = 7
	var now syscall.Timespec
	if _, _, failed := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, boottime,
		uintptr(unsafe.Pointer(&now)), 0); failed != 0 {
		panic(failed)
	}
	return time.Duration(now.Nano())
}
