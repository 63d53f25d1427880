package exit

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
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

// TestStatus_AuthenticationIsNamedFirst: what a server that requires it has left in doubt comes behind what to do.
func TestStatus_AuthenticationIsNamedFirst(t *testing.T) {
	err := fmt.Errorf("create /p: %w: %w", zkrecipes.ErrUnknownOutcome, zkrecipes.CodeNeedsSASL)
	code, message := Status(fmt.Errorf("lock: %w", err))
	require.Equal(t, NoAccess, code)
	require.Regexp(t, `^the servers require authentication: give --auth-file, --kerberos, or --tls-cert and --tls-key, by a scheme in `+
		`their enforce.auth.schemes: lock: create /p: .*the server requires authentication \(-124\)$`, AsFlags.Replace(message))
}

// unused are options that zkr never sets, in errors of constructors that it cannot get.
var unused = []string{
	"WithCodec", "WithDepth", "WithDialer", "WithLeave", "WithMaxBytes", "WithMaxNodes", "WithRecheck", "WithReplace", "WithRetry",
	"WithStrategy", "WithWindow",
}

// TestAsFlags_NoOptionIsLeft: an operator knows the flags of zkr, and not the options of the library.
func TestAsFlags_NoOptionIsLeft(t *testing.T) {
	option := regexp.MustCompile(`\bWith[A-Z]\w*`)
	for _, dir := range []string{"conn", "internal", "recipes", "sasl", "zkkerberos", "errors.go", "code.go"} {
		require.NoError(t, filepath.WalkDir(filepath.Join("../../../..", dir), func(name string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case entry.IsDir() && entry.Name() == "testkit":
				return filepath.SkipDir
			case !strings.HasSuffix(name, ".go"), strings.HasSuffix(name, "_test.go"):
				return nil
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				for _, left := range option.FindAllString(AsFlags.Replace(literal(n)), -1) {
					require.True(t, slices.Contains(unused, left), "%s: %s reaches operators: add it to AsFlags", name, left)
				}
				_, sum := n.(*ast.BinaryExpr)
				return !sum
			})
			return nil
		}))
	}
}

// literal is the text of a string literal, or of a sum of some; empty for any other node.
func literal(n ast.Node) string {
	switch e := n.(type) {
	case *ast.BasicLit:
		text, _ := strconv.Unquote(e.Value) // a number is none
		return text
	case *ast.BinaryExpr:
		return literal(e.X) + literal(e.Y)
	}
	return ""
}
