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

// runs expects exit status 0 from a shell command line. The host of the program reaps every process below this one, so
// the shell reports the status through a pipe. When ctx ends, the command is killed together with everything that it
// has started in its group, and is gone when the check returns.
func runs(line string) Check {
	return func(ctx context.Context) error {
		out, in, err := os.Pipe()
		if err != nil {
			return err
		}
		defer out.Close() //nolint:errcheck // read-only
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
		_ = cmd.Wait() // the host may have reaped it
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
			return fmt.Errorf("the check exited with status %s", status)
		}
	}
}

// awaitEnd waits until nothing is left of a killed group. It gives up after two seconds.
func awaitEnd(group int) {
	for limit := time.Now().Add(2 * time.Second); time.Now().Before(limit); time.Sleep(time.Millisecond) {
		if syscall.Kill(-group, 0) != nil {
			return
		}
	}
}
