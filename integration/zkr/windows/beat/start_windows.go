package main

import (
	"errors"
	"os/exec"
	"syscall"

	"golang.org/x/sys/windows"
)

// startDetached starts a program without a console, and in a new process group. It must not leave the job object.
func startDetached(program string, args ...string) error {
	const detached = windows.DETACHED_PROCESS | windows.CREATE_NEW_PROCESS_GROUP
	start := func(flags uint32) error {
		cmd := exec.Command(program, args...)
		cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: flags}
		return cmd.Start()
	}
	if err := start(detached | windows.CREATE_BREAKAWAY_FROM_JOB); !errors.Is(err, windows.ERROR_ACCESS_DENIED) {
		return errors.Join(errors.New("a process that leaves the job object is not refused"), err)
	}
	return start(detached)
}
