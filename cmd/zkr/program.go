package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zkrecipes/zkrecipes/conn"
)

// split divides the arguments at the "--": the arguments of the verb come before it, and the program after it.
func split(cmd *cobra.Command, args []string, shell string) (before, program []string, err error) {
	dash := cmd.ArgsLenAtDash()
	switch {
	case dash < 0 && shell == "":
		return nil, nil, usagef("no program: put it at the end, after --: zkr %s PATH -- program arguments", cmd.Name())
	case dash < 0:
		return args, shellCommand(shell), nil
	case shell != "":
		return nil, nil, usagef("--shell and a program after --: want one of them")
	case dash == len(args):
		return nil, nil, usagef("no program after --")
	}
	return args[:dash], args[dash:], nil
}

func shellCommand(line string) []string {
	if runtime.GOOS == "windows" {
		return []string{"cmd.exe", "/c", line}
	}
	return []string{"/bin/sh", "-c", line}
}

// find looks the program up, before any lock is taken.
func find(name string) (string, error) {
	path, err := exec.LookPath(name)
	switch {
	case err == nil:
		return filepath.Abs(path)
	case errors.Is(err, fs.ErrPermission):
		return "", exitWith(exitCannotRun, err)
	default:
		if info, statErr := os.Stat(name); statErr == nil && strings.ContainsRune(name, filepath.Separator) {
			return "", exitWith(exitCannotRun, fmt.Errorf("%s: cannot be executed (%v)", name, info.Mode()))
		}
		return "", exitWith(exitNotFound, err)
	}
}

// environment is the program's environment: zkr's own, and what tells of the lock. Inherited values of an outer zkr go.
func (r *runner) environment(t *target, g *grant, session *conn.Session, statePath string) []string {
	var nodes, tokens []string
	for _, h := range g.parts {
		nodes, tokens = append(nodes, h.Path()), append(tokens, h.Token().String())
	}
	depth, _ := strconv.Atoi(os.Getenv("ZKR_DEPTH")) // 0 if there is no outer zkr
	own := []string{
		"ZKR_PATH=" + strings.Join(t.paths, "\n"),
		"ZKR_NODE=" + strings.Join(nodes, "\n"),
		"ZKR_TOKEN=" + strings.Join(tokens, "\n"),
		fmt.Sprintf("ZKR_SESSION=0x%x", session.ID()),
		"ZKR_KIND=" + t.kind,
		"ZKR_ID=" + r.client.Identity(),
		"ZKR_VALID_UNTIL=" + g.ValidUntil().Format(time.RFC3339Nano),
		"ZKR_DEPTH=" + strconv.Itoa(depth+1),
		"ZKR_STATE=" + statePath,
	}
	inherited := slices.DeleteFunc(os.Environ(), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return name == "ZKR_EVENTS" || slices.ContainsFunc(own, func(o string) bool { return strings.HasPrefix(o, name+"=") })
	})
	return append(inherited, own...)
}
