package child_test

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/child"
)

func init() {
	runtime.LockOSThread() // main runs on the first thread of the process
	programs["__first-thread-ends"] = func() {
		go func() {
			time.Sleep(time.Minute)
			os.Exit(0)
		}()
		_, _, _ = syscall.Syscall(syscall.SYS_EXIT, 0, 0, 0) // of the thread alone
	}
	scenarios["first-thread-ends"] = firstThreadEnds
}

// firstThreadEnds ends a program that the list of processes shows as a zombie, while other threads of it run.
func firstThreadEnds() error {
	h, err := child.NewHost()
	if err != nil {
		return err
	}
	c, err := run(h, child.Command{}, "exec "+os.Args[0]+" __first-thread-ends")
	if err != nil {
		return err
	}
	defer c.Close()
	if err := await(func() bool {
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.Pid()))
		return bytes.Contains(stat, []byte(") Z "))
	}); err != nil {
		return err
	}
	fmt.Println("left", c.Left())
	if err := c.Kill(); err != nil {
		return err
	}
	<-c.Done()
	fmt.Println("left", c.Left(), "status", c.Status().Code)
	return nil
}

func TestLeft_CountsAProgramWhoseFirstThreadHasEnded(t *testing.T) {
	assert.Equal(t, "left 1\nleft 0 status 137\n", host(t, "first-thread-ends"))
}
