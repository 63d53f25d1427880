package client

import (
	"context"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/session"
)

// Config is what package conn makes of a connect string and its options.
type Config struct {
	session.Config
	Servers []string // host:port; a host is an address or a name
	Source  *Source  // nil if the servers do not change
	// Returns the addresses of a host; nil if Dial takes names.
	Lookup func(ctx context.Context, host string) ([]string, error)
	// Reads the configuration of the ensemble; nil if it is not followed.
	Members  func(config []byte) (version uint64, servers []string, err error)
	Identity string
	Prefers  func(server string) bool // which servers to try first, by name; nil for no preference
	// The period within which a client moves to another server for balance; 0 means never.
	Rebalance time.Duration
}

// Source returns the current servers, which replace those the client started with.
type Source struct {
	Name string
	// Host:port; the error is the reason there are none, or not all.
	Servers func(ctx context.Context) ([]string, error)
}
