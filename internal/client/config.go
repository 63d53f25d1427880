package client

import (
	"context"

	"github.com/zkrecipes/zkrecipes/internal/session"
)

// Config is what package conn makes of a connect string and its options.
type Config struct {
	session.Config
	Servers  []string                                                 // host:port; a host is an address or a name
	Lookup   func(ctx context.Context, host string) ([]string, error) // the addresses of a host; nil if Dial takes names
	Identity string
}
