package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/exit"
)

// split divides the arguments at "--": the verb's arguments precede it, and the program follows it.
func split(cmd *cobra.Command, args []string, shell string) (before, program []string, err error) {
	dash := cmd.ArgsLenAtDash()
	switch {
	case dash < 0 && shell == "":
		return nil, nil, exit.Usagef("no program: put it at the end, after --: zkr %s PATH -- PROGRAM ARGUMENT...",
			cmd.Name())
	case dash < 0:
		return args, shellCommand(shell), nil
	case shell != "":
		return nil, nil, exit.Usagef("--shell and a program after --: use only one of them")
	case dash == len(args):
		return nil, nil, exit.Usagef("no program after --")
	}
	return args[:dash], args[dash:], nil
}

func shellCommand(line string) []string {
	if runtime.GOOS == "windows" {
		return []string{"cmd.exe", "/c", line}
	}
	return []string{"/bin/sh", "-c", line}
}

// find resolves the program before any lock is acquired.
func find(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err == nil {
		return filepath.Abs(path)
	}
	if info, statErr := os.Stat(name); statErr == nil && strings.ContainsRune(name, filepath.Separator) {
		return "", exit.With(exit.CannotRun, fmt.Errorf("%s: cannot be executed (%v)", name, info.Mode()))
	}
	return "", exit.OfStart(err)
}
