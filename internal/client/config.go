package client

import (
	"context"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/session"
)

// Config is what package conn makes of a connect string and its options.
type Config struct {
	session.Config
	Servers   []string                                                          // host:port; a host is an address or a name
	Source    *Source                                                           // nil if they do not change
	Lookup    func(ctx context.Context, host string) ([]string, error)          // the addresses of a host; nil if Dial takes names
	Members   func(config []byte) (version uint64, servers []string, err error) // reads the configuration of the ensemble; nil if it is not followed
	Identity  string
	Prefers   func(server string) bool // which servers to try first, by their names; nil if all are alike
	Rebalance time.Duration            // within which a client moves to another server for the sake of balance; 0 is never
}

// Source says which servers there are, instead of those that a client began with.
type Source struct {
	Name    string
	Servers func(ctx context.Context) ([]string, error) // host:port; the error says why there are none, or not all
}
