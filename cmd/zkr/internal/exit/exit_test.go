package exit

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOfStart_OnlyTheProgramsOwnFaultsAreFinal(t *testing.T) {
	for err, want := range map[error]int{
		exec.ErrNotFound: NotFound, syscall.ENOENT: NotFound,
		syscall.EACCES: CannotRun, syscall.EPERM: CannotRun, syscall.ENOEXEC: CannotRun, syscall.E2BIG: CannotRun, syscall.EISDIR: CannotRun,
		syscall.EAGAIN: Failure, syscall.EMFILE: Failure, syscall.ENFILE: Failure, syscall.ENOMEM: Failure, syscall.ETXTBSY: Failure, syscall.EIO: Failure,
		errors.New("the guard has ended: EOF"): Failure,
	} {
		code, message := Status(fmt.Errorf("run: %w", OfStart(&os.PathError{Op: "start", Path: "/bin/worker", Err: err})))
		require.Equal(t, want, code, message)
		require.Contains(t, message, err.Error())
	}
}
