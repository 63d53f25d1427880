package main

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/exit"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/health"
)

// checkFlags say how to see whether a program serves.
type checkFlags struct {
	check             string
	interval, timeout duration
	failures          int
}

// add adds the flags. Their verb says what a check is, and what follows from failures.
func (c *checkFlags) add(flags *pflag.FlagSet, check, is, follows string) {
	c.interval, c.timeout = duration(time.Second), duration(2*time.Second)
	flags.StringVar(&c.check, "check", check, is)
	flags.Var(&c.interval, "check-interval", "time between two checks")
	flags.Var(&c.timeout, "check-timeout", "a check that takes longer fails")
	flags.IntVar(&c.failures, "check-failures", 3, follows)
}

// probe returns the checked flags, for a program with a port; 0 is none that zkr knows.
func (c *checkFlags) probe(port int) (*health.Probe, error) {
	if c.failures < 1 || c.interval <= 0 || c.timeout <= 0 {
		return nil, exit.Usagef("--check-failures, --check-interval and --check-timeout: want more than 0")
	}
	check, err := health.ParseCheck(c.check, port)
	if err != nil {
		return nil, exit.Usagef("--check %v", err)
	}
	return &health.Probe{Check: check, Interval: time.Duration(c.interval), Timeout: time.Duration(c.timeout), Failures: c.failures}, nil
}
