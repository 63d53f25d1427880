package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/bootclock"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/exit"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/supervise"
)

func newHeld(a *app) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "held",
		Short: "Check whether the lock of this program is still proven, without asking a server",
		Example: `  while zkr held; do next-step || break; done
  zkr held -o json`,
		Long: `held is for programs that zkr runs. It reads the file that zkr keeps up to date for them, so it uses no
network and hardly any time.

Exit status: 0 if the lock is proven at this moment, 79 if it is lost or not proven, and 66 if held
cannot tell because the file is missing: a cleaner of old files has removed it, the disk is full, or
zkr has ended. zkr creates the file again when a server answers. "zkr check" asks the servers.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file == "" {
				return exit.Usagef("no lock to check: run this in a program that zkr runs, which sets ZKR_STATE")
			}
			s, held, err := supervise.ReadState(file)
			if err != nil {
				return exit.With(exit.CannotTell, fmt.Errorf("cannot tell whether the lock is held: %w; zkr check asks the servers",
					err))
			}
			left := max(s.Until-bootclock.Now(), 0).Round(time.Millisecond)
			answer := map[string]any{"held": held, "path": s.Path, "token": s.Token, "left_seconds": left.Seconds()}
			word := "held"
			if !held {
				word = "lost"
			}
			if a.output.format != "table" || a.output.verbose {
				if err := a.print(table{rows: [][]string{{word, s.Path, s.Token, left.String()}}, json: answer}); err != nil {
					return err
				}
			}
			if !held {
				return exit.With(exit.Lost, nil)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&file, "state", "", "`file` that zkr maintains for the program")
	return cmd
}
