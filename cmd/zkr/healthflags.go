package main

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/exit"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/health"
)

// checkFlags are the flags of a health check.
type checkFlags struct {
	check             string
	interval, timeout duration
	failures          int
}

// add adds the flags. The verb describes what a check is and what follows when it fails.
func (c *checkFlags) add(flags *pflag.FlagSet, check, is, follows string) {
	c.interval, c.timeout = duration(time.Second), duration(2*time.Second)
	flags.StringVar(&c.check, "check", check, is)
	flags.Var(&c.interval, "check-interval", "time between checks")
	flags.Var(&c.timeout, "check-timeout", "time after which a check fails")
	flags.IntVar(&c.failures, "check-failures", 3, follows)
}

// probe validates the flags and returns the probe of a program that listens on port; port 0 means that zkr knows of
// none.
func (c *checkFlags) probe(port int) (*health.Probe, error) {
	if c.failures < 1 || c.interval <= 0 || c.timeout <= 0 {
		return nil, exit.Usagef("--check-failures, --check-interval and --check-timeout: want more than 0")
	}
	check, err := health.ParseCheck(c.check, port)
	if err != nil {
		return nil, exit.Usagef("--check %v", err)
	}
	return &health.Probe{
		Check: check, Interval: time.Duration(c.interval), Timeout: time.Duration(c.timeout),
		Failures: c.failures,
	}, nil
}
