package session

import (
	"context"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/lifetime"
)

// Config is what package conn makes of a connect string and its options.
type Config struct {
	lifetime.Config
	Servers    []string                                                 // host:port; a host is an address or a name
	Chroot     string                                                   // "" for none
	MaxRequest int                                                      // bytes; 0 is 1 MiB less 4 KiB
	Lookup     func(ctx context.Context, host string) ([]string, error) // the addresses of a host; nil if Dial takes names
	ACL        []zk.ACL
	Identity   string
}
