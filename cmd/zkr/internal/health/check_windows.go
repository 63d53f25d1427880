package health

import (
	"context"
	"os/exec"
)

// runs wants exit status 0 of a line.
func runs(line string) Check {
	return func(ctx context.Context) error { return exec.CommandContext(ctx, "cmd.exe", "/c", line).Run() }
}
