//go:build unix

package health

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// runs wants exit status 0 of a line. The host of the program reaps every process below this one, so the shell
// reports the status by a pipe. At the end of ctx the line is killed, with what it has started in its group, and is
// gone when the check returns.
func runs(line string) Check {
	return func(ctx context.Context) error {
		out, in, err := os.Pipe()
		if err != nil {
			return err
		}
		defer out.Close() //nolint:errcheck // it was only read
		cmd := exec.CommandContext(ctx, "/bin/sh", "-c", `/bin/sh -c "$1" 3>&-; echo $? >&3`, "zkr-check", line)
		cmd.ExtraFiles = []*os.File{in}
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
		err = cmd.Start()
		_ = in.Close() // the shell has its own copy
		if err != nil {
			return err
		}
		told, err := io.ReadAll(out)
		_ = cmd.Wait() // the host may have taken its status
		if ctx.Err() != nil {
			awaitEnd(cmd.Process.Pid)
		}
		switch status := strings.TrimSpace(string(told)); {
		case err != nil:
			return err
		case status == "0":
			return nil
		case status == "":
			return fmt.Errorf("the check was killed: %w", context.Cause(ctx))
		default:
			return fmt.Errorf("the check has ended with status %s", status)
		}
	}
}

// awaitEnd waits until nothing is left of a group that was killed. What cannot be killed within two seconds is left alone.
func awaitEnd(group int) {
	for limit := time.Now().Add(2 * time.Second); time.Now().Before(limit); time.Sleep(time.Millisecond) {
		if syscall.Kill(-group, 0) != nil {
			return
		}
	}
}
