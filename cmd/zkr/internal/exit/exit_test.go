package exit

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
)

func TestOfStart_OnlyTheProgramsOwnFaultsAreFinal(t *testing.T) {
	for err, want := range map[error]int{
		exec.ErrNotFound: NotFound, syscall.ENOENT: NotFound,
		syscall.EACCES: CannotRun, syscall.EPERM: CannotRun, syscall.ENOEXEC: CannotRun, syscall.E2BIG: CannotRun,
		syscall.EISDIR: CannotRun,
		syscall.EAGAIN: Failure, syscall.EMFILE: Failure, syscall.ENFILE: Failure, syscall.ENOMEM: Failure,
		syscall.ETXTBSY: Failure, syscall.EIO: Failure,
		errors.New("the guard has exited: EOF"): Failure,
	} {
		code, message := Status(fmt.Errorf("run: %w", OfStart(&os.PathError{Op: "start", Path: "/bin/worker", Err: err})))
		require.Equal(t, want, code, message)
		require.Contains(t, message, err.Error())
	}
}

// TestStatus_AuthenticationIsNamedFirst: advice to authenticate precedes what a server that requires authentication has
// left in doubt.
func TestStatus_AuthenticationIsNamedFirst(t *testing.T) {
	err := fmt.Errorf("create /p: %w: %w", zkrecipes.ErrUnknownOutcome, zkrecipes.CodeNeedsSASL)
	code, message := Status(fmt.Errorf("lock: %w", err))
	require.Equal(t, NoAccess, code)
	require.Regexp(t,
		`^the servers require authentication: pass --auth-file, --kerberos, or --tls-cert and --tls-key, depending on `+
			`their enforce.auth.schemes: lock: create /p: .*the server requires authentication \(-124\)$`,
		AsFlags.Replace(message))
}

// TestAsFlags_TooManyNodes: the page cannot follow that many nodes, whatever the limits of a cache.
func TestAsFlags_TooManyNodes(t *testing.T) {
	require.Equal(t, "1000001 nodes below / exceed the limit of 1000000: see --ui-root",
		AsFlags.Replace("1000001 nodes below / exceed the limit of 1000000: cache less, or raise WithMaxNodes"))
}
