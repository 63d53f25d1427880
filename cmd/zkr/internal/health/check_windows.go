package health

import (
	"context"
	"os/exec"
)

// runs expects exit status 0 from a command line.
func runs(line string) Check {
	return func(ctx context.Context) error { return exec.CommandContext(ctx, "cmd.exe", "/c", line).Run() }
}
